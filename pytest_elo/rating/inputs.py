"""What the library is given: comparisons and usage, as columns of codes and numbers.

A code is a position in the tuple of names of its kind. Names may come in any order and rows in any order:
the first thing done to them is to bring them into one canonical form, so the same rows give the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_elo.errors import DataError

__all__ = ["Comparisons", "Usage"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """One row a comparison; R rows.

    An item is known by its name within its task: ``items`` may repeat a name under two tasks. The weights
    of the rows of one (task, item, a, b) should sum to 1 whatever the repeats.
    """

    tasks: tuple[str, ...]
    items: tuple[str, ...]
    policies: tuple[str, ...]
    judges: tuple[str, ...] = ()
    task: ArrayLike
    """(R,) codes into ``tasks``"""
    item: ArrayLike
    """(R,) codes into ``items``"""
    a: ArrayLike
    """(R,) codes into ``policies``"""
    b: ArrayLike
    """(R,) codes into ``policies``, never equal to ``a``"""
    share: ArrayLike
    """(R,) in [0, 1]: 1 a won, 0 b won, 0.5 a tie. Another share s is s of a win and 1 - s of a loss."""
    weight: ArrayLike
    """(R,) >= 0"""
    judge: ArrayLike | None = None
    """(R,) codes into ``judges``, -1 for none; given, intervals are clustered by item and by judge"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One row a (task, item, policy) cell: means over the repeats; R rows.

    Tokens are those of every attempt charged to the policy on the item. A NaN in an optional column means
    "not known" and makes the numbers that need it absent, with a reason.
    """

    tasks: tuple[str, ...]
    items: tuple[str, ...]
    policies: tuple[str, ...]
    task: ArrayLike
    item: ArrayLike
    policy: ArrayLike
    tokens: ArrayLike
    """(R,) total tokens, the low end of what is known"""
    tokens_high: ArrayLike | None = None
    """(R,) the high end; ``None``: equal to ``tokens``"""
    completion_tokens: ArrayLike | None = None
    last_success_tokens: ArrayLike | None = None
    """(R,) tokens of the last successful call alone, the count that flatters"""
    usd: ArrayLike | None = None
    samples: ArrayLike | None = None
    """(R,) calls per repeat"""
    score: ArrayLike | None = None
    """(R,) mean score in [0, 1]; NaN for tasks that have no score of their own (arena)"""
    repeats: ArrayLike | None = None
    """(R,) number of repeats behind the means"""


def codes(rows: Comparisons | Usage, column: str, names: tuple[str, ...], least: int = 0) -> Integers:
    """The column as int64, checked to be codes into ``names`` (from ``least``: -1 lets "none" pass)."""
    values = np.asarray(getattr(rows, column))
    if values.ndim != 1 or (len(values) and values.dtype.kind not in "iu"):
        raise DataError(f"{_what(rows)}.{column}: expected a one-dimensional array of integer codes")
    values = values.astype(np.int64)
    if len(values) and not (values.min() >= least and values.max() < len(names)):
        raise DataError(f"{_what(rows)}.{column}: a code is outside the {len(names)} names given")
    return values


def numbers(rows: Comparisons | Usage, column: str, low: float, high: float, *, missing: bool) -> Floats:
    """The column as float64, checked to lie in [low, high]; NaN passes only where ``missing`` is allowed."""
    values = np.asarray(getattr(rows, column), dtype=np.float64)
    if values.ndim != 1:
        raise DataError(f"{_what(rows)}.{column}: expected a one-dimensional array")
    absent = np.isnan(values)
    bad = ~(absent & missing) & ~((values >= low) & (values <= high) & np.isfinite(values))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        wanted = f"a number in [{low:g}, {high:g}]" if math.isfinite(high) else f"a finite number from {low:g} up"
        raise DataError(f"{_what(rows)}.{column}: row {row} holds {float(values[row])!r}, not {wanted}")
    return values


def check_lengths(rows: Comparisons | Usage) -> None:
    """Every given column has the same length, and names are unique (items excepted)."""
    lengths = {}
    for field in fields(rows):
        value = getattr(rows, field.name)
        if isinstance(value, tuple) or value is None:
            continue
        lengths[field.name] = len(np.asarray(value))
    if len(set(lengths.values())) > 1:
        raise DataError(f"{_what(rows)}: columns differ in length: {lengths}")
    for kind in ("tasks", "policies", "judges"):
        names = getattr(rows, kind, ())
        if len(set(names)) != len(names):
            raise DataError(f"{_what(rows)}.{kind}: a name stands twice")


def _what(rows: object) -> str:
    return type(rows).__name__.lower()
