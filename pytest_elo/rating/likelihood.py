r"""The paired-comparison likelihood, with and without a parameter for ties.

Notation: ``theta_i`` is the strength of policy i in logits and ``d = theta_i - theta_j``.

Davidson (1970): :math:`P(win), P(tie), P(loss) \propto e^{d/2}, \nu, e^{-d/2}`. With ``nu = 0`` it is
Bradley-Terry (1952). A comparison's *score* is y = 1, 1/2 or 0; in both models ``y - 1/2`` is the
sufficient statistic of ``d``, so that the likelihood equations compare scores with expected scores and the
Fisher information of ``d`` is the variance of the score. Half-tie Bradley-Terry uses the same equations
with ``nu = 0`` and ties entered as y = 1/2: it models the expected score, not the chance to win.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["expected_score", "information", "log_likelihood", "tie_probability"]

Floats = NDArray[np.float64]

_FARTHEST = 300.0
"""Logits beyond which probabilities are 0 or 1 to the last bit; keeps exponentials finite."""


def expected_score(d: Floats, nu: Floats) -> Floats:
    """E[y] at the difference ``d``; ``nu`` broadcasts against ``d``."""
    half = np.clip(d, -_FARTHEST, _FARTHEST) / 2.0
    return 0.5 + np.sinh(half) / (2.0 * np.cosh(half) + nu)


def tie_probability(d: Floats, nu: Floats) -> Floats:
    """P(tie) at the difference ``d``."""
    half = np.clip(d, -_FARTHEST, _FARTHEST) / 2.0
    return nu / (2.0 * np.cosh(half) + nu)


def information(d: Floats, nu: Floats) -> Floats:
    """Fisher information of ``d`` in one comparison: Var(y) = P(win) + P(tie)/4 - E[y]^2.

    Written as (1 + nu cosh(d/2)/2) / (2 cosh(d/2) + nu)^2, which keeps its digits where E[y] is near 0 or 1.
    """
    cosh = np.cosh(np.clip(d, -_FARTHEST, _FARTHEST) / 2.0)
    return (1.0 + 0.5 * nu * cosh) / (2.0 * cosh + nu) ** 2


def log_likelihood(d: Floats, nu: Floats, wins: Floats, ties: Floats) -> Floats:
    """Log-likelihood of ``wins`` and ``ties`` at ``d``, elementwise (losses are the transposed wins).

    Under ``nu = 0`` a tie counts as half a win and half a loss.
    """
    half = np.clip(d, -_FARTHEST, _FARTHEST) / 2.0
    log_total = np.log(2.0 * np.cosh(half) + nu)
    log_nu = np.log(np.where(nu > 0.0, nu, 1.0))
    heights: Floats = wins * (half - log_total) + ties * (log_nu - log_total)
    return heights
