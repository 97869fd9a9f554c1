"""Looking ahead: strategies begin before the tests that wait for them do.

Where answers come from afar, one begins whenever a test ends, so that no place in flight is empty. Where answering
is computing (a replay, a cache, a gateway next door), the engine and the tests would only fight for the interpreter,
and waking the engine costs more than an item's answer: then items begin in blocks, and the tests wait for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_elo.session.contest import Key, key_of
from pytest_elo.session.upcoming import Upcoming, may_be_skipped

if TYPE_CHECKING:
    from pytest_elo.engine import Engine

__all__ = ["Ahead", "window_of"]

_EARLY_STOP_WINDOW = 16
"""Items ahead, over all workers, where the session may stop at any failure: what is bought then goes unused."""

_WAITING_ITEMS = 16
"""Items that have begun and wait for a place in flight, so that none is empty while a test reports."""

_BLOCK_S = 0.1
"""How long a block has the interpreter to itself at most before the first of its items is tested."""

_WINDOWS_APART = 4
"""Windows of items that begin one by one after one that computed little, before another is waited for."""


def window_of(concurrency: int, workers: int, *, may_stop_early: bool) -> int:
    """How many items may have begun and not been tested in each of so many processes."""
    ahead = min(concurrency, _EARLY_STOP_WINDOW) if may_stop_early else concurrency
    return max(1, ahead // workers) + (0 if may_stop_early else _WAITING_ITEMS)


class Ahead:
    """Starts the strategies of the items that one process runs next, up to ``window`` of them."""

    def __init__(self, session: pytest.Session, engine: Callable[[], Engine[Key, Any]], window: int) -> None:
        self._upcoming = Upcoming(session)
        self._get_engine = engine
        self._engine: Engine[Key, Any] | None = None
        self._window = window
        self._now: tuple[pytest.Item, pytest.Item | None] | None = None
        """The item that runs, and the next."""
        self._in_blocks = True
        self._one_by_one = 0
        """Items that still begin one by one."""

    def of(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """``item`` is about to run."""
        self._now = item, nextitem
        self.start()

    def start(self) -> None:
        """Start what is known of by now; xdist may have sent more items."""
        if self._now is None:
            return
        at_least = self._window // 2 if self._in_blocks else 1
        keys = _asking(self._upcoming.fresh(*self._now, self._window, at_least=at_least))
        if not keys:
            return
        if self._engine is None:  # a session that asks no model imports none of this
            self._engine = self._get_engine()
        if self._one_by_one > 0:
            self._one_by_one -= len(keys)
            self._engine.start(*keys)
            return
        self._in_blocks = self._engine.start(*keys, wait_s=_BLOCK_S)
        if not self._in_blocks:
            self._one_by_one = _WINDOWS_APART * self._window


def _asking(items: Iterable[pytest.Item]) -> list[Key]:
    """The keys of those that will ask the model ahead of their tests."""
    return [
        key
        for item in items
        if (key := key_of(item)) is not None
        and not {"trial", "contest"}.isdisjoint(getattr(item, "fixturenames", ()))
        and not may_be_skipped(item)
    ]
