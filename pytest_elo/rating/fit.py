r"""Maximum (penalised) likelihood strengths from tables of wins and ties, a stack of tables at a time.

The tables are sufficient, so the cost does not depend on the number of votes. With N = W + W' + T and
S = W + T/2 the likelihood equations are

.. math:: \sum_j S_{ij} - N_{ij} E[y_{ij}] = 0 \quad (\text{all } i), \qquad
          \sum_{i<j} T_{ij} - N_{ij} P(tie_{ij}) = 0 \quad (\text{Davidson only}),

solved by Newton's method on (theta, log nu). Where no finite solution exists, Firth's penalty (Jeffreys'
prior; Firth 1993) adds ``h_ij`` virtual ties to each compared pair, h being its leverage
``N_ij Var(y_ij) (V_ii + V_jj - 2 V_ij)``. Leverages sum to m - 1 over a component of m policies: the
penalty is worth m - 1 comparisons however large the data, and adds nothing between policies that never met.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating.likelihood import expected_score, information, tie_probability
from pytest_elo.rating.linalg import inverse_spd, multiply

__all__ = ["Fit", "fit_tables"]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

TOLERANCE = 1e-12
"""Largest gradient at the solution, relative to the largest number of comparisons of one policy."""

_MAX_STEPS = 200
_LONGEST_STEP = 2.0
"""Logits a strength may move in one step; Newton from a poor start overshoots."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Strengths of a stack of M tables of n policies."""

    theta: Floats
    """(M, n) logits; each component has mean zero, a policy without comparisons stands at 0."""
    nu: Floats
    """(M,) Davidson's tie parameter; 0 under half ties."""
    inverse: Floats
    """(M, n, n): generalised inverse of the information of theta (of the profile information under
    Davidson). Only contrasts within a component have a meaning."""
    virtual: Floats
    """(M, n, n) virtual ties added by the penalty, zero without it."""
    tie_slope: Floats
    """(M, n): d theta-score / d log nu over the information of log nu; zero under half ties."""
    converged: Booleans
    """(M,)"""


def fit_tables(
    wins: Floats,
    ties: Floats,
    together: Booleans,
    *,
    davidson: Booleans,
    penalised: Booleans,
) -> Fit:
    """Fit every table of a stack.

    ``wins[m, i, j]`` is the weight won by i against j, ``ties`` is symmetric, ``together[m, i, j]`` tells
    that i and j are in one component (Ford's condition is the caller's business: a table that fails it must
    be ``penalised``). ``davidson`` and ``penalised`` are (M,) switches; a Davidson table must hold ties and
    decisive comparisons.
    """
    scores = wins + 0.5 * ties
    counts = scores + np.swapaxes(scores, -1, -2)
    gauge = together / together.sum(axis=-1, keepdims=True).clip(1)
    tie_total = 0.5 * ties.sum(axis=(-1, -2))
    theta = _start(scores, counts, gauge)
    share = tie_total / np.maximum(0.5 * counts.sum(axis=(-1, -2)), np.finfo(float).tiny)
    log_nu = np.log(np.clip(2.0 * share / np.maximum(1.0 - share, 1e-9), 1e-12, 1e12))
    slack = TOLERANCE * np.maximum(counts.sum(axis=-1).max(axis=-1, initial=0.0), TOLERANCE)
    virtual = np.zeros_like(counts)
    converged = np.zeros(len(wins), dtype=np.bool_)
    for _ in range(_MAX_STEPS):
        nu = np.where(davidson, np.exp(log_nu), 0.0)
        d = theta[:, :, None] - theta[:, None, :]
        expected = expected_score(d, nu[:, None, None])
        unit = information(d, nu[:, None, None])
        inverse, tie_slope, tie_information = _invert(counts * unit, d, nu, counts, expected, gauge, davidson)
        if penalised.any():
            diagonal = np.einsum("mii->mi", inverse)
            spread = diagonal[:, :, None] + diagonal[:, None, :] - 2.0 * inverse
            virtual = np.where(penalised[:, None, None], counts * unit * spread, 0.0)
            inverse, tie_slope, tie_information = _invert(
                (counts + virtual) * unit, d, nu, counts, expected, gauge, davidson
            )
        gradient = (scores + 0.5 * virtual - (counts + virtual) * expected).sum(axis=-1)
        tie_gradient = tie_total - 0.5 * (counts * tie_probability(d, nu[:, None, None])).sum(axis=(-1, -2))
        tie_gradient = np.where(davidson, tie_gradient, 0.0)
        worst = np.maximum(np.abs(gradient).max(axis=-1, initial=0.0), np.abs(tie_gradient))
        converged = worst <= slack
        if converged.all():
            break
        step = multiply(inverse, gradient - tie_slope * tie_gradient[:, None])
        tie_step = tie_gradient / tie_information - (tie_slope * step).sum(axis=-1)
        longest = np.maximum(np.abs(step).max(axis=-1, initial=0.0), np.abs(tie_step))
        damping = np.minimum(1.0, _LONGEST_STEP / np.maximum(longest, _LONGEST_STEP))
        theta = theta + (damping * ~converged)[:, None] * step
        theta = theta - multiply(gauge, theta)
        log_nu = log_nu + np.where(davidson & ~converged, damping * tie_step, 0.0)
    return Fit(theta, nu, inverse, virtual, tie_slope, converged)


def _start(scores: Floats, counts: Floats, gauge: Floats) -> Floats:
    won = scores.sum(axis=-1)
    lost = counts.sum(axis=-1) - won
    theta: Floats = np.log((won + 0.5) / (lost + 0.5))
    return theta - multiply(gauge, theta)


def _invert(
    weights: Floats,
    d: Floats,
    nu: Floats,
    counts: Floats,
    expected: Floats,
    gauge: Floats,
    davidson: Booleans,
) -> tuple[Floats, Floats, Floats]:
    """Invert the information of theta after log nu is profiled out.

    ``weights`` are information per pair. Returns the inverse, the slope of the theta-score in log nu over
    the information of log nu, and that information (1 where the model has no nu).
    """
    n = weights.shape[-1]
    laplacian = -weights
    diagonal = weights.sum(axis=-1)
    scale = diagonal.max(axis=-1, initial=0.0)
    scale = np.where(scale > 0.0, scale, 1.0)
    index = np.arange(n)
    laplacian[:, index, index] += diagonal
    slope = np.zeros_like(diagonal)
    tie_information = np.ones(len(weights))
    if davidson.any():
        tie = tie_probability(d, nu[:, None, None])
        total = 0.5 * (counts * tie * (1.0 - tie)).sum(axis=(-1, -2))
        tie_information = np.where(davidson & (total > 0.0), total, 1.0)
        # Cov(score, tie) = P(tie) (1/2 - E[y]); antisymmetric in (i, j).
        cross = (counts * tie * (0.5 - expected)).sum(axis=-1)
        slope = np.where(davidson[:, None], cross / tie_information[:, None], 0.0)
        laplacian -= tie_information[:, None, None] * slope[:, :, None] * slope[:, None, :]
    inverse, _ = inverse_spd(laplacian + scale[:, None, None] * gauge)
    return inverse, slope, tie_information
