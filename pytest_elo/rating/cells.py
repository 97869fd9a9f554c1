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
from pytest_elo.rating.moments import Strata

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
    comparison_unit: Integers
    """(R,) unit of each comparison"""
    usage_unit: Integers
    """(R',) unit of each usage row"""

    @property
    def strata(self) -> Strata:
        return Strata(self.unit_task, len(self.tasks))


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
        return wins.reshape(shape).astype(np.float64), ties.reshape(shape).astype(np.float64)


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
    policies: set[str] = set()
    sources: list[tuple[Comparisons | Usage, tuple[str, ...]]] = [(comparisons, ("a", "b"))]
    if usage is not None:
        sources.append((usage, ("policy",)))
    named: list[tuple[list[tuple[str, str]], Integers]] = []
    for rows, columns in sources:
        check_lengths(rows)
        task, item = codes(rows, "task", rows.tasks), codes(rows, "item", rows.items)
        width = max(len(rows.items), 1)
        present, position = _distinct(task * width + item, len(rows.tasks) * width)
        named.append(([(rows.tasks[k // width], rows.items[k % width]) for k in present.tolist()], position))
        for column in columns:
            used, _ = _distinct(codes(rows, column, rows.policies), len(rows.policies))
            policies.update(rows.policies[code] for code in used.tolist())
    units = sorted({unit for names, _ in named for unit in names})
    tasks = tuple(sorted({task for task, _ in units}))
    task_position = {name: i for i, name in enumerate(tasks)}
    unit_position = {unit: i for i, unit in enumerate(units)}
    row_units = [
        np.array([unit_position[unit] for unit in names], dtype=np.int64)[position] for names, position in named
    ]
    return Frame(
        tasks=tasks,
        policies=tuple(sorted(policies)),
        unit_task=np.array([task_position[task] for task, _ in units], dtype=np.int64),
        unit_item=tuple(item for _, item in units),
        comparison_unit=row_units[0],
        usage_unit=row_units[1] if usage is not None else np.zeros(0, dtype=np.int64),
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
        given = codes(comparisons, "judge", comparisons.judges, least=-1)
        judge = np.append(_renaming(comparisons.judges, names), -1)[given]
        n_judges = len(names)
    flipped = a > b
    share = np.where(flipped, 1.0 - share, share)
    a, b = np.where(flipped, b, a), np.where(flipped, a, b)
    n = max(len(axes.policies), 1)
    key = ((axes.comparison_unit * n + a) * n + b) * (n_judges + 1) + judge + 1
    key, row = _distinct(key[weight > 0.0], len(axes.unit_item) * n * n * (n_judges + 1))
    share, weight = share[weight > 0.0], weight[weight > 0.0]
    tie = share == 0.5
    pair, judge = np.divmod(key, n_judges + 1)
    unit, pair = np.divmod(pair, n * n)
    wins = np.bincount(row, np.where(tie, 0.0, exact(weight * share)), len(key))
    losses = np.bincount(row, np.where(tie, 0.0, exact(weight * (1.0 - share))), len(key))
    ties = np.bincount(row, np.where(tie, weight, 0.0), len(key))
    return Cells(
        unit=unit,
        a=pair // n,
        b=pair % n,
        judge=judge - 1,
        n_judges=n_judges,
        wins=wins.astype(np.float64),
        losses=losses.astype(np.float64),
        ties=ties.astype(np.float64),
        n_rows=len(flipped),
    )


def collect_meters(usage: Usage | None, axes: Frame) -> Meters:
    """Usage as (U, n) tables; raises ``DataError`` where two rows give the same cell."""
    shape = (len(axes.unit_item), len(axes.policies))
    if usage is None:
        return Meters(*(np.full(shape, np.nan) for _ in range(8)))
    policy = _renaming(usage.policies, axes.policies)[codes(usage, "policy", usage.policies)]
    cell = axes.usage_unit * shape[1] + policy
    times = np.bincount(cell, minlength=1)
    if times.max() > 1:
        unit, column = divmod(int(times.argmax()), shape[1])
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


def _distinct(keys: Integers, size: int) -> tuple[Integers, Integers]:
    """Distinct keys in ascending order and the position of each row's key among them.

    By a table over all ``size`` possible keys where that is not much larger than the rows, else by sorting.
    """
    if size > 8 * len(keys) + 1_000_000:
        values, inverse = np.unique(keys, return_inverse=True)
        return values, inverse.astype(np.int64, copy=False)
    seen = np.zeros(size, dtype=np.bool_)
    seen[keys] = True
    values = np.flatnonzero(seen).astype(np.int64, copy=False)
    position = np.cumsum(seen) - 1
    return values, position[keys]


def _renaming(names: Sequence[str], canonical: Sequence[str]) -> Integers:
    """(len(names),) position of each name in the canonical order, -1 where no row uses it."""
    position = {name: i for i, name in enumerate(canonical)}
    return np.array([position.get(name, -1) for name in names], dtype=np.int64)
