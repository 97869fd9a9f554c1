r"""What items that all say the same, or nearly all, may have missed.

With no observed variance over n items the sandwich gives a standard error of 0, and where one to three of them
differ a smaller one than is known: a share p of all items may be of another kind and still leave no trace with
probability (1 - p)^n. The largest share that n items leave possible is

.. math:: u = 1 - \alpha^{1/n}, \qquad \alpha = (1 - level)/2,

the upper Clopper-Pearson limit at 0 of n (Clopper and Pearson 1934; at :math:`\alpha = 0.05` about 3/n, the
rule of three of Hanley and Lippman-Hand 1983). If all of that share went to one of two policies, the odds
between them would grow from a : b to ((1 - u) a + u) : (1 - u) b, which is what the interval reaches to. For
two that tie throughout: log((1 + u)/(1 - u)) logits to both sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating.cells import Cells, Frame
from pytest_elo.rating.combine import Combined, TaskFits
from pytest_elo.rating.groups import Ties
from pytest_elo.rating.moments import Strata
from pytest_elo.rating.quantiles import few_carry, share_unseen

__all__ = ["NO_WIDTH", "Unseen", "lacking_variance", "unseen_of"]

Floats = NDArray[np.float64]

NO_WIDTH = 1e-9
"""A standard error below this many logits (or relative to a mean) is no variation at all."""


@dataclass(frozen=True, slots=True)
class Unseen:
    tasks: TaskFits
    items: Floats
    """(T, n, n): items on which two policies have a comparison that counts"""
    strata: Strata
    mode: Ties

    def nothing_varies(self, combined: Combined, upper: int, lower: int) -> bool:
        """Every item says the same of the two: no influence of one differs from that of another."""
        pull = combined.delta.influence[:, upper] - combined.delta.influence[:, lower]
        return float((pull**2).sum()) <= NO_WIDTH**2

    def in_task(self, task: int, upper: int, lower: int, level: float) -> float:
        """How far an interval at ``level`` reaches at least within one task, in logits; may be infinite."""
        if upper == lower:
            return 0.0
        ties = float(self.tasks.ties[task, upper, lower])
        wins = float(self.tasks.wins[task, upper, lower])
        losses = float(self.tasks.wins[task, lower, upper])
        n = int(self.items[task, upper, lower])
        half = 0.5 * ties if self.mode == "half" else 0.0
        least = min(wins + half, losses + half)
        if n == 0 or least <= 0.0:
            return math.inf
        share = share_unseen(n, 0.5 * (1.0 - level))
        return math.log1p(share / (1.0 - share) * (wins + losses + ties) / least)

    def missing_in(self, task: int, upper: int, lower: int, pull: Floats, level: float, quantile: float) -> float:
        """What the sandwich's variance of a difference within a task lacks, in squared logits.

        ``pull`` is the influence of each item, whose squares are that variance. Where few items carry it, as many that
        all say the same would leave more, and the larger counts: nobody is surer for one item that differs than for
        none. Infinite where items all say the same and bound nothing.
        """
        told, fourth = float((pull**2).sum()), float((pull**4).sum())
        return lacking_variance(self.in_task(task, upper, lower, level), told, fourth, quantile)

    def missing(self, combined: Combined, upper: int, lower: int, level: float, quantile: float) -> float:
        """The same for the mean over tasks: distances add in squares (MOVER; Zou and Donner 2008).

        Where two tiers stand in different tasks, what they do not share is counted against the anchor.
        """
        squares = (combined.delta.influence[:, upper] - combined.delta.influence[:, lower]) ** 2
        told, fourth = self.strata.totals(np.column_stack((squares, squares**2))).T.tolist()
        varies = sum(told) > NO_WIDTH**2
        anchor, lacking = self.tasks.anchor, 0.0
        for task, (above, below) in enumerate(combined.weights[:, [upper, lower]].tolist()):
            common = min(above, below)
            parts = ((common, upper, lower), (above - common, upper, anchor), (below - common, anchor, lower))
            reach = sum(weight * self.in_task(task, i, j, level) for weight, i, j in parts if weight > 0.0)
            if math.isfinite(reach) or not varies:
                lacking += lacking_variance(reach, told[task], fourth[task], quantile)
        return lacking


def lacking_variance(reach: float, told: float, fourth: float, quantile: float) -> float:
    """What the variance ``told``, a sum of squares over items, lacks of an interval that goes ``reach`` to both sides.

    ``fourth`` is the sum of their fourth powers.
    """
    if told > NO_WIDTH**2 and (math.isinf(reach) or not few_carry(told, fourth)):
        return 0.0
    return max((reach / quantile) ** 2 - told, 0.0)


def unseen_of(tasks: TaskFits, cells: Cells, axes: Frame, mode: Ties) -> Unseen:
    n_tasks, n = len(axes.tasks), len(axes.policies)
    counts = cells.wins + cells.losses + (0.0 if mode == "drop" else cells.ties) > 0.0
    pair = np.unique((cells.unit[counts] * n + cells.a[counts]) * n + cells.b[counts])
    unit, pair = np.divmod(pair, n * n)
    places = axes.unit_task[unit] * n * n + pair
    upper = np.bincount(places, minlength=n_tasks * n * n).reshape(n_tasks, n, n).astype(np.float64)
    return Unseen(tasks, upper + np.swapaxes(upper, -1, -2), axes.strata, mode)
