"""The engine: one event loop in a thread of each process, running strategies ahead of the tests that wait.

Tests stay serial and ordinary; only the waiting for the network overlaps. ``start`` may be called early for
items that come next, ``take`` blocks the test that needs its own result. What is in flight is counted in
calls, not in items: every call of a strategy goes through ``turn``.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Hashable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from typing import Any, Generic, TypeVar

__all__ = ["Engine", "StoppedError"]

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")

_POLL_S = 0.1
_WAIT_S = 0.02
_FIRST_LOOK_S, _LOOK_S = 0.01, 0.25
"""How soon and how often a test that waits looks whether the run must end, and whether there is more to begin."""
_SLICE_S = 0.02
_LEAST_COMPUTING = 0.1
"""The share of such a slice that this process must have computed in, or it is waiting. On a machine shared with
others it computes in a part of the time only, however much it has to do."""


class StoppedError(Exception):
    """The run is stopping: this work was not begun, or was given up between two of its calls."""


class Engine(Generic[Key, Result]):
    """Runs ``work(key)`` once a key in a thread of its own; its result is kept until taken.

    Args:
        work: an async function that never raises for what a user can cause. It wraps each call in ``turn``.
        concurrency: how many calls may be in flight at once.
        may_go_on: asked before every call; once it says no, no further call is made.
        must_end: whether the run must end at once; then neither a test nor ``close`` waits for calls in flight.
        finish: awaited on the loop before it closes (shuts connection pools).
    """

    def __init__(
        self,
        work: Callable[[Key], Coroutine[Any, Any, Result]],
        concurrency: int,
        *,
        may_go_on: Callable[[], bool] = lambda: True,
        must_end: Callable[[], bool] = lambda: False,
        finish: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._work = work
        self._concurrency = concurrency
        self._may_go_on = may_go_on
        self._must_end = must_end
        self._finish = finish
        self._futures: dict[Key, Future[Result]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns: asyncio.Semaphore | None = None
        self._stopped = False

    @property
    def concurrency(self) -> int:
        return self._concurrency

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def start(self, *keys: Key, wait_s: float = 0.0) -> bool:
        """Begin the work for each key unless it has begun, and wait up to ``wait_s`` seconds for all of it to end.

        Waiting pays where work is computing: two threads that both want the interpreter slow each other down. It is
        given up, and ``False`` returned, as soon as this process does little but wait for others.
        """
        fresh = [key for key in keys if key not in self._futures]
        if not fresh or self._stopped:
            return True
        begun: dict[Key, Future[Result]] = {key: Future() for key in fresh}
        self._futures.update(begun)
        self._running_loop().call_soon_threadsafe(self._begin, iter(begun.items()))
        return _await_computing(begun.values(), wait_s)

    def _begin(self, begun: Iterator[tuple[Key, Future[Result]]]) -> None:
        for key, future in begun:
            if self._stopped:
                future.cancel()
                continue
            loop = asyncio.get_running_loop()
            task = loop.create_task(self._answer(key, future))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            # after each the loop looks at the network: the first call is not held up until the last has begun
            loop.call_soon(self._begin, begun)
            return

    async def _answer(self, key: Key, future: Future[Result]) -> None:
        try:
            result = await self._work(key)
        except asyncio.CancelledError:
            future.cancel()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def take(self, key: Key, meanwhile: Callable[[], object] = lambda: None) -> Result:
        """Wait for the result of ``key`` and forget it, so that a rerun of the same item is a new sample.

        ``meanwhile`` is called now and then while it waits: work that is known of only now may begin. Raises
        ``StoppedError`` when the run stops before the work is done.
        """
        self.start(key)
        future = self._futures.get(key)
        if future is None:
            raise StoppedError
        wait_s = _FIRST_LOOK_S
        try:
            while True:
                try:
                    return future.result(wait_s)
                except TimeoutError:
                    if future.done():  # the work's own, or it ended just now
                        return future.result()
                    if self._must_end():
                        raise StoppedError from None
                meanwhile()
                wait_s = min(2 * wait_s, _LOOK_S)
        except CancelledError:
            raise StoppedError from None
        finally:
            self._futures.pop(key, None)

    @asynccontextmanager
    async def turn(self, room: Callable[[], AbstractContextManager[None] | None] = nullcontext) -> AsyncIterator[None]:
        """Wait for a place in flight and for ``room``, and hold both. Cancels the work when the run is stopping."""
        if self._turns is None:
            self._turns = asyncio.Semaphore(self._concurrency)
        async with self._turns:
            while self.may_go_on():
                if (held := room()) is not None:
                    with held:
                        yield
                    return
                await asyncio.sleep(_WAIT_S)
            raise asyncio.CancelledError("the run is stopping")

    def may_go_on(self) -> bool:
        """Whether another call may be made. From any thread."""
        return not self._stopped and self._may_go_on()

    def stop(self) -> None:
        """Begin no further work and make no further call; calls in flight go on."""
        self._stopped = True

    def close(self, drain_s: float) -> None:
        """Let calls in flight end for up to ``drain_s`` seconds, then cancel what is left.

        A keyboard interrupt, or ``must_end`` saying yes, cancels at once: that is a user's second wish to stop.
        """
        self.stop()
        if self._loop is None or self._thread is None:
            return
        drained = asyncio.run_coroutine_threadsafe(self._drain(drain_s), self._loop)
        try:
            drained.result()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(self._cancel_all)
            with suppress(KeyboardInterrupt, CancelledError):
                drained.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None

    async def _drain(self, drain_s: float) -> None:
        deadline = time.monotonic() + drain_s
        while (tasks := list(self._tasks)) and time.monotonic() < deadline and not self._must_end():
            await asyncio.wait(tasks, timeout=min(_POLL_S, drain_s))
        self._cancel_all()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._finish is not None:
            await self._finish()

    def _cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="pytest-elo engine", daemon=True)
            self._thread.start()
        return self._loop


def _await_computing(futures: Collection[Future[Result]], wait_s: float) -> bool:
    """Wait up to ``wait_s`` seconds for all of ``futures``; ``False`` where that was given up before."""
    ends = time.monotonic() + wait_s
    while (began := time.monotonic()) < ends:
        computed = time.process_time()
        is_done = not wait(futures, min(ends - began, _SLICE_S)).not_done
        waited = time.monotonic() - began
        if is_done or waited < _SLICE_S:
            break
        if time.process_time() - computed < _LEAST_COMPUTING * waited:
            return False
    return True
