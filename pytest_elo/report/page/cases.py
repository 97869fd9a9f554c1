"""What the page's heat map and reader show: every outcome in short, every failed one as far as there is room."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_elo.ledger.totals import Cell
from pytest_elo.records import POLICY_ROLES, Attempt, Outcome
from pytest_elo.report.build import Report
from pytest_elo.report.flags import labels
from pytest_elo.report.tables import ordered

__all__ = ["CASES_BUDGET", "page_data"]

CASES_BUDGET = 620_000
"""Bytes for failed cases: what 10,000 outcomes leave of a page of 1.5 MB that a mail or a CI artefact carries."""

OUTPUT_LIMITS = (0, 200, 400, 800, 1_500, 3_000, 6_000, 12_000, 20_000)
SHORT = 160
ATTEMPTS_AT_MOST = 40


def page_data(report: Report) -> dict[str, Any]:
    """Plain JSON: names once, then rows of codes; ``cases`` by the number of their outcome."""
    tasks = sorted({outcome.task_id for outcome in report.outcomes})
    present = {outcome.strategy for outcome in report.outcomes}
    known = [row.policy for row in ordered(report.rating)] if report.rating else []
    strategies = [name for name in known if name in present]
    strategies += sorted(present - set(strategies))
    items = sorted({(outcome.task_id, outcome.item_id) for outcome in report.outcomes})
    statuses = sorted({outcome.status for outcome in report.outcomes})
    item_code = {item: code for code, item in enumerate(items)}
    costs = report.totals.cells
    cases, limit, left_out = _fitting(report)
    names = labels(report)
    return {
        "tasks": tasks,
        "strategies": [names.get(name, name) for name in strategies],
        "statuses": statuses,
        "items": [[tasks.index(task), item] for task, item in items],
        "outcomes": [
            [
                item_code[outcome.task_id, outcome.item_id],
                strategies.index(outcome.strategy),
                outcome.repeat,
                statuses.index(outcome.status),
                round(outcome.score, 4),
                costs.get((outcome.task_id, outcome.item_id, outcome.strategy, outcome.repeat), Cell()).total_tokens,
            ]
            for outcome in report.outcomes
        ],
        "cases": cases,
        "output_limit": limit,
        "cases_left_out": left_out,
    }


def _fitting(report: Report) -> tuple[dict[str, Any], int, int]:
    """Cases within ``CASES_BUDGET``: (cases, characters of output kept, number left out)."""
    failed = [(number, outcome) for number, outcome in enumerate(report.outcomes) if outcome.status != "correct"]
    attempts = _attempts(report, {_place(outcome) for _, outcome in failed})
    best = _cases(failed, {}, 0)
    sizes = [len(json.dumps(case)) + len(key) + 6 for key, case in best.items()]
    if sum(sizes) > CASES_BUDGET:
        return _first(best, sizes)
    chosen = 0
    for limit in OUTPUT_LIMITS:
        found = _cases(failed, attempts, limit)
        if len(json.dumps(found)) > CASES_BUDGET:
            break
        best, chosen = found, limit
    return best, chosen, 0


def _first(cases: Mapping[str, Any], sizes: Sequence[int]) -> tuple[dict[str, Any], int, int]:
    kept: dict[str, Any] = {}
    room = CASES_BUDGET
    for (key, case), size in zip(cases.items(), sizes, strict=True):
        room -= size
        if room < 0:
            break
        kept[key] = case
    return kept, 0, len(cases) - len(kept)


def _cases(
    failed: Sequence[tuple[int, Outcome]], attempts: Mapping[Any, Sequence[Any]], limit: int
) -> dict[str, dict[str, Any]]:
    return {str(number): dict(_case(outcome, attempts.get(_place(outcome), ()), limit)) for number, outcome in failed}


def _case(outcome: Outcome, attempts: Sequence[Any], limit: int) -> Iterator[tuple[str, Any]]:
    """Only what is there: a key without a value costs bytes ten thousand times."""
    for name in ("answer", "expected", "detail", "finish_reason"):
        value = getattr(outcome, name)
        if value:
            yield name, str(value)[:SHORT]
    if outcome.marks:
        yield "marks", list(outcome.marks)
    if outcome.output and limit:
        yield "output", outcome.output[:limit]
        if len(outcome.output) > limit:
            yield "cut", len(outcome.output)
    if attempts:
        shown = outcome.output or ""
        yield (
            "attempts",
            [
                facts if not limit or not text or shown.startswith(text) else [*facts, text[:limit]]
                for *facts, text in attempts
            ],
        )


def _place(record: Outcome | Attempt) -> tuple[str, str, str, int]:
    return record.task_id, record.item_id, record.strategy, record.repeat


def _attempts(report: Report, wanted: set[tuple[str, str, str, int]]) -> dict[Any, list[Any]]:
    """place -> [role, sample, attempt, how it ended, tokens, kept, what was said], in the ledger's order."""
    found: dict[Any, list[Any]] = defaultdict(list)
    for row in report.watched:
        place = _place(row)
        if place in wanted and row.role in POLICY_ROLES and len(found[place]) < ATTEMPTS_AT_MOST:
            ended = row.finish_reason or row.status if row.status == "ok" else row.error_kind or row.status
            text = report.texts.get(row.call_id, "") if row.status == "ok" else ""
            found[place].append([row.role, row.sample, row.attempt, ended, row.total_tokens, row.kept, text])
    return found
