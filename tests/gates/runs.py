"""Runs made of outcomes, without a session: what gates see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_elo.gates.judged import JudgedRun
from pytest_elo.records import Attempt, Outcome
from pytest_elo.report.build import Report, build_from
from pytest_elo.report.judging import judged_run

Scores = Mapping[tuple[str, str], Sequence[float]]
"""(task, strategy) -> one score an item"""

HEADER: dict[str, Any] = {"identity": "host", "seed": 0, "ladders": [["baseline", "r3"]], "anchor": "baseline"}


def report_of(scores: Scores, *, header: Mapping[str, Any] | None = None, **options: Any) -> Report:
    """A report over made-up rows; ``statuses`` overrides single (task, strategy, item number)."""
    attempts, outcomes = rows_of(scores, **options)
    return build_from({**HEADER, **(header or {})}, attempts, outcomes, (), {})


def rows_of(
    scores: Scores,
    *,
    tokens: int = 100,
    statuses: Mapping[tuple[str, str, int], str] | None = None,
    marks: Mapping[str, Sequence[str]] | None = None,
    prompt: str = "p",
    grading: str = "g",
    judge: str | None = None,
) -> tuple[list[Attempt], list[Outcome]]:
    outcomes, attempts = [], []
    for (task, strategy), values in scores.items():
        for number, score in enumerate(values):
            item = f"i{number:03d}"
            status = "correct" if score == 1 else "wrong" if score == 0 else "partial"
            status = (statuses or {}).get((task, strategy, number), status)
            outcomes.append(
                Outcome(
                    task_id=task, item_id=item, strategy=strategy, model="m", status=status, score=score,
                    prompt_sha256=f"{prompt}{number}", grading_sha256=f"{grading}{number}",
                    marks=tuple((marks or {}).get(strategy, ())),
                )
            )  # fmt: skip
            attempts.append(_attempt(task, item, strategy, tokens, "m", "generate"))
            if judge is not None:
                attempts.append(_attempt(task, item, "judge", tokens, judge, "judge"))
    return attempts, outcomes


def run_of(scores: Scores, **options: Any) -> JudgedRun:
    return judged_run(report_of(scores, **options), declared=("baseline", "r3", "r5"))


def _attempt(task: str, item: str, strategy: str, tokens: int, model: str, role: str) -> Attempt:
    return Attempt(
        ts="", task_id=task, strategy=strategy, model=model, total_tokens=tokens, total_tokens_high=tokens,
        call_id=f"{task}/{item}/{strategy}/{role}", item_id=item, role=role, status="ok", kept=True,
    )  # fmt: skip
