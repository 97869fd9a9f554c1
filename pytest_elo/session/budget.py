"""What all processes of a run have bought so far, against what they may buy.

The sums stand in one small file that every process of the run maps into memory; each adds to a line of its
own, so nothing waits for a lock. A call in flight is counted as an average call until it ends, which keeps
64 of them from running over a budget together; that of a killed process stays counted.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from collections.abc import Mapping
from pathlib import Path

from pytest_elo.config import Price
from pytest_elo.ledger.locks import locked
from pytest_elo.records import Attempt, Sink

__all__ = ["Budget", "usd_of"]

_LINE = struct.Struct("<dddd")
"""Tokens and USD bought or in flight; tokens and USD of calls that ended. Their number is in ``_COUNT``."""
_COUNT = struct.Struct("<q")
_LINE_SIZE = _LINE.size + _COUNT.size
_LINES = 1024
_SIZE = 8 + _LINES * _LINE_SIZE


def usd_of(row: Attempt, prices: Mapping[str, Price]) -> float | None:
    """What an attempt cost in USD, the high end where its tokens are an interval; ``None`` without a price."""
    price = prices.get(row.model)
    if price is None:
        return None
    cached = row.cached_tokens or 0
    unknown = max(0, row.total_tokens_high - row.total_tokens)
    cached_price = price.prompt if price.cached is None else price.cached
    prompt = (row.prompt_tokens - cached) * price.prompt + cached * cached_price
    return (prompt + (row.completion_tokens + unknown) * price.completion) / 1e6


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
        self._memory, self._line = _mapped(path)

    def open(self, attempt: Attempt) -> None:
        with self._lock:
            _, _, tokens, usd, n = self._sums()
            average = (tokens / n, usd / n) if n else (0.0, 0.0)
            self._reserved[attempt.call_id, attempt.attempt] = average
            self._add(*average, 0.0, 0.0, 0)
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

    @property
    def spent(self) -> tuple[int, float]:
        """(tokens, USD) of this and earlier processes of the run, calls in flight included."""
        tokens, usd, *_ = self._sums()
        return round(tokens), usd

    def reached(self) -> str | None:
        """Which budget another average call would exceed, in words; ``None`` when it may be bought."""
        tokens, usd, ended_tokens, ended_usd, n = self._sums()
        if self._most_tokens is not None and tokens + (ended_tokens / n if n else 1) > self._most_tokens:
            return f"the budget of {self._most_tokens:,} tokens is used up ({tokens:,.0f} bought)"
        if self._most_usd is not None and usd + (ended_usd / n if n else 0) > self._most_usd:
            return f"the budget of ${self._most_usd:g} is used up (${usd:.4f} spent)"
        return None

    def _add(self, tokens: float, usd: float, ended_tokens: float, ended_usd: float, n: int) -> None:
        known = _LINE.unpack_from(self._memory, self._line)
        added = zip(known, (tokens, usd, ended_tokens, ended_usd), strict=True)
        _LINE.pack_into(self._memory, self._line, *(old + new for old, new in added))
        place = self._line + _LINE.size
        _COUNT.pack_into(self._memory, place, _COUNT.unpack_from(self._memory, place)[0] + n)

    def _sums(self) -> tuple[float, float, float, float, int]:
        (lines,) = _COUNT.unpack_from(self._memory, 0)
        sums, n = [0.0] * 4, 0
        for number in range(min(lines, _LINES)):
            start = 8 + number * _LINE_SIZE
            sums = [total + part for total, part in zip(sums, _LINE.unpack_from(self._memory, start), strict=True)]
            n += _COUNT.unpack_from(self._memory, start + _LINE.size)[0]
        return (sums[0], sums[1], sums[2], sums[3], n)


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
