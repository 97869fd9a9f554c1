"""The worst cases with what the model said, for the terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from pytest_elo._text import printable
from pytest_elo.records import MODEL_STATUSES, Outcome
from pytest_elo.report.build import Report

__all__ = ["failure_lines", "worst"]

LINES_AT_MOST = 25
WIDTH = 100


def worst(report: Report, n: int) -> list[Outcome]:
    """The ``n`` failed outcomes of the items that most strategies fail, the lowest score first."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for outcome in report.outcomes:
        if outcome.status in MODEL_STATUSES:
            scores[outcome.task_id, outcome.item_id].append(outcome.score)
    failed = [outcome for outcome in report.outcomes if outcome.status in MODEL_STATUSES and outcome.score < 1]

    def badness(outcome: Outcome) -> tuple[float, float, str, str, str, int]:
        of_item = scores[outcome.task_id, outcome.item_id]
        mean = sum(of_item) / len(of_item)
        return outcome.score, mean, outcome.task_id, outcome.item_id, outcome.strategy, outcome.repeat

    return sorted(failed, key=badness)[:n]


def failure_lines(report: Report, n: int) -> Iterator[str]:
    """Each case under a rule of its own; control characters of a reply cannot reach the terminal."""
    cases = worst(report, n)
    yield f"the {len(cases)} worst cases:" if cases else "no case failed"
    for outcome in cases:
        name = printable(f"{outcome.task_id}/{outcome.item_id} under {outcome.strategy}, repeat {outcome.repeat}")
        yield f"--- {name}: {outcome.status}, score {outcome.score:g} ".ljust(WIDTH, "-")
        yield f"answer {_plain(str(outcome.answer))}, expected {_plain(str(outcome.expected))}"
        yield from _output(outcome.output or "")


def _output(text: str) -> Iterator[str]:
    lines = text.splitlines() or ["(no output)"]
    yield from (f"  {_plain(line)}" for line in lines[:LINES_AT_MOST])
    if len(lines) > LINES_AT_MOST:
        yield f"  ... {len(lines) - LINES_AT_MOST} more lines in failures.jsonl"


def _plain(text: str) -> str:
    return printable(text.replace("\n", " "))[:400]
