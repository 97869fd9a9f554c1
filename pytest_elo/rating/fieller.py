r"""Fieller's confidence set of a ratio D/C.

.. math:: \{R : (D - R C)^2 \le q^2 (v_D - 2 R c_{DC} + R^2 v_C)\}

is an interval if and only if the denominator is resolved, C^2 > q^2 v_C; otherwise it is the outside of an
interval or the whole line, which is the honest answer (Fieller 1954). The delta method answers with an
interval even then, and covers 83-90 % where it should cover 95 %.
"""

from __future__ import annotations

import math

from pytest_elo.rating.results import Interval

__all__ = ["fieller_set", "ratio_se"]


def fieller_set(
    d: float,
    c: float,
    v_d: float,
    v_c: float,
    c_dc: float,
    *,
    quantile: float,
    level: float,
    scale: float = 1.0,
) -> Interval:
    """The set for ``scale * d / c``; ``quantile`` is the two-sided Student quantile of ``level``."""
    q2 = quantile * quantile
    a = c * c - q2 * v_c
    b = d * c - q2 * c_dc
    e = d * d - q2 * v_d
    discriminant = b * b - a * e
    if a > 0.0:
        # The estimate itself lies inside, so that the discriminant is negative by rounding only.
        root = math.sqrt(max(discriminant, 0.0))
        return Interval(scale * (b - root) / a, scale * (b + root) / a, level, "fieller")
    if a < 0.0 and discriminant > 0.0:
        root = math.sqrt(discriminant)
        ends = sorted((scale * (b - root) / a, scale * (b + root) / a))
        return Interval(ends[0], ends[1], level, "fieller", "outside")
    return Interval(None, None, level, "fieller", "everything")


def ratio_se(d: float, c: float, v_d: float, v_c: float, c_dc: float) -> float:
    """First-order standard error of d / c."""
    ratio = d / c
    return math.sqrt(max(v_d - 2.0 * ratio * c_dc + ratio * ratio * v_c, 0.0)) / abs(c)
