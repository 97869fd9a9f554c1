"""The engine: work runs ahead, calls are counted and not items, and stopping throws nothing away that is paid for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from pytest_elo.engine import Engine, StoppedError


class Calls:
    """Work of ``n`` calls of ``seconds`` each; remembers what was in flight."""

    def __init__(self, n: int = 1, seconds: float = 0.02) -> None:
        self.n, self.seconds = n, seconds
        self.engine: Engine[str, str]
        self.in_flight = self.peak = 0
        self.ended: list[str] = []
        self.cancelled: list[str] = []

    async def __call__(self, key: str) -> str:
        for number in range(self.n):
            async with self.engine.turn():
                await self._call(f"{key}{number}")
        return key.upper()

    async def _call(self, name: str) -> None:
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            await asyncio.sleep(self.seconds)
            self.ended.append(name)
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        finally:
            self.in_flight -= 1


def engine_of(calls: Calls, concurrency: int = 64, **options) -> Engine[str, str]:
    calls.engine = Engine(calls, concurrency, **options)
    return calls.engine


def test_no_more_calls_are_in_flight_than_may_be():
    calls = Calls(n=3)
    engine = engine_of(calls, concurrency=4)
    keys = [f"k{i}" for i in range(20)]
    for key in keys:
        engine.start(key)
    assert [engine.take(key) for key in keys] == [key.upper() for key in keys]
    engine.close(1)
    assert calls.peak == 4
    assert len(calls.ended) == 60


def test_work_that_is_known_of_only_now_begins_while_a_test_waits():
    """As when a worker is sent more items while it waits for the last one it knew of."""
    begun = asyncio.Event()

    async def work(key: str) -> str:
        if key == "late":
            begun.set()
        else:
            await asyncio.wait_for(begun.wait(), 20)
        return key.upper()

    engine = Engine(work, 64)
    assert engine.take("first", lambda: engine.start("late")) == "FIRST"
    engine.close(1)


def test_who_begins_work_may_wait_for_it_as_long_as_it_computes():
    ended: list[str] = []

    async def work(key: str) -> str:
        ends = time.process_time() + 0.3
        while key != "idle" and time.process_time() < ends:
            await asyncio.sleep(0)
        if key == "idle":
            await asyncio.sleep(60)
        ended.append(key)
        return key.upper()

    engine = Engine(work, 64)
    assert engine.start("computes", wait_s=60)
    assert ended == ["computes"]
    assert engine.start("computes for longer", wait_s=0.01)
    assert ended == ["computes"]
    assert engine.take("computes for longer")
    began = time.monotonic()
    assert not engine.start("idle", wait_s=60)
    assert time.monotonic() - began < 30
    engine.close(0)


def test_a_result_that_was_taken_is_made_anew():
    calls = Calls()
    engine = engine_of(calls)
    assert engine.take("a") == engine.take("a") == "A"
    engine.close(1)
    assert calls.ended == ["a0", "a0"]


def test_stopping_ends_the_call_in_flight_and_makes_no_further_one():
    calls = Calls(n=2, seconds=0.2)
    engine = engine_of(calls)
    engine.start("a")
    time.sleep(0.05)
    engine.close(5)
    assert (calls.ended, calls.cancelled) == (["a0"], [])
    with pytest.raises(StoppedError):
        engine.take("b")


def test_stopping_while_work_begins_leaves_nobody_waiting(caplog):
    calls = Calls(seconds=0.3)
    engine = engine_of(calls)
    keys = [f"k{i}" for i in range(200)]
    engine.start(*keys)
    engine.close(5)
    assert calls.in_flight == 0
    answered = 0
    for key in keys:
        with suppress(StoppedError):
            answered += engine.take(key) == key.upper()
    assert answered == len(calls.ended) < len(keys)
    assert not caplog.records


def test_what_outlasts_the_drain_is_cancelled():
    calls = Calls(seconds=60)
    engine = engine_of(calls)
    engine.start("a")
    time.sleep(0.05)
    engine.close(0.1)
    assert calls.cancelled == ["a0"]


def test_a_second_wish_to_stop_ends_the_drain_at_once():
    calls = Calls(seconds=60)
    started = time.monotonic()
    engine = engine_of(
        calls,
        may_go_on=lambda: time.monotonic() <= started + 0.2,
        must_end=lambda: time.monotonic() > started + 0.2,
    )
    with pytest.raises(StoppedError):  # neither a test that waits
        engine.take("a")
    engine.start("b")
    engine.close(30)  # nor the end
    assert time.monotonic() - started < 10
    assert calls.cancelled == ["a0"]


def test_a_waiting_test_learns_that_the_run_stops():
    may = threading.Event()
    may.set()
    calls = Calls(n=2, seconds=0.1)
    engine = engine_of(calls, may_go_on=may.is_set)
    engine.start("a")
    time.sleep(0.02)
    may.clear()
    with pytest.raises(StoppedError):
        engine.take("a")
    engine.close(1)
    assert calls.ended == ["a0"]


def test_room_is_waited_for_and_held_as_long_as_the_call_takes():
    held: list[str] = []

    @contextmanager
    def room() -> Iterator[None]:
        held.append("taken")
        yield
        held.append("given back")

    answers = iter([None, None, room()])

    async def work(key: str) -> str:
        async with engine.turn(lambda: next(answers)):
            held.append(key)
        return key.upper()

    engine = Engine(work, 64)
    assert engine.take("a") == "A"
    engine.close(1)
    assert held == ["taken", "a", "given back"]


def test_pools_are_closed_on_the_loop_that_opened_them():
    loops = []

    async def finish() -> None:
        loops.append(asyncio.get_running_loop())

    calls = Calls()
    engine = engine_of(calls, finish=finish)
    engine.take("a")
    engine.close(1)
    assert len(loops) == 1
    assert loops[0].is_closed()
