"""Normal and Student quantiles from the standard library (no scipy)."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

__all__ = ["chi_square_survival", "normal_cdf", "normal_quantile", "student_cdf", "student_quantile"]

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
    """The ``p`` quantile of Student's t, to about 1e-12 relative, by bisection on the distribution."""
    if math.isinf(df):
        return normal_quantile(p)
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -student_quantile(1.0 - p, df)
    low, high = 0.0, 2.0
    while student_cdf(high, df) < p:
        low, high = high, high * 2.0
        if high > 1e300:
            return math.inf
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if student_cdf(middle, df) < p else (low, middle)
    return 0.5 * (low + high)


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
