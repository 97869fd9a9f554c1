"""What the terminal shows of a run after pytest's own summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_elo._text import printable
from pytest_elo.ledger.fold import Ledger
from pytest_elo.records import POLICY_ROLES

if TYPE_CHECKING:
    from pytest_elo.session.controller import Controller

__all__ = ["bought_and_unused", "lines"]

SHOWN = 5
"""Items that are named of those that came to no end."""


def lines(run: Controller) -> Iterator[str]:
    """Notices, the tables, and everything of the run that did not go as planned; nothing in it steers a terminal."""
    return map(printable, _lines(run))


def _lines(run: Controller) -> Iterator[str]:
    yield from (f"elo: {notice}" for notice in run.notices)
    if run.plan is None:
        return
    if run.report is not None:
        from pytest_elo.report.table import lines as table

        yield from table(run.report)
        if run.top_failures:
            from pytest_elo.report.failures import failure_lines

            yield from failure_lines(run.report, run.top_failures)
    if run.problem is not None:
        yield f"ERROR: {run.problem}"
    yield from _unfinished(run)
    if run.lost_workers:
        workers = "1 worker" if run.lost_workers == 1 else f"{run.lost_workers} workers"
        yield f"elo: {workers} died; their rows were swept from their journals"
    yield from _unused(run.ledger, "" if run.problem else "; --elo-resume uses them, nothing is bought twice")
    if run.shard is not None:
        yield f"elo: {_part(run.ledger, str(run.shard))}; join the shards with: pytest-elo merge DIR... --out DIR"
    if run.ledger.attempts():
        yield f"elo: run directory {run.short(run.run_dir.path)}"


def _part(ledger: Ledger, shard: str) -> str:
    here, all_shards = (
        sum(n for strategies in counts.values() for n in strategies.values())
        for counts in (ledger.expected, ledger.whole or {})
    )
    return f"shard {shard} holds {here} of {all_shards} outcomes and judges no gate"


def _unfinished(run: Controller) -> Iterator[str]:
    missing, expected = run.arrivals.missing(), len(run.arrivals.expected)
    if run.stop_reason is not None:
        yield f"elo: {run.stop_reason}" + (f"; {len(missing)} of {expected} items did not run" if expected else "")
    elif missing:
        named = ", ".join(missing[:SHOWN]) + (", ..." if len(missing) > SHOWN else "")
        yield f"elo: {len(missing)} of {expected} items came to no end: {named}"


def _unused(ledger: Ledger, remedy: str) -> Iterator[str]:
    items, tokens = bought_and_unused(ledger)
    if items:
        which = "1 item was" if items == 1 else f"{items} items were"
        yield f"elo: {which} bought and not used ({tokens:,} tokens){remedy}"


def bought_and_unused(ledger: Ledger) -> tuple[int, int]:
    """(trials, tokens) that were answered and have no outcome: bought ahead of a stop, or lost in a crash."""
    used = set(ledger.outcome_keys())
    unused: dict[tuple[str, str, str, int], int] = {}
    for row in ledger.rows():
        place = (row["task_id"], row["item_id"], row["strategy"], row["repeat"])
        is_bought = row["status"] == "ok" and row["role"] in POLICY_ROLES and not row["task_id"].startswith("(")
        if is_bought and place not in used:
            unused[place] = unused.get(place, 0) + row["total_tokens"]
    return len(unused), sum(unused.values())
