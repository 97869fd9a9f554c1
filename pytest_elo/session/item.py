"""What is known of one pytest item over all its phases and reruns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pytest

from pytest_elo.config import Price
from pytest_elo.session.contest import Contest
from pytest_elo.session.runner import Runner
from pytest_elo.session.trial import Posed

if TYPE_CHECKING:
    from pytest_elo.gateway.context import CallRecord

__all__ = ["ItemState", "share_properties"]

_PREFIX = "elo_"


@dataclass(frozen=True, slots=True)
class _Ended:
    tokens: int
    usd: float
    calls: Sequence[str]


_NOTHING = _Ended(0, 0.0, ())


@dataclass(slots=True)
class ItemState:
    """Kept in the item's stash until the next item begins: a rerun finds what came before it."""

    posed: Posed | Contest | None = None
    """Of the current run, until it ends: prompts and replies are not held for longer."""
    ended: _Ended = field(default_factory=lambda: _NOTHING)
    """What the run that ended last has cost."""
    has_failed: bool = False
    was_called: bool = False
    """Whether the test itself has run to its end, in the current run."""
    reruns: int = -1
    earlier_tokens: int = 0
    """Of the trials that reruns have replaced; they are paid for."""
    earlier_usd: float = 0.0
    calls: list[CallRecord] = field(default_factory=list)
    """What the test asked through ``client`` in its current run."""

    @classmethod
    def of(cls, item: pytest.Item) -> ItemState:
        state = item.stash.get(_STATE, None)
        if state is None:
            state = item.stash[_STATE] = cls()
        return state

    @classmethod
    def drop(cls, item: pytest.Item) -> None:
        """Forget an item that has come to its end; one that failed may yet be run again, as some plugins do."""
        state = item.stash.get(_STATE, None)
        if state is not None and not state.has_failed:
            del item.stash[_STATE]

    def begin(self, item: pytest.Item, runner: Runner) -> int:
        """A trial of this item begins; returns how many it had before, in any process."""
        # pytest-rerunfailures counts executions on the item, those of a worker that crashed included
        known = getattr(item, "execution_count", 1) - 1
        self.reruns = max(self.reruns + 1, known if isinstance(known, int) else 0)
        self._end(runner.settings.prices)
        self.earlier_tokens += self.ended.tokens
        self.earlier_usd += self.ended.usd
        runner.discard(self.ended.calls)
        self.ended, self.has_failed, self.was_called = _NOTHING, False, False
        return self.reruns

    def require_outcome(self) -> None:
        if not self.was_called or self.has_failed:
            return  # an interrupt ended the test before it could say anything
        if self.posed is not None and not self.posed.is_recorded:
            pytest.fail(
                "the item has no outcome: call grade() or score(x) (contest.judge() in an arena), or it would vanish",
                pytrace=False,
            )

    def saw(self, report: Any, prices: Mapping[str, Price]) -> None:
        """Remember a phase's end, and let its report say how the item came out."""
        self.has_failed = self.has_failed or report.failed
        self.was_called = self.was_called or report.when == "call"
        if self.posed is not None and self.posed.is_recorded:
            report.elo_status = self.posed.status
        if report.when == "teardown":
            self._end(prices)

    def _end(self, prices: Mapping[str, Price]) -> None:
        if self.posed is not None:
            self.ended = _Ended(self.posed.tokens, self.posed.usd(prices), tuple(self.posed.call_ids))
        self.posed, self.calls = None, []

    def write_properties(self, item: pytest.Item, when: str, prices: Mapping[str, Price]) -> None:
        """For JUnit XML and JSON reports: strategy, status, score and cost as plain text and numbers."""
        posed = self.posed
        if posed is None or not posed.is_recorded or when == "setup":
            return
        others = [pair for pair in item.user_properties if not str(pair[0]).startswith(_PREFIX)]
        found = posed.properties() | {"tokens": int(self.earlier_tokens + posed.tokens)}
        if prices:
            found["usd"] = round(self.earlier_usd + posed.usd(prices), 9)
        if self.reruns > 0:
            found["reruns"] = int(self.reruns)
        item.user_properties[:] = [*others, *(_property(f"{_PREFIX}{name}", value) for name, value in found.items())]


def share_properties(pairs: list[tuple[str, Any]]) -> None:
    """Let equal pairs of many reports be one: the terminal keeps every report to the end."""
    pairs[:] = [
        _property(*pair) if str(pair[0]).startswith(_PREFIX) and isinstance(pair[1], str | int | float) else pair
        for pair in pairs
    ]


@lru_cache(maxsize=4096, typed=True)
def _property(name: str, value: object) -> tuple[str, object]:
    return (name, value)


_STATE = pytest.StashKey[ItemState]()
