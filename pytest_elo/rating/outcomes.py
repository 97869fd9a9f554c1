"""From outcomes to comparisons: on each item, every repeat of one policy meets every repeat of another."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_elo.errors import DataError
from pytest_elo.rating.inputs import Comparisons

__all__ = ["comparisons_from_outcomes"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def comparisons_from_outcomes(
    *,
    tasks: tuple[str, ...],
    items: tuple[str, ...],
    policies: tuple[str, ...],
    task: ArrayLike,
    item: ArrayLike,
    policy: ArrayLike,
    repeat: ArrayLike,
    score: ArrayLike,
    epsilon: float = 0.0,
) -> Comparisons:
    """Compare the policies of each item by score.

    Columns hold one outcome a row: codes into the names, the repeat's number, a score in [0, 1]. The higher
    score wins if it is higher by more than ``epsilon``, otherwise the pair ties. All cross pairs of repeats
    of two policies share a total weight of 1, so that more repeats sharpen a comparison and never multiply
    it. At most three rows (won, lost, tied) come out for one item and pair, in canonical order. Raises
    ``DataError`` if an outcome stands twice or a score is not a number in [0, 1].
    """
    columns = [np.asarray(column) for column in (task, item, policy, repeat)]
    scores = np.asarray(score, dtype=np.float64)
    if any(column.shape != scores.shape or column.ndim != 1 for column in columns):
        raise DataError("outcomes: columns differ in length or are not one-dimensional")
    if not ((scores >= 0.0) & (scores <= 1.0)).all():
        row = int(np.flatnonzero(~((scores >= 0.0) & (scores <= 1.0)))[0])
        raise DataError(f"outcomes.score: row {row} holds {scores[row]!r}, not a number in [0, 1]")
    order = np.lexsort((columns[3], columns[2], columns[1], columns[0]))
    rows = np.stack(columns)[:, order].astype(np.int64)
    scores = scores[order]
    twice = np.flatnonzero((np.diff(rows, axis=1) == 0).all(axis=0))
    if len(twice):
        t, i, p, r = rows[:, twice[0]].tolist()
        raise DataError(
            f"outcomes: task {tasks[t]!r}, item {items[i]!r}, policy {policies[p]!r}, repeat {r} stands twice"
        )
    first, second = _pairs_of_rows(rows[0] * max(len(items), 1) + rows[1], rows[2])
    gap = scores[first] - scores[second]
    outcome = np.where(np.abs(gap) <= epsilon, 1, np.where(gap > 0.0, 2, 0))
    pair = ((rows[0, first] * len(items) + rows[1, first]) * len(policies) + rows[2, first]) * len(policies)
    key, cell = np.unique(pair + rows[2, second], return_inverse=True)
    counts = np.bincount(cell * 3 + outcome, minlength=3 * len(key)).reshape(-1, 3).astype(np.float64)
    weights = counts / counts.sum(axis=1, keepdims=True)
    cell, kind = np.nonzero(counts)
    rest, b = np.divmod(key[cell], len(policies))
    rest, a = np.divmod(rest, len(policies))
    return Comparisons(
        tasks=tasks,
        items=items,
        policies=policies,
        task=rest // max(len(items), 1),
        item=rest % max(len(items), 1),
        a=a,
        b=b,
        share=kind / 2.0,
        weight=weights[cell, kind],
    )


def _pairs_of_rows(unit: Integers, policy: Integers) -> tuple[Integers, Integers]:
    """All pairs (i, j) of sorted rows in one unit with ``policy[i] < policy[j]``."""
    n = len(unit)
    if n == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    starts = np.flatnonzero(np.r_[True, np.diff(unit) != 0])
    end_of_unit = np.r_[starts[1:], n][np.searchsorted(starts, np.arange(n), side="right") - 1]
    changes = np.flatnonzero(np.r_[True, (np.diff(unit) != 0) | (np.diff(policy) != 0)])
    end_of_policy = np.r_[changes[1:], n][np.searchsorted(changes, np.arange(n), side="right") - 1]
    partners = end_of_unit - end_of_policy
    first = np.repeat(np.arange(n), partners)
    offset = np.arange(len(first)) - np.repeat(np.cumsum(partners) - partners, partners)
    return first, np.repeat(end_of_policy, partners) + offset
