"""Millions of votes to two small tables: the one pass over the data that every fit needs.

Votes are counted, never stored: chunks small enough for the cache are turned into one integer key a vote
and counted with ``bincount``. What follows costs the same for a thousand votes as for a billion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_elo.errors import DataError

__all__ = ["A_WON", "B_WON", "TIE", "count_votes", "intern_names"]

Floats = NDArray[np.float64]
Codes = NDArray[Any]

B_WON, TIE, A_WON = 0, 1, 2
"""An outcome is twice the score of a."""

_CHUNK = 1 << 17


def intern_names(left: Sequence[str], right: Sequence[str]) -> tuple[list[str], Codes, Codes]:
    """The names in sorted order, and both columns as codes into them."""
    met: defaultdict[str, int] = defaultdict(count().__next__)
    a = np.fromiter(map(met.__getitem__, left), np.int32, len(left))
    b = np.fromiter(map(met.__getitem__, right), np.int32, len(right))
    names = sorted(met)
    place = np.empty(len(names), dtype=np.int32)
    place[[met[name] for name in names]] = np.arange(len(names))
    return names, place[a], place[b]


def count_votes(a: Codes, b: Codes, outcome: Codes, n: int) -> tuple[Floats, Floats]:
    """(n, n) wins (i over j) and (n, n) symmetric ties from (V,) codes and outcomes ``B_WON``..``A_WON``.

    Raises ``DataError`` for columns of different length and for codes or outcomes out of range.
    """
    a, b, outcome = np.asarray(a), np.asarray(b), np.asarray(outcome)
    if not a.shape == b.shape == outcome.shape or a.ndim != 1:
        raise DataError(f"votes: columns differ in shape: {a.shape}, {b.shape}, {outcome.shape}")
    counts: NDArray[Any] | None = None
    # A chunk's counts cost 3 n^2 to add up, so chunks grow with the table.
    chunk = max(_CHUNK, 6 * n * n)
    key_type: type[Any] = np.int32 if 3 * n * n < 2**31 else np.int64
    key: NDArray[Any] = np.empty(min(chunk, len(a)), dtype=key_type)
    wide = np.empty(len(key), dtype=np.int64)
    for start in range(0, len(a), chunk):
        part = slice(start, start + chunk)
        size = len(a[part])
        _check(a[part], b[part], outcome[part], n, start)
        np.multiply(a[part], n, out=key[:size], casting="unsafe", dtype=key_type)
        np.add(key[:size], b[part], out=key[:size], casting="unsafe")
        np.multiply(key[:size], 3, out=key[:size])
        np.add(key[:size], outcome[part], out=key[:size], casting="unsafe")
        wide[:size] = key[:size]
        found = np.bincount(wide[:size], minlength=3 * n * n)
        counts = found if counts is None else np.add(counts, found, out=counts)
    wins, ties = np.zeros((n, n)), np.zeros((n, n))
    if counts is not None:
        table = counts.reshape(n, n, 3)
        np.add(table[:, :, A_WON], table[:, :, B_WON].T, out=wins)
        np.add(table[:, :, TIE], table[:, :, TIE].T, out=ties)
    return wins, ties


def _check(a: Codes, b: Codes, outcome: Codes, n: int, start: int) -> None:
    for name, column, limit in (("a", a, n), ("b", b, n), ("outcome", outcome, 3)):
        # Seen without their sign, negative codes are the largest: one pass finds both ends.
        codes = column.view(f"u{column.dtype.itemsize}") if column.dtype.kind == "i" else column
        if len(codes) and not codes.max() < limit:
            row = start + int(np.flatnonzero((column < 0) | (column >= limit))[0])
            raise DataError(f"votes.{name}: row {row} holds a code outside 0..{limit - 1}")
