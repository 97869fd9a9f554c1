"""The files of a run directory besides the ledger: fixed names, fixed columns, no clock in the rating's."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_elo.ledger.lines import present
from pytest_elo.ledger.read import read_outcomes
from pytest_elo.ledger.rundir import RunDir, write_atomically
from pytest_elo.ledger.totals import by_strategy, by_task_strategy
from pytest_elo.records import GOOD_STATUSES, Outcome
from pytest_elo.report.arena import arena_documents
from pytest_elo.report.budget import budgets_of
from pytest_elo.report.build import GATES, Report
from pytest_elo.report.columns import comparison_records
from pytest_elo.report.flags import flags_of
from pytest_elo.report.markdown import markdown
from pytest_elo.report.metrics import metrics

__all__ = ["elo_csv", "elo_document", "elo_json", "write_files"]

HEADER_FACTS = ("answers", "mode", "model", "host", "seed", "repeats", "strategies", "ladders", "anchor")
"""What of ``run.json`` stands in ``elo.json``: everything that decides numbers, nothing with a clock."""

ELO_COLUMNS = (
    "strategy",
    "cross_task_elo",
    "delta_elo",
    "delta_elo_low",
    "delta_elo_high",
    "tokens_per_task",
    "elo_per_1k_token",
    "marginal_elo_per_1k",
    "between_task_sd",
    "score",
    "items",
    "penalised",
    "marks",
    "usd_per_item",
    "elo_per_usd",
)


def write_files(report: Report, path: Path, *, with_page: bool = True) -> None:
    """Write every result file of the run directory, each atomically; the page takes a second to draw."""
    strategies, tasks = by_strategy(report.totals), by_task_strategy(report.totals)
    write_atomically(path / "tokens_by_strategy.json", _json(strategies))
    write_atomically(path / "tokens_by_strategy.csv", _csv(strategies))
    write_atomically(path / "tokens_by_task_strategy.json", _json(tasks))
    write_atomically(path / "tokens_by_task_strategy.csv", _csv(tasks))
    records = comparison_records(report.comparisons)
    write_atomically(path / "pairwise.json", _json_lines(row.to_dict() for row in records))
    write_atomically(path / "failures.jsonl", _failures(_whole_outcomes(report, path)))
    write_atomically(path / "elo.json", elo_json(report))
    write_atomically(path / "elo.csv", elo_csv(report))
    if report.gates:
        write_atomically(path / GATES, _json({"v": 1, "gates": [result.to_dict() for result in report.gates]}))
    write_atomically(path / "metrics.txt", metrics(report))
    write_atomically(path / "report.md", markdown(report))
    if with_page:
        from pytest_elo.report.page import page

        write_atomically(path / "report.html", page(report))


def elo_document(report: Report) -> dict[str, Any]:
    """The rating with all its parts, and the facts that decide it; identical for identical rows."""
    facts = {name: report.header[name] for name in HEADER_FACTS if name in report.header}
    conditions = {outcome.task_id: outcome.condition for outcome in report.outcomes}
    rating = dataclasses.asdict(report.rating) if report.rating is not None else None
    dropped = [
        {"task": task, "strategy": strategy, "status": status, "count": count}
        for (task, strategy, status), count in report.dropped.counts.items()
    ]
    budgets = budgets_of(report)
    return {
        "v": 1,
        "run": facts,
        "conditions": dict(sorted(conditions.items())),
        "dropped": dropped,
        "flags": flags_of(report),
        "unrated": report.unrated,
        "rating": rating,
        **({"arenas": arena_documents(report.arenas)} if report.arenas else {}),
        "equal_budgets": dataclasses.asdict(budgets) if budgets is not None else None,
        "online_elo": dataclasses.asdict(report.online) if report.online is not None else None,
    }


def elo_json(report: Report) -> str:
    return _json(elo_document(report))


def elo_csv(report: Report) -> str:
    return _csv(_elo_rows(report), ELO_COLUMNS)


def _elo_rows(report: Report) -> list[dict[str, Any]]:
    if report.rating is None:
        return []
    flags = flags_of(report)
    marginals = {step.upper: step.marginal.value for ladder in report.rating.ladders for step in ladder.steps}
    return [
        {
            "strategy": policy.policy,
            "cross_task_elo": _round(None if policy.delta.value is None else 1000 + policy.delta.value, 2),
            "delta_elo": _round(policy.delta.value, 2),
            "delta_elo_low": _round(policy.delta.interval.low if policy.delta.interval else None, 2),
            "delta_elo_high": _round(policy.delta.interval.high if policy.delta.interval else None, 2),
            "tokens_per_task": _round(policy.tokens_per_item, 1),
            "elo_per_1k_token": _round(policy.elo_per_1k.value, 4),
            "marginal_elo_per_1k": _round(marginals.get(policy.policy), 4),
            "between_task_sd": _round(policy.between_task_sd, 2),
            "score": _round(policy.score, 4),
            "items": policy.n_items,
            "penalised": policy.penalised,
            "marks": " ".join(flags.get(policy.policy, ())),
            "usd_per_item": _round(policy.usd_per_item, 6),
            "elo_per_usd": _round(policy.elo_per_usd.value, 2),
        }
        for policy in report.rating.policies
    ]


def _whole_outcomes(report: Report, path: Path) -> Iterable[Outcome]:
    """From the file again where there is one: a report in memory may have cut what models said."""
    stored = RunDir(path).outcomes
    if not present(stored).exists():
        return report.outcomes
    return read_outcomes(stored, lambda _: None, passing_over=GOOD_STATUSES)


def _failures(outcomes: Iterable[Outcome]) -> Iterator[str]:
    return (
        json.dumps(
            {
                "task_id": outcome.task_id,
                "item_id": outcome.item_id,
                "strategy": outcome.strategy,
                "repeat": outcome.repeat,
                "status": outcome.status,
                "score": outcome.score,
                "answer": outcome.answer,
                "expected": outcome.expected,
                "detail": outcome.detail,
                "finish_reason": outcome.finish_reason,
                "output": outcome.output,
                "model": outcome.model,
                "condition": outcome.condition,
                "prompt_sha256": outcome.prompt_sha256,
                "response_sha256": outcome.response_sha256,
                "call_ids": list(outcome.call_ids),
            }
        )
        + "\n"
        for outcome in outcomes
        if outcome.status not in GOOD_STATUSES
    )


def _round(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _json_lines(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The bytes of ``_json`` for a list, one record at a time."""
    opening = "["
    for record in records:
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        yield opening + "\n " + text.replace("\n", "\n ")
        opening = ","
    yield "[]\n" if opening == "[" else "\n]\n"


def _csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    names = list(columns) or (list(rows[0]) if rows else [])
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
