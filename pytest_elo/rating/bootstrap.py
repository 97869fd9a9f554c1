"""Bootstrap of whole items: every round draws items of each task with replacement and fits again.

Ratings and tokens are resampled together, so the interval of a ratio knows that dear items are hard items.
Weights are multiples of one power of two small enough that the sums of resampled tables are exact: a
threaded BLAS may add them in any order without changing a bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating.cells import Cells, Frame
from pytest_elo.rating.combine import TaskFits
from pytest_elo.rating.groups import Groups, Ties, fit_groups
from pytest_elo.rating.quantiles import empirical_quantile
from pytest_elo.rating.refit import Design, refit

__all__ = ["Draws", "bca_interval", "percentile_interval", "resample"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_STACK = 250_000
"""Numbers per stack of tables: large enough to amortise numpy's calls, small enough for the cache."""


@dataclass(frozen=True, slots=True)
class Draws:
    """One row a round."""

    delta: Floats
    """(B, n) logits against the anchor; NaN where the drawn items do not connect the two"""
    task_delta: Floats
    """(T, B, n) the same within each task"""
    means: Floats
    """(M, B, n) means of the M usage columns with the route's task weights"""


@dataclass(frozen=True, slots=True)
class _Resampled:
    """One task's rounds."""

    wins: Floats
    """(B, n, n)"""
    ties: Floats
    sums: Floats
    """(M, B, n) of the usage columns"""
    sizes: Floats
    """(M, B, n) items behind the sums"""


def resample(
    cells: Cells,
    axes: Frame,
    tasks: TaskFits,
    pooled: Groups | None,
    columns: Floats,
    known: Booleans,
    *,
    mode: Ties,
    rounds: int,
    seed: int,
) -> Draws:
    """Draw ``rounds`` bootstrap rounds; ``columns`` and ``known`` are (M, U, n).

    ``pooled`` is the fit of all tasks together where that is the route.
    """
    every_task = range(len(axes.tasks))
    drawn = [_task_rounds(cells, axes, columns, known, task, rounds, seed) for task in every_task]
    anchor = tasks.anchor
    task_delta = np.stack([_contrasts(each, tasks.groups, task, anchor, mode) for task, each in enumerate(drawn)])
    sums, sizes = np.stack([each.sums for each in drawn]), np.stack([each.sizes for each in drawn])
    if pooled is None:
        with np.errstate(invalid="ignore", divide="ignore"):
            return Draws(_mean(task_delta), task_delta, _mean(sums / sizes))
    together = _Resampled(
        wins=np.sum([each.wins for each in drawn], axis=0),
        ties=np.sum([each.ties for each in drawn], axis=0),
        sums=sums.sum(axis=0),
        sizes=sizes.sum(axis=0),
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        means = together.sums / together.sizes
    return Draws(_contrasts(together, pooled, 0, anchor, mode), task_delta, means)


def percentile_interval(draws: Floats, level: float) -> tuple[float, float] | None:
    """The central ``level`` of the draws; ``None`` if fewer than half of the rounds gave a number."""
    finite = draws[np.isfinite(draws)]
    if len(finite) < 0.5 * len(draws):
        return None
    return empirical_quantile(finite, 0.5 * (1.0 - level)), empirical_quantile(finite, 0.5 * (1.0 + level))


def bca_interval(draws: Floats, value: float, influence: Floats, level: float) -> tuple[float, float] | None:
    """Bias-corrected and accelerated interval (Efron 1987); acceleration from the influence values."""
    finite = draws[np.isfinite(draws)]
    if len(finite) < 0.5 * len(draws):
        return None
    normal = NormalDist()
    near = np.abs(finite - value) <= 1e-6 * max(1.0, abs(value))
    below = (float(((finite < value) & ~near).sum()) + 0.5 * float(near.sum())) / len(finite)
    shift = normal.inv_cdf(min(max(below, 1.0 / (len(finite) + 1.0)), 1.0 - 1.0 / (len(finite) + 1.0)))
    scale = float((influence**2).sum())
    acceleration = float((influence**3).sum()) / (6.0 * scale**1.5) if scale > 0.0 else 0.0
    ends = []
    for p in (0.5 * (1.0 - level), 0.5 * (1.0 + level)):
        z = shift + normal.inv_cdf(p)
        slack = 1.0 - acceleration * z
        ends.append(normal.cdf(shift + z / slack) if slack > 0.0 else (1.0 if z > 0 else 0.0))
    return empirical_quantile(finite, ends[0]), empirical_quantile(finite, ends[1])


def _task_rounds(
    cells: Cells, axes: Frame, columns: Floats, known: Booleans, task: int, rounds: int, seed: int
) -> _Resampled:
    n = len(axes.policies)
    start, stop = np.searchsorted(axes.unit_task, [task, task + 1])
    inside = slice(*np.searchsorted(cells.unit, [start, stop]))
    size = int(stop - start)
    local = cells.unit[inside] - start
    part = Cells(
        local, cells.a[inside], cells.b[inside], cells.judge[inside], cells.n_judges,
        cells.wins[inside], cells.losses[inside], cells.ties[inside], cells.n_rows,
    )  # fmt: skip
    unit_wins, unit_ties = part.tables(local, size, n)
    picks = np.random.default_rng([seed, 0, task]).integers(0, size, size=(rounds, size))
    slots = (picks + np.arange(rounds)[:, None] * size).ravel()
    weights = np.bincount(slots, minlength=rounds * size).reshape(rounds, size).astype(np.float64)
    seen = known[:, start:stop]
    values = np.where(seen, columns[:, start:stop], 0.0)
    return _Resampled(
        wins=_exact_product(weights, unit_wins.reshape(size, -1)).reshape(rounds, n, n),
        ties=_exact_product(weights, unit_ties.reshape(size, -1)).reshape(rounds, n, n),
        sums=np.stack([_exact_product(weights, column) for column in values]),
        sizes=np.stack([_exact_product(weights, column.astype(np.float64)) for column in seen]),
    )


def _contrasts(drawn: _Resampled, groups: Groups, group: int, anchor: int, mode: Ties) -> Floats:
    """(B, n) contrasts to the anchor of every round of one group."""
    present = np.flatnonzero(groups.present[group])
    result = np.full(drawn.wins.shape[:2], np.nan)
    if anchor not in present:
        return result
    inside = np.ix_(np.arange(len(drawn.wins)), present, present)
    wins, ties = drawn.wins[inside], drawn.ties[inside]
    here = int(np.searchsorted(present, anchor))
    whole = bool(groups.together[group][np.ix_(present, present)].all())
    if mode == "davidson" or groups.penalised[group] or not whole:
        result[:, present] = _fit_each(wins, ties, here, mode)
        return result
    scores = wins if mode == "drop" else wins + 0.5 * ties
    design = Design.of(
        np.asarray((scores + np.swapaxes(scores, -1, -2)).mean(axis=0)),
        groups.fit.theta[group][present],
        groups.fit.inverse[group][np.ix_(present, present)],
    )
    won = np.ascontiguousarray(scores[:, design.first, design.second].T)
    lost = np.ascontiguousarray(scores[:, design.second, design.first].T)
    theta = refit(design, won, lost)
    result[:, present] = (theta - theta[here]).T
    return result


def _fit_each(wins: Floats, ties: Floats, anchor: int, mode: Ties) -> Floats:
    n = wins.shape[-1]
    result = np.full(wins.shape[:2], np.nan)
    step = max(1, _STACK // (n * n))
    for start in range(0, len(wins), step):
        part = slice(start, start + step)
        groups = fit_groups(wins[part], ties[part], mode)
        theta = groups.fit.theta
        result[part] = np.where(groups.rated(anchor), theta - theta[:, anchor, None], np.nan)
    return result


def _exact_product(weights: Floats, values: Floats) -> Floats:
    """(B, K) whole numbers that sum to K per row times (K, J): exact whatever the order of summation."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0:
        return np.zeros((len(weights), values.shape[1]))
    exponent = math.ceil(math.log2(largest)) + math.ceil(math.log2(len(values) + 1)) - 52
    quantum = math.ldexp(1.0, exponent)
    return np.asarray(weights @ (np.rint(values / quantum) * quantum))


def _mean(stack: Floats) -> Floats:
    """Mean over the first axis of what is not NaN, NaN where nothing is."""
    known = ~np.isnan(stack)
    count = known.sum(axis=0)
    return np.where(count > 0, np.where(known, stack, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)
