"""What all processes of a run have bought so far, against what they may buy.

The sums stand in one small file that every process of the run maps into memory; each adds to a line of its
own, so nothing waits for a lock. A call in flight is counted as an average call until it ends, and as the
dearest it can be while there is no average yet: 64 calls do not run over a budget together. What a killed
process had in flight stays counted.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from pytest_elo.config import Price
from pytest_elo.ledger.locks import locked
from pytest_elo.ledger.prices import usd_of
from pytest_elo.records import Attempt, Sink

__all__ = ["Budget"]

_LINE = struct.Struct("<dddd")
"""Tokens and USD bought or in flight; tokens and USD of calls that ended. Their number is in ``_COUNT``."""
_COUNT = struct.Struct("<q")
_LINE_SIZE = _LINE.size + _COUNT.size
_LINES = 1024
_ENOUGH = 8
"""Calls that must have ended before their average is believed."""
_SIZE = 8 + _LINES * _LINE_SIZE


@dataclass(frozen=True, slots=True)
class _Sums:
    """Over all processes: ``tokens`` and ``usd`` bought or in flight, of them of calls that ended, and their number."""

    tokens: float
    usd: float
    ended_tokens: float
    ended_usd: float
    n: int

    @property
    def average(self) -> tuple[float | None, float]:
        """Tokens and USD of a call; no tokens while too few calls have ended to say."""
        if self.n < _ENOUGH:
            return None, 0.0
        return self.ended_tokens / self.n, self.ended_usd / self.n

    @property
    def in_flight(self) -> bool:
        return self.tokens - self.ended_tokens > 0.5


@dataclass(slots=True)
class _Place:
    """Room that a call holds while it has no row yet."""

    tokens: float
    usd: float
    is_held: bool = True


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
        self._places = 0
        self._reserved: dict[tuple[str, int], tuple[float, float]] = {}
        self._memory, self._line = _mapped(path)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold room for a call from its admission until its request is on the wire and has a row of its own."""
        with self._lock:
            tokens, usd = self._sums().average
            place = _Place(1.0 if tokens is None else tokens, usd)
            self._add(place.tokens, place.usd, 0.0, 0.0, 0)
            self._places += 1
        token = _PLACE.set(place)
        try:
            yield
        finally:
            _PLACE.reset(token)
            with self._lock:
                self._give_up(place)

    def _give_up(self, place: _Place | None) -> None:
        if place is not None and place.is_held:
            place.is_held = False
            self._places -= 1
            self._add(-place.tokens, -place.usd, 0.0, 0.0, 0)

    def open(self, attempt: Attempt) -> None:
        with self._lock:
            self._give_up(_PLACE.get())
            tokens, usd = self._sums().average
            if tokens is None:
                tokens, usd = float(attempt.total_tokens_high), usd_of(attempt, self._prices) or 0.0
            self._reserved[attempt.call_id, attempt.attempt] = (tokens, usd)
            self._add(tokens, usd, 0.0, 0.0, 0)
        self._journal.open(attempt)

    def close(self, attempt: Attempt) -> None:
        self._journal.close(attempt)
        with self._lock:
            reserved = self._reserved.pop((attempt.call_id, attempt.attempt), None)
            if reserved is None:
                return  # it was bought before, or never
            tokens = float(max(attempt.total_tokens, attempt.total_tokens_high))
            usd = usd_of(attempt, self._prices) or 0.0
            self._add(tokens - reserved[0], usd - reserved[1], tokens, usd, 1)

    def reached(self) -> str | None:
        """Which budget has no room for another average call, in words; ``None`` when one may be bought.

        What is in flight counts as what it costs on average, so a budget is used up as far as is known.
        """
        sums = self._sums()
        tokens, usd = sums.average
        if self._most_tokens is not None and sums.ended_tokens + (tokens or 1) > self._most_tokens:
            return f"the budget of {self._most_tokens:,} tokens is used up"
        if self._most_usd is not None and sums.ended_usd + usd > self._most_usd:
            return f"the budget of ${self._most_usd:g} is used up"
        return None

    @property
    def has_room(self) -> bool:
        """Whether a further call fits beside those in flight; if not, it has to wait for one of them to end."""
        sums = self._sums()
        if not sums.in_flight:
            return True
        tokens, usd = sums.average
        if tokens is None and self._places:
            return False  # nobody knows yet what a call costs: the one before must show at least its dearest
        if tokens is None:
            tokens, usd = sums.tokens - sums.ended_tokens, sums.usd - sums.ended_usd
        fits_tokens = self._most_tokens is None or sums.tokens + tokens <= self._most_tokens
        return fits_tokens and (self._most_usd is None or sums.usd + usd <= self._most_usd)

    def _add(self, tokens: float, usd: float, ended_tokens: float, ended_usd: float, n: int) -> None:
        known = _LINE.unpack_from(self._memory, self._line)
        added = zip(known, (tokens, usd, ended_tokens, ended_usd), strict=True)
        _LINE.pack_into(self._memory, self._line, *(old + new for old, new in added))
        place = self._line + _LINE.size
        _COUNT.pack_into(self._memory, place, _COUNT.unpack_from(self._memory, place)[0] + n)

    def _sums(self) -> _Sums:
        (lines,) = _COUNT.unpack_from(self._memory, 0)
        starts = [8 + number * _LINE_SIZE for number in range(min(lines, _LINES))]
        columns = zip(*(_LINE.unpack_from(self._memory, start) for start in starts), strict=True)
        tokens, usd, ended_tokens, ended_usd = map(sum, columns)
        n = sum(_COUNT.unpack_from(self._memory, start + _LINE.size)[0] for start in starts)
        return _Sums(tokens, usd, ended_tokens, ended_usd, n)


def _mapped(path: Path | None) -> tuple[mmap.mmap, int]:
    """The shared memory, and where this process's own line in it begins."""
    if path is None:
        memory = mmap.mmap(-1, _SIZE)
        _COUNT.pack_into(memory, 0, 1)
        return memory, 8
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with locked(descriptor):
            if os.fstat(descriptor).st_size < _SIZE:
                os.truncate(descriptor, _SIZE)
            memory = mmap.mmap(descriptor, _SIZE)
            (taken,) = _COUNT.unpack_from(memory, 0)
            _COUNT.pack_into(memory, 0, taken + 1)
    finally:
        os.close(descriptor)
    return memory, 8 + min(taken, _LINES - 1) * _LINE_SIZE
