"""Which items this process will run next: the one place that reads xdist's private queue.

xdist's worker keeps the indices it was sent in ``WorkerInteractor.torun`` and offers no accessor. When that
attribute changes, look-ahead degrades to ``nextitem``; nothing breaks. A contract test watches it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pytest

__all__ = ["Upcoming", "may_be_skipped"]


class Upcoming:
    """The items of one session in the order in which this process runs them, each given out once."""

    def __init__(self, session: pytest.Session) -> None:
        self._items = session.items
        self._given: set[int] = set()
        self._is_worker = hasattr(session.config, "workerinput")
        self._interactor = _interactor(session.config) if self._is_worker else None
        self._current = 0
        self._positions: dict[int, int] | None = None
        self._next = 0

    def fresh(
        self, item: pytest.Item, nextitem: pytest.Item | None, window: int, *, at_least: int = 1
    ) -> Sequence[pytest.Item]:
        """Those among ``item`` and the ``window - 1`` after it that were not given out before.

        None where they are fewer than ``at_least``, unless ``item`` itself is one of them.
        """
        if not self._is_worker:
            return self._in_order(item, window, at_least)
        found = [coming for coming in self._queued(item, nextitem, window) if id(coming) not in self._given]
        if id(item) in self._given and len(found) < at_least:
            return []
        self._given.update(map(id, found))
        return found

    def _in_order(self, item: pytest.Item, window: int, at_least: int) -> Sequence[pytest.Item]:
        start = self._position(item)
        if start is None:  # another plugin made it: nothing is known of what follows
            return [item]
        first, end = max(start, self._next), min(start + window, len(self._items))
        if first > start and end - first < at_least:
            return []
        self._next = max(end, self._next)
        return self._items[first:end]

    def _position(self, item: pytest.Item) -> int | None:
        here = self._current
        for index in range(here, min(here + 2, len(self._items))):
            if self._items[index] is item:
                self._current = index
                return index
        if self._positions is None:  # another plugin runs them in an order of its own
            self._positions = {id(item): index for index, item in enumerate(self._items)}
        return self._positions.get(id(item))

    def _queued(self, item: pytest.Item, nextitem: pytest.Item | None, window: int) -> Iterator[pytest.Item]:
        yield item
        if nextitem is None or window < 2:
            return
        yield nextitem
        for index in _indices(self._interactor, window - 2):
            yield self._items[index]


def _interactor(config: pytest.Config) -> Any:
    return next((p for p in config.pluginmanager.get_plugins() if type(p).__name__ == "WorkerInteractor"), None)


def _indices(interactor: Any, at_most: int) -> list[int]:
    try:
        waiting = interactor.torun
        if hasattr(waiting, "mutex"):  # before xdist 3.7 a queue of the standard library
            with waiting.mutex:
                return [index for index in islice(waiting.queue, at_most) if isinstance(index, int)]
        with waiting.lock() as queue:
            return [index for index in islice(queue, at_most) if isinstance(index, int)]
    except Exception:  # private to xdist: whatever changed there, the answer is "not known"
        return []


def may_be_skipped(item: pytest.Item) -> bool:
    """Whether it is not certain that the item will run: money is spent ahead only for those that will."""
    if item.get_closest_marker("skip") is not None:
        return True
    for mark in item.iter_markers("skipif"):
        conditions = [*mark.args, *([mark.kwargs["condition"]] if "condition" in mark.kwargs else [])]
        # conditions given as text are pytest's to evaluate
        if any(isinstance(condition, str) or condition for condition in conditions):
            return True
    return any(mark.kwargs.get("run") is False for mark in item.iter_markers("xfail"))
