"""A trial: one item under one strategy in one repeat, from the collected parameter to its outcome."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_elo._text import printable, text_hash
from pytest_elo.config import Price, StrategySpec
from pytest_elo.ledger.prices import usd_of
from pytest_elo.records import GOOD_STATUSES, MODEL_STATUSES, UNSCORED, Answer, Grade, Message, Outcome, Problem, Task

if TYPE_CHECKING:
    from pytest_elo.gateway.context import CallRecord

__all__ = ["Posed", "Recorder", "Trial", "TrialKey", "TrialResult", "grade_of"]


OUTPUT_LIMIT = 20_000
"""Characters of a failed reply that travel with its outcome."""

_canonical = json.JSONEncoder(sort_keys=True, default=str).encode


@dataclass(frozen=True, slots=True)
class TrialKey:
    """What a pytest item stands for; the parameter of its test. Equal keys are the same trial."""

    task: Task = dataclasses.field(compare=False, repr=False)
    task_id: str
    item_id: str
    spec: StrategySpec = dataclasses.field(compare=False, repr=False)
    strategy: str
    repeat: int

    @property
    def place(self) -> tuple[str, str, str, int]:
        """Where its outcome stands among all outcomes of a run."""
        return (self.task_id, self.item_id, self.strategy, self.repeat)


@dataclass(frozen=True, slots=True)
class Recorder:
    """What an outcome says beyond its grade, and where it is journaled the moment it exists."""

    model: str
    condition: str
    strict: bool
    journal: Callable[[Outcome], None]
    run_dir: Path | None = None
    """Where a problem may leave what its grade rests on; ``None`` on a host that does not hold it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """What running a strategy brought: an answer, or the status and reason why there is none."""

    problem: Problem
    call_ids: Sequence[str]
    tokens: int = 0
    """Of all attempts of the trial's calls, judges' left out."""
    usd: float = 0.0
    """The same by the prices of ``elo.yaml``; models without a price are left out."""
    answer: Answer | None = None
    grade: Grade | None = None
    """Given already, by a model, where the task's answers need one to be graded."""
    status: str = "correct"
    reason: str | None = None
    error: BaseException | None = None


def grade_of(result: TrialResult) -> Grade:
    """The grade of what a strategy brought, also where it brought nothing."""
    if result.answer is None or result.status not in MODEL_STATUSES:
        return Grade(status=result.status, score=0.0, detail=result.reason)
    return result.grade or result.problem.grade(result.answer.reply)


class Posed:
    """Base of the ``trial`` and ``problem`` fixtures: the posed problem and a place for its outcome."""

    def __init__(self, key: TrialKey, problem: Problem, recorder: Recorder) -> None:
        self._key = key
        self._recorder = recorder
        self._problem = problem
        self.outcome: Outcome | None = None
        """Set once by ``score`` (or ``Trial.grade``)."""
        self.direct_calls: Sequence[CallRecord] = ()
        """What the test itself asks through ``client``."""

    @property
    def call_ids(self) -> Sequence[str]:
        """The calls of a strategy; a test's own are not among them."""
        return ()

    @property
    def tokens(self) -> int:
        """What the item has cost so far in this test."""
        return sum(row.total_tokens for call in self.direct_calls for row in call.attempts)

    def usd(self, prices: Mapping[str, Price]) -> float:
        """What the item has cost so far in USD; models without a price are left out."""
        return sum(usd_of(row, prices) or 0.0 for call in self.direct_calls for row in call.attempts)

    @property
    def is_recorded(self) -> bool:
        return self.outcome is not None

    @property
    def status(self) -> str | None:
        """How the item came out; ``None`` before it has an outcome."""
        return None if self.outcome is None else self.outcome.status

    def properties(self) -> dict[str, object]:
        """What JUnit XML and JSON reports tell of the outcome; to be asked once there is one."""
        assert self.outcome is not None
        return {
            "strategy": str(self.outcome.strategy),
            "status": str(self.outcome.status),
            "score": float(self.outcome.score),
        }

    @property
    def item_id(self) -> str:
        return self._key.item_id

    @property
    def strategy(self) -> str:
        return self._key.strategy

    @property
    def repeat(self) -> int:
        return self._key.repeat

    @property
    def messages(self) -> Sequence[Message]:
        """The prompt as chat messages."""
        return self._problem.messages

    def score(self, value: float | bool, *, answer: str | None = None, detail: str | None = None) -> Outcome:
        """Record the item's score in [0, 1]: 1 is correct, 0 wrong, anything between partial.

        Raises ``ValueError`` for a score outside [0, 1] or a second score.
        """
        number = float(value)
        if not 0 <= number <= 1:
            raise ValueError(f"a score is a number from 0 to 1, not {value!r}")
        status = "correct" if number == 1 else "wrong" if number == 0 else "partial"
        return self._record(Grade(status=status, score=number, answer=answer, detail=detail))

    def _output(self) -> str | None:
        return None

    def _told(self, grade: Grade) -> str:
        return f"{grade.status}: answered {grade.answer!r}, score {grade.score:g}"

    def _prompt(self) -> str:
        told = getattr(self._problem, "prompt_identity", None)
        return told if told is not None else _canonical(list(self.messages))

    def _grading(self) -> str | None:
        rules = getattr(self._problem, "grading_rules", None)  # a user's own task need not say
        return None if rules is None else _sha256(_canonical(rules))

    def _evidence(self) -> dict[str, Any]:
        """Fields of the outcome that come from what the model was asked and said."""
        return {}

    def _record(self, grade: Grade) -> Outcome:
        if self.outcome is not None:
            raise ValueError("this item has its outcome already; grade or score it once")
        evidence = self._evidence()
        if getattr(self._key.task, "judged_in_pairs", False):
            evidence["marks"] = (*evidence.get("marks", ()), UNSCORED)
        self.outcome = Outcome(
            task_id=self._key.task_id,
            item_id=self._key.item_id,
            strategy=self._key.strategy,
            model=self._recorder.model,
            repeat=self._key.repeat,
            status=grade.status,
            score=grade.score,
            answer=grade.answer,
            expected=grade.expected,
            scores=dict(grade.scores),
            detail=grade.detail,
            prompt_sha256=_sha256(self._prompt()),
            grading_sha256=self._grading(),
            condition=self._recorder.condition,
            output=self._output() if grade.status != "correct" else None,
            **evidence,
        )
        self._recorder.journal(self.outcome)
        if self._recorder.strict and grade.status in MODEL_STATUSES and grade.status not in GOOD_STATUSES:
            pytest.fail(f"{self._told(grade)} (--elo-strict)", pytrace=False)
        return self.outcome


class Trial(Posed):
    """A trial whose strategy has run: the reply it settled on, ready to be graded."""

    def __init__(self, key: TrialKey, result: TrialResult, recorder: Recorder) -> None:
        super().__init__(key, result.problem, recorder)
        self._result = result

    @property
    def call_ids(self) -> Sequence[str]:
        return self._result.call_ids

    @property
    def tokens(self) -> int:
        return self._result.tokens + super().tokens

    def usd(self, prices: Mapping[str, Price]) -> float:
        return self._result.usd + super().usd(prices)

    @property
    def status(self) -> str:
        """That of the outcome; before there is one, whether the strategy ran at all."""
        return self._result.status if self.outcome is None else self.outcome.status

    def settle(self) -> Outcome:
        """Record what the strategy brought, whatever it is, and fail for nothing."""
        return self._record(grade_of(self._result))

    @property
    def text(self) -> str:
        """The reply the strategy settled on; empty when the model gave none."""
        return self._result.answer.reply.text if self._result.answer else ""

    def grade(self) -> Outcome:
        """Grade the reply by the task's own rules and record the outcome."""
        if self._result.answer is None:
            return self._unanswered()
        reply = self._result.answer.reply
        grade = self._result.grade or self._problem.grade(reply)
        leave = getattr(self._problem, "leave", None)
        if leave is not None and self._recorder.run_dir is not None:
            leave(reply, self._recorder.run_dir, self.strategy, self._recorder.model)
        outcome = self._record(grade)
        if outcome.status not in MODEL_STATUSES:
            pytest.fail(printable(f"{outcome.status}: {outcome.detail}"), pytrace=False)
        return outcome

    def score(self, value: float | bool, *, answer: str | None = None, detail: str | None = None) -> Outcome:
        if self._result.answer is None:
            return self._unanswered()
        return super().score(value, answer=answer, detail=detail)

    def fail_if_unfit(self) -> None:
        """Record and raise what was no doing of the model: an infrastructure or configuration error."""
        if self._result.status not in MODEL_STATUSES:
            if self.outcome is None:
                self._unanswered()
            if self._result.error is not None:
                raise self._result.error
            if self._result.status == "unfaithful":
                pytest.skip(printable(f"unfaithful: {self._result.reason}"))
            pytest.fail(printable(f"{self._result.status}: {self._result.reason}"), pytrace=False)

    def _unanswered(self) -> Outcome:
        return self._record(Grade(status=self._result.status, score=0.0, detail=self._result.reason))

    def _output(self) -> str | None:
        if self._result.answer is None:
            return None
        # people vote on an arena's answers, so they are kept whole
        return self.text if getattr(self._key.task, "judged_in_pairs", False) else self.text[:OUTPUT_LIMIT]

    def _told(self, grade: Grade) -> str:
        explain = getattr(self._problem, "explain", None)
        told: str | None = explain(self._result.answer.reply) if explain and self._result.answer else None
        return told or super()._told(grade)

    def _evidence(self) -> dict[str, Any]:
        evidence: dict[str, Any] = {"call_ids": tuple(self._result.call_ids)}
        if self._result.answer is not None:
            reply = self._result.answer.reply
            evidence |= {
                "finish_reason": reply.finish_reason,
                "response_sha256": _sha256(reply.text),
                "marks": tuple(self._result.answer.marks),
            }
        return evidence


def _sha256(text: str) -> str:
    return text_hash(text).hexdigest()
