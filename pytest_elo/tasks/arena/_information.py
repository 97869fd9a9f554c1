"""Bradley-Terry with a normal prior, just enough to say which pair to judge next.

This is a design criterion, not a rating: the published numbers come from the rating room.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["expected_shares", "precision_of"]

_ELO_PER_LOGIT = 400.0 / math.log(10.0)
Matrix = npt.NDArray[np.float64]


def expected_shares(shares: Matrix, counts: Matrix, prior_sd_elo: float) -> Matrix:
    """Posterior-mode shares ``p[i, j]`` from ``shares[i, j]`` won of ``counts[i, j]`` (both m x m).

    Newton steps on the log posterior with independent N(0, sd) priors, which always has one mode.
    """
    theta = np.zeros(len(counts))
    for _ in range(50):
        p = _logistic(theta)
        gradient = shares.sum(1) - (counts * p).sum(1) - theta * _prior_precision(prior_sd_elo)
        step = np.linalg.solve(precision_of(p, counts, prior_sd_elo), gradient)
        theta += np.clip(step, -1.0, 1.0)
        if float(np.abs(step).max()) < 1e-10:
            break
    return _logistic(theta)


def precision_of(p: Matrix, counts: Matrix, prior_sd_elo: float) -> Matrix:
    """The posterior precision (m x m): the Laplacian of ``counts * p * (1 - p)`` plus the prior's."""
    weights = counts * p * (1 - p)
    precision: Matrix = np.diag(weights.sum(1) + _prior_precision(prior_sd_elo)) - weights
    return precision


def _prior_precision(prior_sd_elo: float) -> float:
    return (_ELO_PER_LOGIT / prior_sd_elo) ** 2


def _logistic(theta: Matrix) -> Matrix:
    shares: Matrix = 1.0 / (1.0 + np.exp(theta[None, :] - theta[:, None]))
    return shares
