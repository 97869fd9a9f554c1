"""Two runs side by side: as text for the terminal, Markdown for a pull request, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_elo._text import printable
from pytest_elo.errors import DataError
from pytest_elo.gates.changes import Change, Difference, changes
from pytest_elo.gates.pairing import require_comparable
from pytest_elo.gates.snapshot import Snapshot
from pytest_elo.report.numbers import plain, signed
from pytest_elo.report.typeset import typeset

__all__ = ["FORMATS", "RunComparison", "compare", "render"]

FORMATS = ("text", "md", "json")
NAMED_AT_MOST = 12


@dataclass(frozen=True, slots=True)
class RunComparison:
    before: Snapshot
    after: Snapshot
    level: float
    changes: Sequence[Change]
    remarks: Sequence[str]


def compare(before: Snapshot, after: Snapshot, allowed: Collection[str], level: float) -> RunComparison:
    """Raises ``ConfigError`` for runs of different conditions, ``DataError`` where no item is in both."""
    left_out = list(_left_out((before, after)))
    remarks = [*require_comparable(after, before, allowed), *left_out]
    found = changes(before, after, level)
    if not found:
        shared_none = f"{before.name} and {after.name} share no item that both have scored"
        raise DataError("; ".join((shared_none, *left_out)))
    return RunComparison(before, after, level, found, remarks)


def _left_out(runs: Sequence[Snapshot]) -> Iterator[str]:
    for run in runs:
        counts = [(task, f"{n} {status}", n) for task, found in run.unscored.items() for status, n in found.items()]
        if counts:
            named = ", ".join(f"{task} {text}" for task, text, _ in counts)
            total = sum(n for _, _, n in counts)
            yield f"{run.name}: {total} outcomes have no score and are in no row here ({named}); its report has them"


def render(comparison: RunComparison, form: str) -> str:
    """The comparison as one of ``FORMATS``, ending in a newline."""
    if form == "json":
        return json.dumps(_document(comparison), indent=1, ensure_ascii=False) + "\n"
    lines = list(_heading(comparison))
    lines += ["", _table(comparison, "pipe" if form == "md" else "simple"), ""]
    details = [*comparison.remarks, *(line for change in comparison.changes for line in _details(change))]
    text = "\n".join(lines + [f"- {line}" if form == "md" else line for line in details]) + "\n"
    return printable(text)


def _heading(comparison: RunComparison) -> Iterator[str]:
    for word, run in (("from", comparison.before), ("to", comparison.after)):
        facts = ", ".join(text for text in (run.facts.answers, run.facts.started) if text)
        yield f"{word} {run.name}" + (f": {facts}" if facts else "")
        yield ""


def _table(comparison: RunComparison, style: str) -> str:
    priced = any(change.usd is not None for change in comparison.changes)
    rows = [
        [
            change.task or "all tasks",
            change.strategy,
            str(change.n_items),
            f"{change.score.before:.1f} -> {change.score.after:.1f}",
            _interval(change.score),
            str(len(change.worse)),
            str(len(change.better)),
            f"{plain(change.tokens.before, 0)} -> {plain(change.tokens.after, 0)}",
            _percent(change.tokens),
            *([_dollars(change.usd), "-" if change.usd is None else _percent(change.usd)] if priced else ()),
        ]
        for change in comparison.changes
    ]
    heads = [
        "task",
        "strategy",
        "items",
        "score, points",
        f"change [{comparison.level:.0%} interval]",
        "worse",
        "better",
        "tokens/item",
        "change",
        *(["USD/item", "change"] if priced else ()),
    ]
    align = ("left", "left", *("right" for _ in heads[2:]))
    return typeset(rows, heads, align, style)


def _interval(difference: Difference) -> str:
    if difference.low is None or difference.high is None:
        return signed(difference.value)
    return f"{signed(difference.value)} [{signed(difference.low)}, {signed(difference.high)}]"


def _dollars(difference: Difference | None) -> str:
    return "-" if difference is None else f"{difference.before:.4g} -> {difference.after:.4g}"


def _percent(difference: Difference) -> str:
    if not difference.before:
        return "-"
    return f"{100 * difference.value / difference.before:+.1f}%"


def _details(change: Change) -> Iterator[str]:
    name = f"{change.task or 'all tasks'}/{change.strategy}"
    if change.task is not None:
        for word, items in (("worse", change.worse), ("better", change.better)):
            if items:
                rest = f" and {len(items) - NAMED_AT_MOST} more" if len(items) > NAMED_AT_MOST else ""
                yield f"{name}: {len(items)} items {word}: {', '.join(items[:NAMED_AT_MOST])}{rest}"
    yield f"{name}: {_power(change)}"
    for remark in change.remarks:
        yield f"{name}: {remark}"


def _power(change: Change) -> str:
    if change.resolves is None:
        return f"{change.n_items} item resolves nothing"
    text = f"{change.n_items} items resolve ±{change.resolves:.1f} points"
    decided = change.score.low is not None and change.score.high is not None
    if decided and (change.score.low or 0.0) * (change.score.high or 0.0) > 0:
        return f"{text}; the difference is resolved"
    if change.needed is None:
        return f"{text}; no difference was seen"
    return f"{text}; a difference of {change.score.value:+.1f} would need {change.needed:,} items"


def _document(comparison: RunComparison) -> dict[str, Any]:
    return {
        "v": 1,
        "from": comparison.before.name,
        "to": comparison.after.name,
        "level": comparison.level,
        "remarks": list(comparison.remarks),
        "changes": [change.to_dict() for change in comparison.changes],
    }
