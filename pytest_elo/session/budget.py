"""What all processes of a run have bought so far, against what they may buy.

The sums stand in one small file that every process of the run maps into memory; each adds to a line of its
own. A call in flight is counted as an average call until it ends, and as the dearest it can be while there is no
average yet: 64 calls do not run over a budget together, nor do two processes that look at the same moment, since
one at a time is admitted. What a killed process had in flight counts as bought.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from pytest_elo.config import Price
from pytest_elo.gateway.limits import is_alive
from pytest_elo.ledger.locks import locked
from pytest_elo.ledger.prices import usd_of
from pytest_elo.records import Attempt, Sink

__all__ = ["Budget"]

_CELLS = 7
"""Of a line: the process, and in the order in which they are written, tokens and USD bought or in flight; calls that
are admitted and may cost anything; calls that ended, their tokens and USD. They are read backwards, so that who reads
while another writes takes no call in flight for cheaper than it is. Each is one aligned double, which is never seen
half written."""
_UNKNOWN = 3
"""Which of them are the calls that may cost anything."""
_LINES = 1024
_ENOUGH = 8
"""Calls that must have ended before their average is believed."""
_LOOK_S = 1.0
_SIZE = 8 * (1 + _LINES * _CELLS)
"""Bytes of the memory: the number of its lines, and the lines."""


@dataclass(frozen=True, slots=True)
class _Sums:
    """Over all processes: what is bought or in flight, and what has ended, in how many calls."""

    tokens: float
    usd: float
    unknown: float
    """Calls that are admitted, may cost anything and are in no other sum."""
    n: float
    ended_tokens: float
    ended_usd: float
    lost_tokens: float
    """In flight in processes that are no more."""
    lost_usd: float

    @property
    def average(self) -> tuple[float, float] | None:
        """Tokens and USD of a call; ``None`` while too few calls have ended to say."""
        if self.n < _ENOUGH:
            return None
        return self.ended_tokens / self.n, self.ended_usd / self.n

    @property
    def bought(self) -> tuple[float, float]:
        """Tokens and USD that nothing brings back."""
        return self.ended_tokens + self.lost_tokens, self.ended_usd + self.lost_usd

    @property
    def in_flight(self) -> tuple[float, float]:
        """Tokens and USD of calls that have a row and may yet end."""
        return self.tokens - self.bought[0], self.usd - self.bought[1]


@dataclass(slots=True)
class _Place:
    """Room that a call holds while it has no row yet: an average call's, where there is an average."""

    size: tuple[float, float] | None
    is_held: bool = True

    def taken_back(self) -> tuple[float, float, float]:
        """Tokens, USD and calls of unknown size to be added where it is held no longer."""
        if not self.is_held:
            return 0.0, 0.0, 0.0
        self.is_held = False
        return (0.0, 0.0, -1.0) if self.size is None else (-self.size[0], -self.size[1], 0.0)


_PLACE: ContextVar[_Place | None] = ContextVar("budget_place", default=None)


class Budget:
    """A ``Sink`` before the journal's that knows whether the next call may still be bought.

    ``path`` is the shared file, ``None`` for a process that shares no disk. Replayed attempts cost nothing.
    """

    def __init__(
        self,
        journal: Sink,
        path: Path | None,
        *,
        tokens: int | None,
        usd: float | None,
        prices: Mapping[str, Price],
    ) -> None:
        self._journal = journal
        self._most_tokens, self._most_usd = tokens, usd
        self._prices = prices
        self._lock = threading.Lock()
        self._reserved: dict[tuple[str, int], tuple[float, float]] = {}
        self._looked: dict[int, tuple[float, bool]] = {}
        """When it was last looked whether a process still runs, and whether it did."""
        self._memory, self._line, self._descriptor = _mapped(path)

    def shut(self) -> None:
        """Give the shared file back; nothing more is bought."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def room(self) -> AbstractContextManager[None] | None:
        """Room for one more call, to be held at once and until its request is on the wire and has a row of its own.

        ``None`` while nothing fits beside the calls in flight.
        """
        with self._lock, nullcontext() if self._descriptor is None else locked(self._descriptor):
            sums = self._sums()
            if not self._has_room(sums):
                return None
            place = _Place(sums.average)
            self._add(*(place.size or (0.0, 0.0)), float(place.size is None))
        return self._held(place)

    @contextmanager
    def _held(self, place: _Place) -> Iterator[None]:
        token = _PLACE.set(place)
        try:
            yield
        finally:
            _PLACE.reset(token)
            with self._lock:
                self._add(*place.taken_back())

    def open(self, attempt: Attempt) -> None:
        with self._lock:
            average = self._sums().average
            tokens, usd = average or (float(attempt.total_tokens_high), usd_of(attempt, self._prices) or 0.0)
            self._reserved[attempt.call_id, attempt.attempt] = (tokens, usd)
            place = _PLACE.get()
            held_tokens, held_usd, unknown = (0.0, 0.0, 0.0) if place is None else place.taken_back()
            # in one step: in between, another process would see room that there is not
            self._add(tokens + held_tokens, usd + held_usd, unknown)
        self._journal.open(attempt)

    def close(self, attempt: Attempt) -> None:
        self._journal.close(attempt)
        with self._lock:
            reserved = self._reserved.pop((attempt.call_id, attempt.attempt), None)
            if reserved is None:
                return  # it was bought before, or never
            tokens = float(max(attempt.total_tokens, attempt.total_tokens_high))
            usd = usd_of(attempt, self._prices) or 0.0
            self._add(tokens - reserved[0], usd - reserved[1], 0.0, 1.0, tokens, usd)

    def reached(self) -> str | None:
        """Which budget has no room for another average call, in words; ``None`` when one may be bought.

        What is in flight counts as what it costs on average, so a budget is used up as far as is known.
        """
        return self._reached(self._sums())

    def _reached(self, sums: _Sums) -> str | None:
        (tokens, usd), (bought_tokens, bought_usd) = sums.average or (1.0, 0.0), sums.bought
        if self._most_tokens is not None and bought_tokens + tokens > self._most_tokens:
            return f"the budget of {self._most_tokens:,} tokens is used up"
        if self._most_usd is not None and bought_usd + usd > self._most_usd:
            return f"the budget of ${self._most_usd:g} is used up"
        return None

    def _has_room(self, sums: _Sums) -> bool:
        """Whether a further call fits beside those in flight; if not, it has to wait for one of them to end."""
        if self._reached(sums) is not None:
            return False
        if sums.average is None and self._memory[self._line + _UNKNOWN]:
            return False  # nobody knows yet what a call costs: the one before must show at least its dearest
        tokens, usd = sums.average or sums.in_flight
        tokens, usd = sums.tokens + (sums.unknown + 1) * tokens, sums.usd + (sums.unknown + 1) * usd
        fits_tokens = self._most_tokens is None or tokens <= self._most_tokens
        fits_usd = self._most_usd is None or usd <= self._most_usd
        return (fits_tokens and fits_usd) or not (sums.unknown or sums.in_flight[0] > 0.5)

    def _add(self, *more: float) -> None:
        for cell, by in enumerate(more, start=self._line + 1):
            self._memory[cell] += by

    def _sums(self) -> _Sums:
        lines = [self._cells(1 + number * _CELLS) for number in range(min(int(self._memory[0]), _LINES))]
        return _Sums(*map(sum, zip(*lines, strict=True)))

    def _cells(self, line: int) -> Sequence[float]:
        """One process's part of each of the sums."""
        ended_usd, ended_tokens, n, unknown, usd, tokens, process = self._memory[line : line + _CELLS][::-1]
        if line == self._line or self._lives(int(process)):
            return tokens, usd, unknown, n, ended_tokens, ended_usd, 0.0, 0.0
        return tokens, usd, 0.0, n, ended_tokens, ended_usd, tokens - ended_tokens, usd - ended_usd

    def _lives(self, process: int) -> bool:
        looked, lives = self._looked.get(process, (-_LOOK_S, True))
        if lives and time.monotonic() >= looked + _LOOK_S:
            lives = is_alive(process)
            self._looked[process] = time.monotonic(), lives
        return lives


def _mapped(path: Path | None) -> tuple[memoryview[float], int, int | None]:
    """The shared memory as doubles, where this process's own line in it begins, and the open file to lock."""
    if path is None:
        memory = memoryview(mmap.mmap(-1, _SIZE)).cast("d")
        memory[0] = 1
        return memory, 1, None
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with locked(descriptor):
        if os.fstat(descriptor).st_size < _SIZE:
            os.truncate(descriptor, _SIZE)
        memory = memoryview(mmap.mmap(descriptor, _SIZE)).cast("d")
        taken = int(memory[0])
        line = 1 + min(taken, _LINES - 1) * _CELLS
        memory[line] = os.getpid()
        memory[0] = taken + 1
    return memory, line, descriptor
