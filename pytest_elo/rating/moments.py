r"""Cluster-robust moments of estimates from the influence of each unit.

Every estimate here (a ΔElo, a mean of tokens, a difference of scores) is, up to its error of second order, a
sum of one influence value a unit. Tasks are fixed and their items a sample, so the covariance of two
estimates is the sum of products of influence values, centred within the task, with the CR1 factor
K/(K-1) of the task (Liang and Zeger 1986; Cameron and Miller 2015). One covariance therefore serves ΔElo,
tokens and their ratio jointly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Estimates", "Strata"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Estimates:
    """J estimates and their unit influence."""

    value: Floats
    """(J,), NaN where there is none"""
    influence: Floats
    """(U, J), centred within tasks and scaled by sqrt(K/(K-1)): its cross-products are covariances"""
    df: Floats
    """(J,) Satterthwaite degrees of freedom; NaN where a task has fewer than two units"""
    variance: Floats
    """(J,), NaN where it cannot be estimated"""

    def covariance_with(self, other: Estimates) -> Floats:
        """(J,) covariance of each estimate with its counterpart."""
        return np.asarray((self.influence * other.influence).sum(axis=0))

    def take(self, columns: Integers) -> Estimates:
        return Estimates(self.value[columns], self.influence[:, columns], self.df[columns], self.variance[columns])


@dataclass(frozen=True, slots=True)
class Strata:
    """The units of each task, which stand together; every task has at least one."""

    unit_task: Integers
    """(U,) ascending"""
    n_tasks: int

    def totals(self, values: NDArray[Any]) -> Floats:
        """(T, J) sums over the units of each task of (U, J) values."""
        if self.n_tasks == 0:
            return np.zeros((0, values.shape[1]))
        starts = np.searchsorted(self.unit_task, np.arange(self.n_tasks))
        return np.asarray(np.add.reduceat(values.astype(np.float64, copy=False), starts, axis=0))

    def estimates(self, value: Floats, influence: Floats, active: Booleans) -> Estimates:
        """Centre and scale raw influence values.

        ``influence`` is (U, J), already weighted over tasks; ``active`` (U, J) tells which units carry
        information on each estimate: a task's clusters K are counted from it. Degrees of freedom are
        ``(sum v_t)^2 / sum v_t^2/(K_t - 1)`` over tasks (Satterthwaite); K - 1 for one task.
        """
        touched: Booleans = np.any(active, axis=1, keepdims=True)
        clusters = self.totals(active)
        centre = self.totals(np.where(touched, influence, 0.0)) / np.maximum(self.totals(touched), 1.0)
        factor = np.sqrt(clusters / np.maximum(clusters - 1.0, 1.0))
        scaled = np.where(touched, (influence - centre[self.unit_task]) * factor[self.unit_task], 0.0)
        variances = self.totals(scaled**2)
        noise = (variances**2 / np.maximum(clusters - 1.0, 1.0)).sum(axis=0)
        most = np.maximum(clusters - 1.0, 0.0).sum(axis=0)
        df = np.where(noise > 0.0, variances.sum(axis=0) ** 2 / np.where(noise > 0.0, noise, 1.0), most)
        lone = np.any(clusters == 1, axis=0)
        df = np.where(lone | (most < 1.0), np.nan, df)
        return Estimates(value, scaled, df, np.where(np.isnan(df), np.nan, (scaled**2).sum(axis=0)))

    def means(self, values: Floats, known: Booleans, weights: Floats) -> Estimates:
        """Means (J,) over units within tasks, combined over tasks with ``weights`` (T, J).

        ``values`` is (U, J) and counts where ``known``. Tasks where a column knows nothing are left out of
        its mean; a column without any gives NaN.
        """
        filled = np.where(known, values, 0.0)
        counts = self.totals(known)
        use = np.where(counts > 0, weights, 0.0)
        sums = use.sum(axis=0)
        use = use / np.where(sums > 0.0, sums, 1.0)
        each = np.maximum(counts, 1.0)
        means = self.totals(filled) / each
        mean = np.where(sums > 0.0, (use * means).sum(axis=0), np.nan)
        active = known & (use > 0.0)[self.unit_task]
        pull = (filled - means[self.unit_task]) * (use / each)[self.unit_task]
        return self.estimates(mean, np.where(active, pull, 0.0), active)
