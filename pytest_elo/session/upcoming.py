"""Which items this process will run next: the one place that reads xdist's private queue.

xdist's worker keeps the indices it was sent in ``WorkerInteractor.torun`` and offers no accessor. When that
attribute changes, look-ahead degrades to ``nextitem``; nothing breaks. A contract test watches it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

__all__ = ["upcoming"]


def upcoming(session: pytest.Session, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[pytest.Item]:
    """``item`` and those after it, in the order this process will run them, as far as that is known."""
    yield item
    if hasattr(session.config, "workerinput"):
        yield from _queued(session, nextitem)
        return
    items = session.items
    position = _position(session, item)
    yield from items[position + 1 :]


def _position(session: pytest.Session, item: pytest.Item) -> int:
    # Items run in order, so the search continues where the last one ended: linear over a whole session.
    start = session.config.stash.get(_LAST, -1)
    items = session.items
    for index in range(start + 1, len(items)):
        if items[index] is item:
            session.config.stash[_LAST] = index
            return index
    return len(items)


_LAST = pytest.StashKey[int]()


def _queued(session: pytest.Session, nextitem: pytest.Item | None) -> Iterator[pytest.Item]:
    if nextitem is None:
        return
    yield nextitem
    for plugin in session.config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            for index in _indices(plugin):
                yield session.items[index]


def _indices(interactor: object) -> list[int]:
    try:
        with interactor.torun.lock() as queue:  # type: ignore[attr-defined]
            return [index for index in queue if isinstance(index, int)]
    except Exception:  # private to xdist: whatever changed there, the answer is "not known"
        return []
