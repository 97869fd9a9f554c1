"""The runner: the role of every process that runs items. Journal, gateway, engine and the current item."""

from __future__ import annotations

import asyncio
import gc
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_elo.config import Settings
from pytest_elo.errors import ConfigError, EloError, GatewayError, NotRecordedError
from pytest_elo.ledger.journal import Journal
from pytest_elo.ledger.rundir import RunDir
from pytest_elo.records import Outcome, Sink, Tag
from pytest_elo.session.ahead import Ahead, window_of
from pytest_elo.session.apart import Whereabouts
from pytest_elo.session.collect import Collector
from pytest_elo.session.contest import Contest, ContestKey, ContestResult, Key, key_of, trials_of
from pytest_elo.session.plan import Plan, condition_of
from pytest_elo.session.shard import Share, by_task
from pytest_elo.session.termination import Termination
from pytest_elo.session.trial import Posed, Recorder, Trial, TrialKey, TrialResult
from pytest_elo.session.work import Work, pair_tag

if TYPE_CHECKING:
    from pytest_elo.engine import Engine
    from pytest_elo.gateway.client import Gateway
    from pytest_elo.gateway.context import CallRecord
    from pytest_elo.session.budget import Budget

__all__ = ["Runner"]

UNRATED = "(unrated)"
"""Task and strategy of attempts made by tests that are no item: on the ledger, in no rating."""


class Runner:
    """Runs the strategies of this process's items and journals what they cost and achieve."""

    def __init__(self, settings: Settings, name: str, workers: int, *, may_stop_early: bool = False) -> None:
        self.settings = settings
        self._name = name
        self._workers = max(1, workers)
        self.collector = Collector(settings)
        self._window = window_of(settings.concurrency, self._workers, may_stop_early=may_stop_early)
        self._plan: Plan | None = None
        self._where: Whereabouts | None = None
        self._journal: Journal | None = None
        self._budget: Budget | None = None
        self._gateway: Gateway | None = None
        self._engine: Engine[Key, TrialResult | ContestResult] | None = None
        self._ahead: Ahead | None = None
        self._conditions: dict[str, str] = {}
        self._reruns: dict[Key, int] = {}
        self.share: Share | None = None
        """Which part of the suite this process helps to run; ``None``: all of it."""
        self._noted = 0

    def begin(self, plan: Plan, root: Path) -> None:
        """Take the controller's plan; until then (``--collect-only``) nothing can run.

        Raises ``ConfigError`` for what this host cannot do.
        """
        self._plan = plan
        self._where = Whereabouts.of(plan, root)
        if self._name != "main":
            Termination(self.run_dir, interrupts=False).install()
        if plan.mode == "embedded":
            self._window = 1  # the local model answers one request at a time; ahead of it there is only a queue

    @property
    def has_begun(self) -> bool:
        return self._plan is not None

    @property
    def plan(self) -> Plan:
        if self._plan is None:
            raise RuntimeError("the run has not begun")
        return self._plan

    @property
    def run_dir(self) -> RunDir:
        return self.where.run_dir

    @property
    def where(self) -> Whereabouts:
        assert self._where is not None, "the run has not begun"
        return self._where

    @cached_property
    def _evidence(self) -> Path | None:
        """Where problems may leave what their grades rest on."""
        return self.run_dir.path if self.run_dir.path.is_dir() else None

    @property
    def journal(self) -> Journal:
        """This process's journal, opened when the first item needs it."""
        if self._journal is None:
            self._journal = Journal(self.run_dir.shards / self._shard, self.plan.run_id, self.run_dir.stop)
            if not self.where.shares_disk:
                self._journal.apart(self._shard, self.where.place)
        return self._journal

    @property
    def sink(self) -> Sink:
        """Where attempts go: to the journal, past the budget where there is one."""
        settings = self.settings
        if settings.token_budget is None and settings.usd_budget is None:
            return self.journal
        if self._budget is None:
            from pytest_elo.session.budget import Budget

            path = self.run_dir.budget if self.where.shares_disk else None
            tokens, usd = self.where.share(settings.token_budget, settings.usd_budget, self._workers)
            self._budget = Budget(self.journal, path, tokens=tokens, usd=usd, prices=settings.prices)
        return self._budget

    @property
    def gateway(self) -> Gateway:
        """The metered gateway; importing it brings in the HTTP library, so only an eval does."""
        if self._gateway is None:
            from pytest_elo.session.access import open_gateway

            if self.plan.awaits_preflight:  # it was over before the first item was handed out
                self._plan = self.plan.checked(self.run_dir.read_preflight())
            ship = None if self.where.shares_disk else self.journal.response
            self._gateway = open_gateway(
                self.settings, self.plan, self.sink, self.run_dir.path, self._workers, self._time_left_s, ship
            )
            recordings = self._gateway.recordings
            if recordings is not None and recordings.torn:
                self.journal.note(f"{len(recordings.torn)} replies in responses/ are torn: not found, bought anew")
        return self._gateway

    @property
    def engine(self) -> Engine[Key, TrialResult | ContestResult]:
        if self._engine is None:
            from pytest_elo.engine import Engine

            share = max(1, self.settings.concurrency // self._workers)
            finish, must_end = self.gateway.aclose, self.run_dir.must_end
            self._engine = Engine(Work(self), share, may_go_on=self._may_go_on, must_end=must_end, finish=finish)
        return self._engine

    def expect(self, items: Sequence[pytest.Item]) -> None:
        """Journal how many outcomes this run is to have, those that it has already included."""
        if self._plan is None:
            return
        places = {trial.place for item in items for trial in trials_of(item)}
        whole = self.share.whole if self.share is not None else None
        if not places and whole is None:
            return
        # Collected items live as long as the session. Left to the collector, each of its full passes looks at
        # all of them again: measured 0.2 ms an item at 2,000 items. They are given back when the last has ended,
        # for what is frozen cannot be found by ``gc.get_referrers``, which hypothesis relies on.
        gc.freeze()
        done = {(task, item, strategy, repeat) for task, item, strategy, repeat in self._plan.done}
        tiers = Counter((task, strategy) for task, _, strategy, _ in places | done)
        self.journal.expect(by_task(tiers), whole)
        for key in filter(None, map(key_of, items)):
            if isinstance(key, ContestKey) and key.task.plan == "adaptive" and not key.repeat:
                self.journal.adaptive(key.task_id, str(key.task.path))
                break

    def unanchored(self, items: Sequence[pytest.Item]) -> Iterator[tuple[str, str]]:
        """Of each task among ``items`` that cannot be aligned with the others: a test of it, and why."""
        tests = {trial.task_id: item.nodeid.partition("[")[0] for item in items for trial in trials_of(item)}
        for task_id, test in sorted(tests.items()):
            if why := self.settings.why_unanchored(task_id):
                yield test, why

    def require_condition(self, keys: Sequence[Key]) -> None:
        """Refuse to resume a run whose items, prompts or rules are not these any more.

        Everything else of the condition was compared before. Raises ``ConfigError``.
        """
        if self._plan is None or not keys:
            return
        known = self._plan.conditions.get(keys[0].task_id)
        if known is not None and known != self.condition(keys[0]):
            raise ConfigError(
                f"--elo-resume: the data, prompts or grading rules of task {keys[0].task_id!r} are not those of the "
                f"run in {self._plan.run_dir}; start a new run"
            )

    def take_done(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Take the items out of ``items`` whose outcomes a resumed run has already, and return them."""
        done = {tuple(known) for known in self._plan.done} if self._plan is not None else set()
        if not done:
            return []
        taken = [
            item for item in items if (trials := trials_of(item)) and done.issuperset(trial.place for trial in trials)
        ]
        chosen = set(map(id, taken))
        items[:] = [item for item in items if id(item) not in chosen]
        return taken

    def look_ahead(self, session: pytest.Session, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Start the strategies of the items this process runs next, up to the window."""
        if not self.has_begun:
            return
        if self._ahead is None:
            self._ahead = Ahead(session, lambda: self.engine, self._window)
        self._ahead.of(item, nextitem)

    def _start_more(self) -> None:
        if self._ahead is not None:
            self._ahead.start()

    def trial(self, key: TrialKey, rerun: int = 0) -> Trial:
        """Wait for the strategy of ``key``. Raises ``StoppedError`` when the run stops first."""
        if rerun:
            self._reruns[key] = rerun
            self._restart(self.tag(key))
        result = self.engine.take(key, self._start_more)
        assert isinstance(result, TrialResult)
        return Trial(key, result, self._recorder(key, rerun))

    def contest(self, key: ContestKey, rerun: int = 0) -> Contest:
        """Wait for all strategies of ``key`` and its judges. Raises ``StoppedError`` when the run stops first."""
        if rerun:
            self._reruns[key] = rerun
            self._reruns.update(dict.fromkeys(key.trials, rerun))
            for trial in key.trials:
                self._restart(self.tag(trial))
            for pairing in key.pairings(self.settings.anchor):
                self._restart(pair_tag(key.task_id, pairing, key.repeat, self.condition(key)))
        result = self.engine.take(key, self._start_more)
        assert isinstance(result, ContestResult)
        recorders = [self._recorder(trial, rerun) for trial in key.trials]
        trials = [Trial(*of_one) for of_one in zip(key.trials, result.results, recorders, strict=True)]
        return Contest(key, trials, result.rulings)

    def posed(self, key: TrialKey, rerun: int = 0) -> Posed:
        if rerun:
            self._restart(self.tag(key))
        return Posed(key, key.task.pose(key.item_id, key.repeat), self._recorder(key, rerun))

    def reruns(self, key: Key) -> int:
        """How many outcomes of the same key this process's next one replaces."""
        return self._reruns.get(key, 0)

    def discard(self, calls: Sequence[str]) -> None:
        """The calls of a trial that is run again were paid for and not used."""
        self.journal.settle(dict.fromkeys(calls, False))

    def _restart(self, tag: Tag) -> None:
        """In a replay a rerun finds the same recordings; everywhere else it is a new sample."""
        if self.plan.mode == "replay" and self.gateway.recordings is not None:
            self.gateway.recordings.restart(tag)

    @contextmanager
    def charged(self, key: TrialKey | None, calls: list[CallRecord], node_id: str = "") -> Iterator[None]:
        """Charge what the current thread asks the model to the trial, or to the test that has none.

        Records of the calls go to ``calls``.
        """
        from pytest_elo.gateway.context import current_calls, tagged

        tag = self.payer(key, node_id)
        watching = current_calls.set(calls)
        try:
            with tagged(tag):
                yield
        finally:
            current_calls.reset(watching)
            self.journal.keep_rest(tag)

    def payer(self, key: TrialKey | None, node_id: str) -> Tag:
        """Who pays for what a test asks by itself: its item, or the test that has none."""
        return self.tag(key) if key is not None else Tag(UNRATED, node_id, UNRATED)

    def take_events(self, most: int | None = None) -> str:
        """Events since the last call, for the next report to carry; ``most`` characters of them."""
        if self._journal is None:
            return ""
        while self._noted < len(self.collector.warnings):
            self._journal.note(self.collector.warnings[self._noted])
            self._noted += 1
        return self._journal.take(most)

    def must_abort(self, error: EloError) -> bool:
        """Whether every further call would fail as this one did (key, address, model, quota)."""
        if not isinstance(error, GatewayError) or isinstance(error, NotRecordedError):
            return False
        return error.status == "config_error"

    def request_stop(self, reason: str) -> None:
        """Stop all processes of this run before their next item."""
        self.run_dir.stop(reason)

    def stop_reason(self) -> str | None:
        """Why no further item may begin, if so."""
        if self._plan is None:
            return None
        if self._budget is not None and (reached := self._budget.reached()) is not None:
            self.request_stop(reached)
            return reached
        return self.run_dir.stop_reason

    def close(self) -> dict[str, Any]:
        """Let calls in flight end, since they are paid for, then shut everything.

        Returns the last events, and how many were written to which shard.
        """
        gc.unfreeze()
        if self._engine is not None:
            self._engine.close(self.settings.timeout_s)
        if self._gateway is not None:
            self._gateway.close()
        if self._budget is not None:
            self._budget.shut()
        if self._journal is not None:
            self._journal.shut()
        written = self._journal.written if self._journal is not None else 0
        return {"events": self.take_events(), "shard": self._shard, "written": written}

    @property
    def _shard(self) -> str:
        return f"{self._name}-{os.getpid()}.jsonl"

    def _may_go_on(self) -> bool:
        return self.stop_reason() is None

    def _is_stopping(self) -> bool:
        return self._engine is not None and (self._engine.is_stopped or self.stop_reason() is not None)

    def _time_left_s(self) -> float:
        # a call in flight may end, but no retry of it is waited for once the run stops
        return 0.0 if self._is_stopping() else float("inf")

    def tag(self, key: TrialKey) -> Tag:
        """Who pays for the calls of a trial."""
        return Tag(key.task_id, key.item_id, key.strategy, key.repeat, condition=self.condition(key))

    def condition(self, key: Key) -> str:
        known = self._conditions.get(key.task_id)
        if known is None:
            known = self._conditions[key.task_id] = condition_of(self.plan, self.settings, key.task)
        return known

    def _recorder(self, key: TrialKey, rerun: int) -> Recorder:
        def journal(outcome: Outcome) -> None:
            self.journal.outcome(outcome, rerun)

        return Recorder(
            model=self.plan.model,
            condition=self.condition(key),
            strict=self.settings.strict,
            journal=journal,
            run_dir=self._evidence,
        )

    @property
    def budget(self) -> Budget | None:
        return self._budget

    def refuse_if_stopping(self) -> None:
        """What fails while the run stops is not the model's doing: the item is simply not done."""
        if self._is_stopping():
            raise asyncio.CancelledError from None
