r"""Bradley-Terry for many policies: Newton's method with conjugate gradients instead of an inverse.

With s = exp(theta), all of a step comes from the symmetric table R = N_ij / (s_i + s_j)^2 without an exponential
a pair: the expected score of i is s_i times the row sum of N_ij / (s_i + s_j), and the Laplacian L of the
information has N p q = s_i R_ij s_j. Each step solves ``L x = g``; Jacobi-preconditioned conjugate gradients need
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
_FARTHEST = 300.0
"""Logits from the mean beyond which strengths would overflow."""
_BLOCK = 1 << 15
"""Pairs worked on at once: they stay in the cache."""


def newton_cg(counts: Floats, won: Floats, tolerance: float) -> tuple[Floats, bool]:
    """Strengths (n,) of mean zero, and whether they converged, from the (n, n) symmetric comparisons
    N = W + W' + T and the (n,) scores of W + T/2.

    The tables must satisfy Ford's condition. ``tolerance`` bounds the largest gradient relative to the
    largest number of comparisons of one policy.
    """
    total = counts.sum(axis=1)
    theta = np.log((won + 0.5) / (total - won + 0.5))
    theta -= theta.mean()
    slack = tolerance * float(total.max())
    previous = np.inf
    ratio = np.empty_like(counts)
    for _ in range(_MAX_STEPS):
        strength = np.exp(np.clip(theta, -_FARTHEST, _FARTHEST))
        gradient = won - strength * _fill(ratio, counts, strength)
        size = float(np.abs(gradient).max())
        if size <= slack:
            return theta, True
        accuracy = min(0.1, (size / previous) ** 1.5) if size < previous else 0.1
        step = _solve(ratio, strength, gradient, accuracy)
        longest = float(np.abs(step).max())
        theta = theta + step * min(1.0, _LONGEST_STEP / max(longest, _LONGEST_STEP))
        theta -= theta.mean()
        previous = size
    return theta, False


def _fill(ratio: Floats, counts: Floats, strength: Floats) -> Floats:
    """Put R into ``ratio``; return the (n,) row sums of N_ij / (s_i + s_j)."""
    n = len(strength)
    sums = np.empty(n)
    rows = max(1, _BLOCK // n)
    both = np.empty((rows, n))
    for start in range(0, n, rows):
        part = slice(start, min(start + rows, n))
        joint = np.add(strength[part, None], strength, out=both[: part.stop - start])
        once = np.divide(counts[part], joint, out=ratio[part])
        sums[part] = once.sum(axis=1)
        np.divide(once, joint, out=once)
    return sums


def _solve(ratio: Floats, strength: Floats, right: Floats, accuracy: float) -> Floats:
    """Conjugate gradients on the Laplacian of s_i R_ij s_j down to ``accuracy`` of the right-hand side."""
    diagonal = strength * np.einsum("ij,j->i", ratio, strength)
    inverse = 1.0 / np.where(diagonal > 0.0, diagonal, 1.0)
    x = np.zeros_like(right)
    residual = right - right.mean()
    goal = max(accuracy, 1e-8) * float(np.sqrt((residual * residual).sum()))
    z = residual * inverse
    direction = z - z.mean()
    rho = float((residual * direction).sum())
    for _ in range(_MAX_PRODUCTS):
        product = diagonal * direction - strength * np.einsum("ij,j->i", ratio, strength * direction)
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
