"""The engine: one event loop in a thread of each process, running strategies ahead of the tests that wait.

Tests stay serial and ordinary; only the waiting for the network overlaps. ``start`` may be called early for
items that come next, ``result`` blocks the test that needs its own outcome.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

__all__ = ["Engine"]

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class Engine(Generic[Key, Result]):
    """Runs ``work(key)`` once a key, at most ``concurrency`` at a time, in a thread of its own.

    Args:
        work: an async function that never raises for what a user can cause; its result is kept until taken.
        concurrency: how many keys may be in work at once.
        finish: awaited on the loop before it closes (shuts connection pools).
    """

    def __init__(
        self,
        work: Callable[[Key], Coroutine[Any, Any, Result]],
        concurrency: int,
        finish: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._work = work
        self._concurrency = concurrency
        self._finish = finish
        self._futures: dict[Key, Future[Result]] = {}
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gate: asyncio.Semaphore | None = None
        self._stopped = False

    @property
    def concurrency(self) -> int:
        return self._concurrency

    def start(self, key: Key) -> None:
        """Begin the work for ``key`` unless it has begun."""
        if key not in self._futures and not self._stopped:
            self._futures[key] = asyncio.run_coroutine_threadsafe(self._gated(key), self._running_loop())

    def take(self, key: Key) -> Result:
        """Wait for the result of ``key`` and forget it, so that a rerun of the same item is a new sample."""
        self.start(key)
        if key not in self._futures:
            raise RuntimeError("the run is stopping; no further work is started")
        future = self._futures[key]
        try:
            return future.result()
        finally:
            self._futures.pop(key, None)

    def stop(self) -> int:
        """Start nothing more; returns how many results were begun and are not yet taken."""
        self._stopped = True
        return len(self._futures)

    def close(self, drain_s: float) -> int:
        """Let work in flight finish for up to ``drain_s`` seconds, then cancel; returns how many were unused."""
        unused = self.stop()
        if self._loop is None or self._thread is None:
            return unused
        drained = asyncio.run_coroutine_threadsafe(self._drain(drain_s), self._loop)
        drained.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None
        return unused

    async def _gated(self, key: Key) -> Result:
        if self._gate is None:
            self._gate = asyncio.Semaphore(self._concurrency)
        async with self._gate:
            if self._stopped:
                raise asyncio.CancelledError
            return await self._work(key)

    async def _drain(self, drain_s: float) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=drain_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if self._finish is not None:
            await self._finish()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="pytest-elo engine", daemon=True)
            self._thread.start()
        return self._loop
