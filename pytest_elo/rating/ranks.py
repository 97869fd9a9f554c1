"""Ranks with simultaneous intervals (max-t), Westfall and Young style with a normal reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating.quantiles import empirical_quantile
from pytest_elo.rating.results import RankInterval
from pytest_elo.rating.unseen import NO_WIDTH

__all__ = ["LARGEST_FIELD", "rank_intervals"]

Floats = NDArray[np.float64]

LARGEST_FIELD = 200
"""Policies above which pairs are too many to draw; ranks are then left out."""

_DRAWS = 4000


def rank_intervals(
    value: Floats, covariance: Floats, alike: Callable[[int, int], float], *, level: float, seed: int
) -> tuple[list[RankInterval], float]:
    """Rank intervals of J estimates with their (J, J) covariance, and the critical value used.

    c is the ``level`` quantile of the largest standardised difference under "all estimates are their truth",
    drawn from the normal with that covariance. Rank 1 is the largest value; a policy's best rank is 1 plus
    the number of others that are better beyond c standard errors. ``alike`` gives the margin between two whose
    difference does not vary at all.
    """
    j = len(value)
    first, second = np.triu_indices(j, 1)
    variance = covariance[first, first] + covariance[second, second] - 2.0 * covariance[first, second]
    se = np.sqrt(np.maximum(variance, 0.0))
    told = se > NO_WIDTH
    critical = 0.0
    if told.any():
        draws = np.random.default_rng([seed, 1]).standard_normal((_DRAWS, j))
        errors = np.einsum("rk,jk->rj", draws, _root(covariance))
        gaps = np.abs(errors[:, first[told]] - errors[:, second[told]]) / se[told]
        critical = empirical_quantile(gaps.max(axis=1), level)
    gap = np.zeros((j, j))
    gap[first, second] = value[first] - value[second]
    gap[second, first] = -gap[first, second]
    margin = np.zeros((j, j))
    margin[first, second] = margin[second, first] = critical * se
    for i, k in zip(first[~told].tolist(), second[~told].tolist(), strict=True):
        if gap[i, k] != 0.0:
            margin[i, k] = margin[k, i] = alike(i, k)
    worse = gap > margin
    better = -gap > margin
    ranks = [RankInterval(1 + int(better[i].sum()), j - int(worse[i].sum())) for i in range(j)]
    return ranks, critical


def _root(covariance: Floats) -> Floats:
    """Lower-triangular root of a positive semi-definite matrix (Cholesky that skips empty pivots)."""
    j = len(covariance)
    root = np.zeros_like(covariance)
    rest = covariance.copy()
    floor = 1e-14 * max(float(np.trace(covariance)), 1e-300)
    for k in range(j):
        if rest[k, k] <= floor:
            continue
        column = rest[k:, k] / np.sqrt(rest[k, k])
        root[k:, k] = column
        rest[k:, k:] -= column[:, None] * column[None, :]
    return root
