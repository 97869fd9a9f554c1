"""A contest: one arena prompt, an answer of every strategy, and the verdicts on their pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_elo.ledger.prices import usd_of
from pytest_elo.records import MODEL_STATUSES, Message, Outcome
from pytest_elo.session.trial import Trial, TrialKey, TrialResult

if TYPE_CHECKING:
    from pytest_elo.config import Price
    from pytest_elo.gateway.context import CallRecord
    from pytest_elo.tasks.arena import ArenaTask, Pairing, Ruling

__all__ = ["Contest", "ContestKey", "ContestResult", "Key", "key_of", "trials_of"]


@dataclass(frozen=True, slots=True)
class ContestKey:
    """What a pytest item of an arena stands for: all trials of one prompt in one repeat."""

    task: ArenaTask = dataclasses.field(compare=False, repr=False)
    task_id: str
    item_id: str
    repeat: int
    trials: tuple[TrialKey, ...] = dataclasses.field(compare=False, repr=False)
    """In the order in which they begin."""

    def pairings(self, anchor: str) -> Sequence[Pairing]:
        """The pairs that the judges may see, in an order that does not depend on who began."""
        return self.task.pairings(self.item_id, sorted(trial.strategy for trial in self.trials), anchor)

    def facts(self, pairings: Sequence[Pairing]) -> dict[str, Any]:
        """The line of ``contests.jsonl``."""
        return {
            "task_id": self.task_id,
            "item_id": self.item_id,
            "repeat": self.repeat,
            "prompt": self.task.shown(self.item_id),
            "plan": self.task.plan,
            "pairs": [[pairing.a, pairing.b] for pairing in pairings],
        }


Key = TrialKey | ContestKey


def key_of(item: pytest.Item) -> Key | None:
    """The trial or contest a collected item stands for, if it is one."""
    callspec = getattr(item, "callspec", None)
    key = callspec.params.get("elo_key") if callspec is not None else None
    return key if isinstance(key, TrialKey | ContestKey) else None


def trials_of(item: pytest.Item) -> tuple[TrialKey, ...]:
    """The trials that an item stands for: one, all of a contest, or none."""
    key = key_of(item)
    if key is None:
        return ()
    return (key,) if isinstance(key, TrialKey) else key.trials


@dataclass(frozen=True, slots=True)
class ContestResult:
    """What every strategy brought, in the order of the key's trials, and what the judges said of the pairs."""

    results: tuple[TrialResult, ...]
    rulings: tuple[Ruling, ...] = ()


class Contest:
    """The ``contest`` fixture: answers are there and judged; ``judge()`` records them."""

    def __init__(self, key: ContestKey, trials: Sequence[Trial], rulings: Sequence[Ruling]) -> None:
        self._key = key
        self._trials = trials
        self.rulings = rulings
        """Every pair with its verdict; empty where people judge, or where the plan waits for the whole run."""
        self.direct_calls: Sequence[CallRecord] = ()
        """What the test itself asks through ``client``; charged to no strategy."""

    @property
    def item_id(self) -> str:
        return self._key.item_id

    @property
    def repeat(self) -> int:
        return self._key.repeat

    @property
    def messages(self) -> Sequence[Message]:
        """The prompt as chat messages."""
        return self._trials[0].messages

    @property
    def answers(self) -> Mapping[str, str]:
        """The reply of each strategy; empty where it gave none."""
        return {trial.strategy: trial.text for trial in sorted(self._trials, key=lambda trial: trial.strategy)}

    def judge(self) -> Sequence[Outcome]:
        """Record what every strategy achieved; what the answers are worth, the votes say."""
        outcomes, failures = [], []
        for trial in self._trials:
            try:
                outcomes.append(trial.settle())
            except pytest.fail.Exception as failure:  # --elo-strict; the others' outcomes must not vanish with it
                failures.append(failure)
        if failures:
            raise failures[0]
        return outcomes

    def fail_if_unfit(self) -> None:
        """Record all and raise where a strategy or a judge failed by no doing of the model."""
        unfit = [trial for trial in self._trials if trial.status not in MODEL_STATUSES]
        if unfit:
            with suppress(pytest.fail.Exception):
                self.judge()
            unfit[0].fail_if_unfit()

    @property
    def call_ids(self) -> Sequence[str]:
        return [call_id for trial in self._trials for call_id in trial.call_ids]

    @property
    def tokens(self) -> int:
        """What the strategies and the test have spent; the judges' tokens are nobody's."""
        own = sum(row.total_tokens for call in self.direct_calls for row in call.attempts)
        return own + sum(trial.tokens for trial in self._trials)

    def usd(self, prices: Mapping[str, Price]) -> float:
        """The same in USD."""
        own = sum(usd_of(row, prices) or 0.0 for call in self.direct_calls for row in call.attempts)
        return own + sum(trial.usd(prices) for trial in self._trials)

    @property
    def is_recorded(self) -> bool:
        return all(trial.is_recorded for trial in self._trials)

    @property
    def status(self) -> str | None:
        """How the item shows: as answered, or as the first of its failures."""
        found = [outcome.status for trial in self._trials if (outcome := trial.outcome) is not None]
        return min(found, key=lambda status: status == "answered", default=None)

    def properties(self) -> dict[str, object]:
        return {"strategies": ",".join(self.answers), "status": str(self.status)}
