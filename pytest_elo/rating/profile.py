r"""One-sided bounds where only the penalty keeps a rating finite.

A policy that never lost has no finite estimate, but it has a floor: the smallest difference x to the
anchor whose profile penalised log-likelihood lies within z^2/2 of the maximum, z the one-sided normal
quantile. The penalised log-likelihood is l(theta) + 1/2 log det* H(theta) (Firth 1993; Heinze and Schemper
2002 for profile bounds under separation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating.likelihood import expected_score, information, log_likelihood
from pytest_elo.rating.linalg import inverse_spd, multiply

__all__ = ["profile_bounds"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_NEWTON_STEPS = 60
_BISECTIONS = 30
_WIDEST = 60.0
"""Logits from the estimate within which a bound is looked for (10,400 Elo)."""


@dataclass(frozen=True, slots=True)
class _Problem:
    wins: Floats
    ties: Floats
    counts: Floats
    scores: Floats
    nu: Floats
    member: Booleans
    anchor: int
    policy: Integers

    def pin(self, theta: Floats, x: Floats) -> Floats:
        pinned = np.where(self.member, theta, 0.0)
        pinned[:, self.anchor] = 0.0
        pinned[np.arange(len(x)), self.policy] = x
        return pinned


def profile_bounds(
    wins: Floats, ties: Floats, nu: Floats, theta: Floats, member: Booleans, anchor: int, policy: Integers,
    side: Integers, z: float,
) -> Floats:  # fmt: skip
    """Bounds of ``theta[policy] - theta[anchor]`` for M problems, in logits.

    Tables are (M, n, n), ``theta`` (M, n) the penalised estimates, ``member`` (M, n) the component of the
    anchor, ``side`` -1 for a floor and +1 for a ceiling. NaN where none lies within reach.
    """
    halves = nu == 0.0
    wins = np.where(halves[:, None, None], wins + 0.5 * ties, wins)
    ties = np.where(halves[:, None, None], 0.0, ties)
    both = member[:, :, None] & member[:, None, :]
    wins, ties = np.where(both, wins, 0.0), np.where(both, ties, 0.0)
    scores = wins + 0.5 * ties
    problem = _Problem(wins, ties, scores + np.swapaxes(scores, -1, -2), scores, nu, member, anchor, policy)
    theta = theta - theta[:, anchor, None]
    estimate = theta[np.arange(len(policy)), policy]
    free, best = _maximise(problem, theta, estimate)
    near, far = estimate.copy(), estimate + side * _WIDEST
    step = 0.5
    bracketed = np.zeros(len(policy), dtype=np.bool_)
    while step <= _WIDEST:
        trial = np.where(bracketed, far, estimate + side * step)
        free, height = _maximise(problem, free, trial)
        crossed = best - height > 0.5 * z * z
        far = np.where(crossed & ~bracketed, trial, far)
        near = np.where(~crossed & ~bracketed, trial, near)
        bracketed |= crossed
        if bracketed.all():
            break
        step *= 2.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (near + far)
        free, height = _maximise(problem, free, middle)
        crossed = best - height > 0.5 * z * z
        near, far = np.where(crossed, near, middle), np.where(crossed, middle, far)
    return np.where(bracketed, 0.5 * (near + far), np.nan)


def _maximise(problem: _Problem, start: Floats, x: Floats) -> tuple[Floats, Floats]:
    """Penalised maximum with the contrast held at ``x``: strengths and penalised log-likelihood."""
    theta = problem.pin(start, x)
    nu = problem.nu[:, None, None]
    n = theta.shape[1]
    rows = np.arange(len(x))
    free = problem.member.copy()
    free[:, problem.anchor] = False
    free[rows, problem.policy] = False
    inside = free[:, :, None] & free[:, None, :]
    gauge = (problem.member[:, :, None] & problem.member[:, None, :]) / problem.member.sum(axis=1)[:, None, None]
    outside = np.eye(n) * ~problem.member[:, :, None]
    slack = 1e-8 * np.maximum(problem.counts.sum(axis=-1).max(axis=-1), 1e-8)
    for _ in range(_NEWTON_STEPS):
        d = theta[:, :, None] - theta[:, None, :]
        unit = information(d, nu)
        inverse, _ = inverse_spd(_laplacian(problem.counts * unit) + gauge + outside)
        diagonal = np.einsum("mii->mi", inverse)
        virtual = problem.counts * unit * (diagonal[:, :, None] + diagonal[:, None, :] - 2.0 * inverse)
        total = problem.counts + virtual
        gradient = (problem.scores + 0.5 * virtual - total * expected_score(d, nu)).sum(axis=-1)
        gradient = np.where(free, gradient, 0.0)
        if (np.abs(gradient).max(axis=-1) <= slack).all():
            break
        restricted = np.where(inside, _laplacian(total * unit), 0.0) + np.eye(n) * ~free[:, :, None]
        step = multiply(inverse_spd(restricted)[0], gradient)
        longest = np.maximum(np.abs(step).max(axis=-1), 2.0)
        theta = theta + step * (2.0 / longest)[:, None]
    d = theta[:, :, None] - theta[:, None, :]
    _, log_determinant = inverse_spd(_laplacian(problem.counts * information(d, nu)) + gauge + outside)
    upper = np.triu(np.ones((n, n)), 1)
    heights = log_likelihood(d, nu, problem.wins, np.zeros(1)) + upper * log_likelihood(
        d, nu, np.zeros(1), problem.ties
    )
    return theta, heights.sum(axis=(-1, -2)) + 0.5 * log_determinant


def _laplacian(weights: Floats) -> Floats:
    laplacian = -weights
    index = np.arange(weights.shape[-1])
    laplacian[:, index, index] += weights.sum(axis=-1)
    return laplacian
