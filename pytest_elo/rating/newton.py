r"""Bradley-Terry for many policies: Newton's method with conjugate gradients instead of an inverse.

Each step solves ``L x = g`` for the Laplacian L of ``N p q``; Jacobi-preconditioned conjugate gradients need
a few products with L where an inverse needs n of them. The constant vector is projected out of every
residual (L is singular along it), and the solve is no more exact than the outer step can use.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["newton_cg"]

Floats = NDArray[np.float64]

_MAX_STEPS = 100
_MAX_PRODUCTS = 500
_LONGEST_STEP = 2.0


def newton_cg(scores: Floats, tolerance: float) -> tuple[Floats, bool]:
    """Strengths (n,) of mean zero from one (n, n) table of scores S = W + T/2, and whether they converged.

    The table must satisfy Ford's condition. ``tolerance`` bounds the largest gradient relative to the
    largest number of comparisons of one policy.
    """
    counts = scores + scores.T
    won = scores.sum(axis=1)
    total = counts.sum(axis=1)
    theta = np.log((won + 0.5) / (total - won + 0.5))
    theta -= theta.mean()
    slack = tolerance * float(total.max())
    previous = np.inf
    expected, weights = np.empty_like(scores), np.zeros_like(scores)
    met = counts > 0.0
    for _ in range(_MAX_STEPS):
        np.subtract(theta[None, :], theta[:, None], out=expected)
        with np.errstate(over="ignore"):
            np.exp(expected, out=expected)
        expected += 1.0
        np.divide(counts, expected, out=expected)
        gradient = won - expected.sum(axis=1)
        size = float(np.abs(gradient).max())
        if size <= slack:
            return theta, True
        # N p q with p q = p (1 - p): expected holds N p, its transpose N q.
        np.multiply(expected, expected.T, out=weights)
        np.divide(weights, counts, out=weights, where=met)
        accuracy = min(0.1, (size / previous) ** 1.5) if size < previous else 0.1
        step = _solve(weights, gradient, accuracy)
        longest = float(np.abs(step).max())
        theta = theta + step * min(1.0, _LONGEST_STEP / max(longest, _LONGEST_STEP))
        theta -= theta.mean()
        previous = size
    return theta, False


def _solve(weights: Floats, right: Floats, accuracy: float) -> Floats:
    """Conjugate gradients on the Laplacian of ``weights`` down to ``accuracy`` of the right-hand side."""
    diagonal = weights.sum(axis=1)
    inverse = 1.0 / np.where(diagonal > 0.0, diagonal, 1.0)
    x = np.zeros_like(right)
    residual = right - right.mean()
    goal = max(accuracy, 1e-8) * float(np.sqrt((residual * residual).sum()))
    z = residual * inverse
    direction = z - z.mean()
    rho = float((residual * direction).sum())
    for _ in range(_MAX_PRODUCTS):
        product = diagonal * direction - np.einsum("ij,j->i", weights, direction)
        curvature = float((direction * product).sum())
        if curvature <= 0.0:
            break
        length = rho / curvature
        x += length * direction
        residual -= length * product
        residual -= residual.mean()
        if float(np.sqrt((residual * residual).sum())) <= goal:
            break
        z = residual * inverse
        z -= z.mean()
        rho, before = float((residual * z).sum()), rho
        direction = z + (rho / before) * direction
    return x
