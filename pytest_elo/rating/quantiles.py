"""Quantiles: normal and Student from the standard library (no scipy), and of a sample."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "chi_square_survival",
    "empirical_quantile",
    "few_carry",
    "normal_cdf",
    "normal_quantile",
    "share_unseen",
    "student_cdf",
    "student_quantile",
]

Floats = NDArray[np.float64]

_NORMAL = NormalDist()


def normal_cdf(x: float) -> float:
    return _NORMAL.cdf(x)


def normal_quantile(p: float) -> float:
    """The ``p`` quantile of the standard normal, ``0 < p < 1``."""
    return _NORMAL.inv_cdf(p)


def student_cdf(t: float, df: float) -> float:
    """P(T <= t) for Student's t with ``df > 0`` (not necessarily whole) degrees of freedom."""
    if math.isinf(df):
        return normal_cdf(t)
    tail = 0.5 * _incomplete_beta(0.5 * df, 0.5, df / (df + t * t))
    return 1.0 - tail if t > 0 else tail


@lru_cache(maxsize=4096)
def student_quantile(p: float, df: float) -> float:
    """The ``p`` quantile of Student's t, to about 1e-12 relative.

    Newton's method on the distribution, from the expansion around the normal quantile (Abramowitz and Stegun
    26.7.5); a step that leaves the bracket is replaced by halving or, without an upper end, by doubling.
    """
    if math.isinf(df):
        return normal_quantile(p)
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -student_quantile(1.0 - p, df)
    z = normal_quantile(p)
    t = z + (z**3 + z) / (4.0 * df) + (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / (96.0 * df * df) if df > 3.0 else z
    low, high = 0.0, math.inf
    log_height = math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df) - 0.5 * math.log(df * math.pi)
    for _ in range(1000):
        short = p - student_cdf(t, df)
        low, high = (t, high) if short > 0.0 else (low, t)
        before = t
        t += short * math.exp(0.5 * (df + 1.0) * math.log1p(t * t / df) - log_height)
        if not low <= t <= high:
            t = 0.5 * (low + high) if high < math.inf else 2.0 * before
        if t > 1e150:
            return math.inf
        if abs(t - before) <= 1e-13 * before:
            break
    return t


def empirical_quantile(values: Floats, p: float) -> float:
    """The ``p`` quantile of a sample, linear between order statistics (``numpy.quantile``, which would import
    ``numpy.ma``, costs more than a whole report)."""
    ordered = np.sort(values)
    position = p * (len(ordered) - 1)
    below = min(int(position), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (position - below) * (ordered[above] - ordered[below]))


def share_unseen(n_items: int, tail: float) -> float:
    """The largest share of items of another kind of which ``n_items`` show none with probability ``tail``."""
    return float(1.0 - tail ** (1.0 / n_items))


def few_carry(squares: float, fourths: float) -> bool:
    """Whether fewer than four items carry a sum of squares, too few to tell a variance from.

    They are counted by its square over the sum of the fourth powers. Four that differ wholly reach about as far as
    ``share_unseen``.
    """
    return squares**2 < 4.0 * fourths


def chi_square_survival(x: float, df: int) -> float:
    """P(X > x) for chi-square with ``df >= 1`` whole degrees of freedom (a finite sum, no quadrature)."""
    if x <= 0.0:
        return 1.0
    half = 0.5 * x
    if df % 2:
        tail = math.erfc(math.sqrt(half))
        term, k = math.exp(-half) * math.sqrt(half) / math.gamma(1.5), 1.5
    else:
        tail = 0.0
        term, k = math.exp(-half), 1.0
    for _ in range(df // 2):
        tail += term
        term *= half / k
        k += 1.0
    return min(tail, 1.0)


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function by Lentz's continued fraction."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    fraction = d
    for m in range(1, 1000):
        for coefficient in (
            m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0)),
        ):
            d = 1.0 + coefficient * d
            c = 1.0 + coefficient / c
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return math.exp(log_front) * fraction / a
