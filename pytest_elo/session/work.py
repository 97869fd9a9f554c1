"""What the engine does for a key: run one strategy on an item, or all of a contest's and then its judges."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_elo.errors import GatewayError, NotRecordedError
from pytest_elo.ledger.prices import usd_of
from pytest_elo.records import Answer, Grade, Problem, Tag
from pytest_elo.session.contest import ContestKey, ContestResult
from pytest_elo.session.trial import TrialKey, TrialResult, grade_of
from pytest_elo.strategies.run import run

if TYPE_CHECKING:
    from pytest_elo.gateway.client import BoundAsk
    from pytest_elo.session.asking import TurnAsk
    from pytest_elo.session.runner import Runner
    from pytest_elo.tasks.arena import Contestant, Judge, Pairing, Ruling

__all__ = ["Work", "pair_tag"]


class Work:
    """Called on the engine's loop, once a key."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def __call__(self, key: TrialKey | ContestKey) -> TrialResult | ContestResult:
        return await (self._contest(key) if isinstance(key, ContestKey) else self._trial(key))

    def _ask(self, key: TrialKey | ContestKey, tag: Tag) -> tuple[BoundAsk, TurnAsk]:
        from pytest_elo.session.asking import TurnAsk

        runner = self._runner
        bound = runner.gateway.ask_as(tag, model=runner.plan.model)
        rerun = 0 if runner.plan.mode == "replay" else runner.reruns(key)
        return bound, TurnAsk(bound, runner.engine, tag, runner.settings.seed, rerun, runner.budget)

    async def _trial(self, key: TrialKey) -> TrialResult:
        problem = key.task.pose(key.item_id, key.repeat)
        unfit = await _preflight(problem)
        if unfit is not None:
            return TrialResult(problem=problem, call_ids=(), status=unfit.status, reason=unfit.detail)
        bound, ask = self._ask(key, self._runner.tag(key))
        try:
            answer = await run(key.spec.kind, problem, ask, key.spec.parameters)
        except (Exception, asyncio.CancelledError) as error:
            self._runner.refuse_if_stopping()
            status, reason = _blame(error)
            calls = self._settle(bound, kept=())
            return TrialResult(
                problem=problem, call_ids=calls, **self._cost(bound), status=status, reason=reason, error=error
            )
        calls = self._settle(bound, answer.kept)
        result = TrialResult(problem=problem, call_ids=calls, **self._cost(bound), answer=answer)
        try:
            return replace(result, grade=await _graded(problem, ask, answer))
        except (Exception, asyncio.CancelledError) as error:
            self._runner.refuse_if_stopping()
            return _unjudged(result, "the answer could not be judged", error)

    def _cost(self, ask: BoundAsk) -> dict[str, Any]:
        prices = self._runner.settings.prices
        rows = [row for call in ask.calls if call.tag.role != "judge" for row in call.attempts]
        usd = sum(usd_of(row, prices) or 0.0 for row in rows) if prices else 0.0
        return {"tokens": sum(row.total_tokens for row in rows), "usd": usd}

    def _settle(self, ask: BoundAsk, kept: Sequence[str]) -> list[str]:
        calls = [call.call_id for call in ask.calls if call.tag.role != "judge"]
        self._runner.journal.settle({call_id: call_id in kept for call_id in calls})
        return calls

    async def _contest(self, key: ContestKey) -> ContestResult:
        from pytest_elo.tasks.arena.judging import together

        if self._runner.plan.mode == "embedded":
            # one slot answers: side by side there is only a queue, and what two strategies share is bought twice
            results = [await self._trial(trial) for trial in key.trials]
        else:
            results = await together([self._trial(trial) for trial in key.trials])
        pairings = key.pairings(self._runner.settings.anchor)
        self._runner.journal.contest(key.facts(pairings))
        try:
            rulings = await self._judged(key, results, pairings)
        except (Exception, asyncio.CancelledError) as error:
            self._runner.refuse_if_stopping()
            return ContestResult(tuple(_unjudged(result, "the pairs could not be judged", error) for result in results))
        return ContestResult(tuple(results), rulings)

    async def _judged(
        self, key: ContestKey, results: Sequence[TrialResult], pairings: Sequence[Pairing]
    ) -> tuple[Ruling, ...]:
        from pytest_elo.tasks.arena import judge_pairings, judges_of
        from pytest_elo.votes.verdicts import votes_of

        task, runner = key.task, self._runner
        if task.by_people or task.plan == "adaptive":
            return ()
        names = task.judges or (runner.plan.model,)
        contestants = [
            _contestant(trial, result, runner.plan.model) for trial, result in zip(key.trials, results, strict=True)
        ]

        def judges(pairing: Pairing) -> Sequence[Judge]:
            tag = pair_tag(key.task_id, pairing, key.repeat, runner.condition(key))
            return judges_of(task, self._ask(key, tag)[1], runner.plan.model)

        def settled(ruling: Ruling) -> None:
            for vote in votes_of(ruling.verdict, ruling.pair, names):
                runner.journal.vote(vote.to_dict(), runner.reruns(key))
            runner.journal.settle(ruling.verdict.used_calls)

        return await judge_pairings(task, pairings, contestants, judges, repeat=key.repeat, settled=settled)


def pair_tag(task_id: str, pairing: Pairing, repeat: int, condition: str) -> Tag:
    """Who pays for the judges of a pair: no policy. Two pairs never share a recorded verdict by accident."""
    names = " vs ".join(sorted((pairing.a, pairing.b)))
    return Tag(task_id, pairing.item_id, names, repeat, role="judge", condition=condition)


def _contestant(key: TrialKey, result: TrialResult, model: str) -> Contestant:
    from pytest_elo.tasks.arena import ANSWERED, Contestant
    from pytest_elo.tasks.parsing import visible

    status = grade_of(result).status
    text = visible(result.answer.reply.text).strip() if result.answer else ""
    failed = None if status == ANSWERED else status
    return Contestant(policy=key.strategy, text=text, model=model, failed=failed)


def _unjudged(result: TrialResult, what: str, error: BaseException) -> TrialResult:
    """Whatever became of the judge's call, it is not the doing of the policies that are judged."""
    status = "config_error" if _blame(error)[0] == "config_error" else "infra_error"
    return replace(result, status=status, reason=f"{what}: {error}", error=error)


async def _preflight(problem: Problem) -> Grade | None:
    """Why the item's environment cannot grade any answer, found out before the model is asked."""
    preflight = getattr(problem, "preflight", None)
    if preflight is None:
        return None
    unfit: Grade | None = await asyncio.to_thread(preflight)
    return unfit


async def _graded(problem: Problem, ask: Any, answer: Answer) -> Grade | None:
    """The grade of a problem that needs a model to grade; the others grade in the test."""
    grade_with = getattr(problem, "grade_with", None)
    if grade_with is None:
        return None
    from pytest_elo.session.asking import JudgeAsk

    grade: Grade = await grade_with(JudgeAsk(ask), answer.reply)
    return grade


def _blame(error: BaseException) -> tuple[str, str]:
    """Status and reason of a trial whose strategy raised: only the model's own failures are scored."""
    if isinstance(error, NotRecordedError):
        return "infra_error", str(error)
    if isinstance(error, GatewayError):
        return error.status, str(error)
    return "infra_error", f"the strategy raised {error!r}"
