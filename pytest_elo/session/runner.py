"""The runner: the role of every process that runs items. Journal, gateway, engine and the current item."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_elo.config import Settings, fingerprint
from pytest_elo.errors import EloError, GatewayError, NotRecordedError
from pytest_elo.ledger.journal import Journal
from pytest_elo.ledger.rundir import RunDir
from pytest_elo.records import Answer, Grade, Problem, Tag
from pytest_elo.session.collect import Collector
from pytest_elo.session.plan import Plan
from pytest_elo.session.trial import Posed, Recorder, Trial, TrialKey, TrialResult
from pytest_elo.session.upcoming import upcoming
from pytest_elo.strategies.asks import BoundParameters
from pytest_elo.strategies.run import run

if TYPE_CHECKING:
    from pytest_elo.engine import Engine
    from pytest_elo.gateway.client import BoundAsk, Gateway

__all__ = ["Runner"]

DRAIN_S = 30.0
"""How long calls in flight may take to finish when the session ends; they are paid for, so they are kept."""

UNRATED = "(unrated)"
"""Task and strategy of attempts made by tests that are no item: on the ledger, in no rating."""


class Runner:
    """Runs the strategies of this process's items and journals what they cost and achieve."""

    def __init__(self, settings: Settings, name: str, workers: int) -> None:
        self.settings = settings
        self._name = name
        self._workers = max(1, workers)
        self.collector = Collector(settings)
        self._window = max(1, settings.concurrency // self._workers)
        self._plan: Plan | None = None
        self._journal: Journal | None = None
        self._gateway: Gateway | None = None
        self._engine: Engine[TrialKey, TrialResult] | None = None
        self._noted = 0

    def begin(self, plan: Plan) -> None:
        """Take the controller's plan; until then (``--collect-only``) nothing can run."""
        self._plan = plan
        if plan.mode == "embedded":
            self._window = 1  # the local model answers one request at a time; ahead of it there is only a queue

    @property
    def plan(self) -> Plan:
        if self._plan is None:
            raise RuntimeError("the run has not begun")
        return self._plan

    @property
    def run_dir(self) -> RunDir:
        return RunDir(Path(self.plan.run_dir))

    @property
    def journal(self) -> Journal:
        """This process's journal, opened when the first item needs it."""
        if self._journal is None:
            shard = self.run_dir.shards / f"{self._name}-{os.getpid()}.jsonl"
            self._journal = Journal(shard, self.plan.run_id)
        return self._journal

    @property
    def gateway(self) -> Gateway:
        """The metered gateway; importing it brings in the OpenAI SDK, so only an eval does."""
        if self._gateway is None:
            from pytest_elo.session.access import open_gateway

            self._gateway = open_gateway(self.settings, self.plan, self.journal, self.run_dir.path, self._workers)
        return self._gateway

    @property
    def engine(self) -> Engine[TrialKey, TrialResult]:
        if self._engine is None:
            from pytest_elo.engine import Engine

            self._engine = Engine(self._run, self._window, self.gateway.aclose)
        return self._engine

    def look_ahead(self, session: pytest.Session, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Start the strategies of the items this process runs next, up to the window."""
        for count, coming in enumerate(upcoming(session, item, nextitem)):
            if count >= self._window:
                return
            key = trial_key(coming)
            if key is not None and "trial" in getattr(coming, "fixturenames", ()) and not _may_be_skipped(coming):
                self.engine.start(key)

    def trial(self, key: TrialKey) -> Trial:
        """Wait for the strategy of ``key``."""
        return Trial(key, self.engine.take(key), self._recorder(key))

    def posed(self, key: TrialKey) -> Posed:
        return Posed(key, key.task.pose(key.item_id, key.repeat), self._recorder(key))

    @contextmanager
    def charged(self, key: TrialKey | None, node_id: str = "") -> Iterator[None]:
        """Charge what the current thread asks the model to the trial, or to the test that has none."""
        from pytest_elo.gateway.context import current_tag

        tag = self._tag(key) if key is not None else Tag(UNRATED, node_id, UNRATED)
        token = current_tag.set(tag)
        try:
            yield
        finally:
            current_tag.reset(token)
            self.journal.keep_rest(tag)

    def take_events(self) -> str:
        """Events since the last call, for the next report to carry."""
        if self._journal is None:
            return ""
        while self._noted < len(self.collector.warnings):
            self._journal.note(self.collector.warnings[self._noted])
            self._noted += 1
        return self._journal.take()

    def must_abort(self, error: EloError) -> bool:
        """Whether every further call would fail as this one did (key, address, model, quota)."""
        return (
            isinstance(error, GatewayError)
            and error.status == "config_error"
            and not isinstance(error, NotRecordedError)
        )

    def request_stop(self) -> None:
        """Stop all processes of this run before their next item."""
        self.run_dir.stop_file.touch()

    def stop_requested(self) -> bool:
        return self._plan is not None and self.run_dir.stop_file.exists()

    def close(self) -> int:
        """Drain the engine; returns how many results were bought and never used."""
        unused = self._engine.close(DRAIN_S) if self._engine is not None else 0
        if self._gateway is not None:
            self._gateway.close()
        if self._journal is not None:
            self._journal.shut()
        return unused

    def _tag(self, key: TrialKey) -> Tag:
        return Tag(key.task_id, key.item_id, key.strategy, key.repeat, condition=self._condition(key))

    def _condition(self, key: TrialKey) -> str:
        # What competes (the strategies) is not part of it: outcomes of two strategies must share a condition.
        plan = self.plan
        return fingerprint(plan.identity, plan.model, self.settings.seed, key.task_id, key.task.fingerprint)[:12]

    def _recorder(self, key: TrialKey) -> Recorder:
        return Recorder(
            model=self.plan.model,
            condition=self._condition(key),
            strict=self.settings.strict,
            journal=self.journal.outcome,
        )

    async def _run(self, key: TrialKey) -> TrialResult:
        problem = key.task.pose(key.item_id, key.repeat)
        ask = self.gateway.ask_as(self._tag(key))
        try:
            answer = await run(key.spec.kind, problem, ask, key.spec.parameters)
        except Exception as error:
            status, reason = _blame(error)
            calls = self._settle(ask, kept=())
            return TrialResult(problem=problem, call_ids=calls, status=status, reason=reason, error=error)
        calls = self._settle(ask, answer.kept)
        try:
            grade = await self._judged(key, problem, answer)
        except Exception as error:
            # Whatever became of the judge's call, it is not the doing of the policy that is judged.
            status = "config_error" if _blame(error)[0] == "config_error" else "infra_error"
            reason = f"the answer could not be judged: {error}"
            return TrialResult(
                problem=problem, call_ids=calls, answer=answer, status=status, reason=reason, error=error
            )
        return TrialResult(problem=problem, call_ids=calls, answer=answer, grade=grade)

    async def _judged(self, key: TrialKey, problem: Problem, answer: Answer) -> Grade | None:
        """The grade of a problem that needs a model to be graded; ``None`` where ``grade`` is enough."""
        grade_with = getattr(problem, "grade_with", None)
        if grade_with is None:
            return None
        ask = self.gateway.ask_as(self._tag(key))
        try:
            grade: Grade = await grade_with(BoundParameters(ask, {"role": "judge"}), answer.reply)
            return grade
        finally:
            self._settle(ask, [call.call_id for call in ask.calls])

    def _settle(self, ask: BoundAsk, kept: Sequence[str]) -> list[str]:
        calls = [call.call_id for call in ask.calls]
        self.journal.settle({call_id: call_id in kept for call_id in calls})
        return calls


def trial_key(item: pytest.Item) -> TrialKey | None:
    """The trial a collected item stands for, if it is one."""
    callspec = getattr(item, "callspec", None)
    key = callspec.params.get("elo_key") if callspec is not None else None
    return key if isinstance(key, TrialKey) else None


def _blame(error: Exception) -> tuple[str, str]:
    """Status and reason of a trial whose strategy raised: only the model's own failures are scored."""
    if isinstance(error, NotRecordedError):
        return "infra_error", str(error)
    if isinstance(error, GatewayError):
        return error.status, str(error)
    return "infra_error", f"the strategy raised {error!r}"


def _may_be_skipped(item: pytest.Item) -> bool:
    # Money is spent only for items that will certainly run; the conditions of skipif are pytest's to judge.
    if item.get_closest_marker("skip") or item.get_closest_marker("skipif"):
        return True
    xfail = item.get_closest_marker("xfail")
    return xfail is not None and xfail.kwargs.get("run") is False
