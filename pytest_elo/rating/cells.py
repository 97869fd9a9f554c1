"""From rows to cells: what each item says about each pair of policies, in canonical order.

Names are sorted, pairs are turned so that a < b, and weights are rounded to multiples of one power of two
(relative error below 2**-52 times the number of rows; none for whole numbers) such that every sum of them
is exact. An exact sum does not depend on the order of its terms, so neither the order of rows nor chunks
nor threads can change a bit of what follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_elo.errors import DataError
from pytest_elo.rating.inputs import Comparisons, Usage, check_lengths, codes, numbers

__all__ = ["Cells", "Frame", "Meters", "collect_cells", "collect_meters", "exact", "frame"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Frame:
    """The canonical axes: tasks, policies and units, a unit being one item of one task."""

    tasks: tuple[str, ...]
    policies: tuple[str, ...]
    unit_task: Integers
    """(U,) task of each unit, ascending"""
    unit_item: tuple[str, ...]
    """(U,) item name of each unit, ascending within the task"""
    _unit_of: dict[tuple[str, str], int]

    def units(self, rows: Comparisons | Usage) -> Integers:
        """(R,) unit of each row."""
        task, item = codes(rows, "task", rows.tasks), codes(rows, "item", rows.items)
        key = task * max(len(rows.items), 1) + item
        present, inverse = np.unique(key, return_inverse=True)
        width = max(len(rows.items), 1)
        units = [self._unit_of[rows.tasks[k // width], rows.items[k % width]] for k in present.tolist()]
        return np.array(units, dtype=np.int64)[inverse]


@dataclass(frozen=True, slots=True)
class Cells:
    """C cells, one for each (unit, pair, judge) with weight, ascending in that order."""

    unit: Integers
    a: Integers
    b: Integers
    judge: Integers
    """(C,) position of the judge's name in sorted order; -1 without judges"""
    n_judges: int
    wins: Floats
    """(C,) weight won by a"""
    losses: Floats
    ties: Floats
    n_rows: int
    """rows given, before they were gathered"""

    def tables(self, group: Integers, n_groups: int, n_policies: int) -> tuple[Floats, Floats]:
        """Sum cells into (n_groups, n, n) wins and (symmetric) ties; ``group`` is (C,)."""
        shape = (n_groups, n_policies, n_policies)
        size = math.prod(shape)
        forward = (group * n_policies + self.a) * n_policies + self.b
        backward = (group * n_policies + self.b) * n_policies + self.a
        wins = np.bincount(forward, self.wins, size) + np.bincount(backward, self.losses, size)
        ties = np.bincount(forward, self.ties, size) + np.bincount(backward, self.ties, size)
        return wins.reshape(shape), ties.reshape(shape)


@dataclass(frozen=True, slots=True)
class Meters:
    """Usage on the canonical axes: (U, n) each, NaN where nothing is known."""

    tokens: Floats
    tokens_high: Floats
    completion_tokens: Floats
    last_success_tokens: Floats
    usd: Floats
    samples: Floats
    score: Floats
    repeats: Floats


def frame(comparisons: Comparisons, usage: Usage | None) -> Frame:
    """The union of the names that rows use, sorted."""
    tasks: set[str] = set()
    policies: set[str] = set()
    units: set[tuple[str, str]] = set()
    sources: list[tuple[Comparisons | Usage, tuple[str, ...]]] = [(comparisons, ("a", "b"))]
    if usage is not None:
        sources.append((usage, ("policy",)))
    for rows, columns in sources:
        check_lengths(rows)
        task, item = codes(rows, "task", rows.tasks), codes(rows, "item", rows.items)
        width = max(len(rows.items), 1)
        for key in np.unique(task * width + item).tolist():
            units.add((rows.tasks[key // width], rows.items[key % width]))
        tasks.update(rows.tasks[code] for code in np.unique(task).tolist())
        for column in columns:
            present = np.unique(codes(rows, column, rows.policies)).tolist()
            policies.update(rows.policies[code] for code in present)
    ordered = sorted(units)
    task_names = tuple(sorted(tasks))
    position = {name: i for i, name in enumerate(task_names)}
    return Frame(
        tasks=task_names,
        policies=tuple(sorted(policies)),
        unit_task=np.array([position[task] for task, _ in ordered], dtype=np.int64),
        unit_item=tuple(item for _, item in ordered),
        _unit_of={unit: i for i, unit in enumerate(ordered)},
    )


def exact(weights: Floats) -> Floats:
    """Round to multiples of one power of two, so that any sum of these weights is exact."""
    largest = float(weights.max(initial=0.0))
    if largest == 0.0:
        return weights
    quantum = math.ldexp(1.0, math.ceil(math.log2(largest)) + math.ceil(math.log2(len(weights) + 1)) - 52)
    rounded: Floats = np.rint(weights / quantum) * quantum
    return rounded


def collect_cells(comparisons: Comparisons, axes: Frame) -> Cells:
    """Gather rows into cells; raises ``DataError`` on a policy against itself or a number out of range."""
    rename = _renaming(comparisons.policies, axes.policies)
    a = rename[codes(comparisons, "a", comparisons.policies)]
    b = rename[codes(comparisons, "b", comparisons.policies)]
    same = np.flatnonzero(a == b)
    if len(same):
        raise DataError(f"comparisons: row {same[0]} compares {axes.policies[a[same[0]]]!r} with itself")
    share = numbers(comparisons, "share", 0.0, 1.0, missing=False)
    weight = exact(numbers(comparisons, "weight", 0.0, math.inf, missing=False))
    judge, n_judges = np.full(len(a), -1, dtype=np.int64), 0
    if comparisons.judge is not None:
        names = tuple(sorted(comparisons.judges))
        judge = _renaming(comparisons.judges, names)[codes(comparisons, "judge", comparisons.judges)]
        n_judges = len(names)
    flipped = a > b
    share = np.where(flipped, 1.0 - share, share)
    a, b = np.where(flipped, b, a), np.where(flipped, a, b)
    n = max(len(axes.policies), 1)
    key = ((axes.units(comparisons) * n + a) * n + b) * (n_judges + 1) + judge + 1
    key, row = np.unique(key[weight > 0.0], return_inverse=True)
    share, weight = share[weight > 0.0], weight[weight > 0.0]
    tie = share == 0.5
    pair, judge = np.divmod(key, n_judges + 1)
    unit, pair = np.divmod(pair, n * n)
    sums = [
        np.bincount(row, column, len(key))
        for column in (
            np.where(tie, 0.0, exact(weight * share)),
            np.where(tie, 0.0, exact(weight * (1.0 - share))),
            np.where(tie, weight, 0.0),
        )
    ]
    return Cells(unit, pair // n, pair % n, judge - 1, n_judges, *sums, n_rows=len(flipped))


def collect_meters(usage: Usage | None, axes: Frame) -> Meters:
    """Usage as (U, n) tables; raises ``DataError`` where two rows give the same cell."""
    shape = (len(axes.unit_item), len(axes.policies))
    if usage is None:
        return Meters(*(np.full(shape, np.nan) for _ in range(8)))
    policy = _renaming(usage.policies, axes.policies)[codes(usage, "policy", usage.policies)]
    cell = axes.units(usage) * shape[1] + policy
    if len(np.unique(cell)) != len(cell):
        unit, column = divmod(int(np.sort(cell)[np.flatnonzero(np.diff(np.sort(cell)) == 0)[0]]), shape[1])
        raise DataError(
            f"usage: task {axes.tasks[axes.unit_task[unit]]!r}, item {axes.unit_item[unit]!r}, policy "
            f"{axes.policies[column]!r} stands twice; give one row with the means over repeats"
        )

    def table(column: str, high: float = math.inf, *, missing: bool = True) -> Floats:
        filled = np.full(shape[0] * shape[1], np.nan)
        if getattr(usage, column) is not None:
            filled[cell] = numbers(usage, column, 0.0, high, missing=missing)
        return filled.reshape(shape)

    tokens = table("tokens", missing=False)
    return Meters(
        tokens=tokens,
        tokens_high=tokens if usage.tokens_high is None else table("tokens_high"),
        completion_tokens=table("completion_tokens"),
        last_success_tokens=table("last_success_tokens"),
        usd=table("usd"),
        samples=table("samples"),
        score=table("score", 1.0),
        repeats=table("repeats"),
    )


def _renaming(names: Sequence[str], canonical: Sequence[str]) -> Integers:
    """(len(names),) position of each name in the canonical order, -1 where no row uses it."""
    position = {name: i for i, name in enumerate(canonical)}
    return np.array([position.get(name, -1) for name in names], dtype=np.int64)
