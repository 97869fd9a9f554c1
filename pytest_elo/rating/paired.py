"""Paired tests for gates: is the new run worse than the stored one on the same items?

Comparing two numbers raises a false alarm in 41-48 % of runs in which nothing changed. These tests keep the
rate they promise: the one-sided McNemar mid-p test for pass/fail items (Fagerland, Lydersen and Laake 2013),
Tango's score interval for a margin (Tango 1998), a t test on item means for scores and repeats, Holm's
correction for several strategies (Holm 1979). Each answers in one of three ways; what the data cannot tell
is ``inconclusive``, not a pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_elo.errors import DataError
from pytest_elo.rating.quantiles import (
    few_carry,
    normal_cdf,
    normal_quantile,
    share_unseen,
    student_cdf,
    student_quantile,
)

__all__ = [
    "Answer",
    "PairedTest",
    "estimate_test",
    "holm",
    "mcnemar_mid_p",
    "noninferiority_test",
    "regression_test",
    "tango_interval",
]

Floats = NDArray[np.float64]
Answer = Literal["pass", "fail", "inconclusive"]
Method = Literal["mcnemar", "tango", "cluster-t", "estimate-t", "none"]


@dataclass(frozen=True, slots=True)
class PairedTest:
    """One gate's question and its answer."""

    question: Literal["regression", "noninferiority"]
    answer: Answer
    p_value: float | None
    """regression: of "not worse", small values are evidence of a loss; noninferiority: of "worse by
    ``margin``", small values are evidence against such a loss"""
    difference: float | None
    """new minus main, in the unit of the scores"""
    low: float | None
    """one-sided lower bound at ``level``"""
    high: float | None
    """one-sided upper bound at ``level``"""
    margin: float
    level: float
    n_items: int
    """items scored in both runs"""
    worse: int
    better: int
    """items on which the new run is worse / better"""
    method: Method
    reason: str


def regression_test(new: ArrayLike, main: ArrayLike, *, practical: float = 0.0, level: float = 0.95) -> PairedTest:
    """Fail on evidence: the new run is worse, and by more than ``practical``.

    ``new`` and ``main`` are mean scores by item in one order, NaN where an item was not scored. ``fail`` if
    the one-sided test rejects "not worse" and the difference lies below ``-practical``; ``pass`` if the lower
    bound lies above ``-practical``; otherwise ``inconclusive``.
    """
    _check_size("practical", practical)
    test = _measure(new, main, "regression", practical, level)
    if test.p_value is None or test.difference is None or test.low is None:
        return test
    if test.p_value < 1.0 - level and test.difference < -practical:
        return replace(test, answer="fail", reason=f"worse, p = {test.p_value:.3g}")
    if test.low > -practical:
        return replace(test, answer="pass", reason=f"not worse by {practical:g}: lower bound {test.low:+.4g}")
    return replace(test, answer="inconclusive", reason="neither worse nor shown to be as good")


def noninferiority_test(new: ArrayLike, main: ArrayLike, *, margin: float, level: float = 0.95) -> PairedTest:
    """Require evidence: the new run loses less than ``margin``.

    ``pass`` if the lower bound of the difference lies above ``-margin``, ``fail`` if the upper bound lies
    below it, otherwise ``inconclusive``.
    """
    if not margin > 0.0:
        raise DataError(f"margin: {margin!r} is not above 0; say how much may be lost, in points of score")
    test = _measure(new, main, "noninferiority", margin, level)
    if test.low is None or test.high is None:
        return test
    return _against_margin(test)


def estimate_test(
    difference: float, se: float, df: float, *, margin: float, level: float = 0.95, n_items: int = 0
) -> PairedTest:
    """Non-inferiority of any estimate with a standard error (ΔElo by CR1): t with ``df``, one-sided."""
    if not (math.isfinite(difference) and math.isfinite(se) and se > 0.0 and df > 0.0):
        raise DataError("estimate_test: needs a finite difference, a positive standard error and df > 0")
    half = student_quantile(level, df) * se
    p_value = 1.0 - student_cdf((difference + margin) / se, df)
    test = PairedTest(
        question="noninferiority",
        answer="inconclusive",
        p_value=p_value,
        difference=difference,
        low=difference - half,
        high=difference + half,
        margin=margin,
        level=level,
        n_items=n_items,
        worse=0,
        better=0,
        method="estimate-t",
        reason="",
    )
    return _against_margin(test)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm-adjusted p values: reject those below alpha and the family's error stays below alpha."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return tuple(adjusted)


def mcnemar_mid_p(worse: int, better: int) -> float:
    """One-sided mid-p value of "no more items got worse than better".

    P(X > worse) + P(X = worse)/2 for X binomial(worse + better, 1/2); 1/2 counts as no evidence at all.
    """
    n = worse + better
    log_half = n * math.log(2.0)
    masses = [
        math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - log_half)
        for k in range(worse, n + 1)
    ]
    return min(1.0, math.fsum(masses) - 0.5 * masses[0])


def tango_interval(worse: int, better: int, n: int, *, level: float) -> tuple[float, float]:
    """Two-sided score interval at ``level`` of the difference (better - worse)/n of paired proportions."""
    z = normal_quantile(0.5 * (1.0 + level))
    estimate = (better - worse) / n
    low = _root(lambda x: _tango_z(worse, better, n, x) - z, -1.0, estimate) if estimate > -1.0 else -1.0
    high = _root(lambda x: _tango_z(worse, better, n, x) + z, estimate, 1.0) if estimate < 1.0 else 1.0
    return low, high


def _tango_z(worse: int, better: int, n: int, difference: float) -> float:
    """Score statistic of the hypothesis that the difference is ``difference``, falling in it."""
    a = 2.0 * n
    b = -better - worse + (2.0 * n - better + worse) * difference
    c = -worse * difference * (1.0 - difference)
    q = (math.sqrt(max(b * b - 4.0 * a * c, 0.0)) - b) / (2.0 * a)
    variance = n * (2.0 * q + difference * (1.0 - difference))
    distance = better - worse - n * difference
    if variance <= 0.0:
        return 0.0 if distance == 0.0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if falling(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)


def _measure(
    new: ArrayLike,
    main: ArrayLike,
    question: Literal["regression", "noninferiority"],
    margin: float,
    level: float,
) -> PairedTest:
    """Difference, bounds and p value; the answer is still open."""
    ours, theirs = np.asarray(new, dtype=np.float64), np.asarray(main, dtype=np.float64)
    if ours.shape != theirs.shape or ours.ndim != 1:
        raise DataError(f"paired test: scores differ in shape ({ours.shape} and {theirs.shape}); align them by item")
    both = ~np.isnan(ours) & ~np.isnan(theirs)
    gap = ours[both] - theirs[both]
    n, worse, better = len(gap), int((gap < 0.0).sum()), int((gap > 0.0).sum())
    binary = bool(np.isin(ours[both], (0.0, 1.0)).all() and np.isin(theirs[both], (0.0, 1.0)).all())
    blank = PairedTest(
        question=question,
        answer="inconclusive",
        p_value=None,
        difference=None,
        low=None,
        high=None,
        margin=margin,
        level=level,
        n_items=n,
        worse=worse,
        better=better,
        method="none",
        reason="no item was scored in both runs",
    )
    if n == 0:
        return blank
    mean = float(gap.mean())
    if binary:
        # A one-sided bound at ``level`` is the end of the two-sided interval at 2 level - 1.
        low, high = tango_interval(worse, better, n, level=2.0 * level - 1.0)
        method: Method = "mcnemar" if question == "regression" else "tango"
        if question == "regression":
            p_value = mcnemar_mid_p(worse, better)
        else:
            p_value = 1.0 - normal_cdf(_tango_z(worse, better, n, -margin))
        return replace(blank, p_value=p_value, difference=mean, low=low, high=high, method=method)
    if n < 2:
        return replace(blank, difference=mean, reason="one item has no spread to judge by")
    p_value, low, high = _student(gap, None if question == "regression" else margin, level)
    return replace(blank, method="cluster-t", difference=mean, p_value=p_value, low=low, high=high)


def _student(gap: Floats, margin: float | None, level: float) -> tuple[float, float, float]:
    """P value and one-sided bounds of the item differences; without a margin the p value is for a loss."""
    n = len(gap)
    mean, se = float(gap.mean()), float(gap.std(ddof=1)) / math.sqrt(n)
    if se <= 1e-12:
        # Every item says the same; a share of differing items above 1 - alpha^(1/n) would have shown one.
        unseen = share_unseen(n, 1.0 - level)
        agrees = mean < 0.0 if margin is None else mean > -margin
        return (0.5**n if agrees else 1.0), mean - unseen, mean + unseen
    quantile = student_quantile(level, n - 1.0)
    apart = (gap - mean) ** 2
    if few_carry(float(apart.sum()), float((apart**2).sum())):
        se = max(se, share_unseen(n, 1.0 - level) / quantile)
    half = quantile * se
    p_value = student_cdf(mean / se, n - 1.0) if margin is None else 1.0 - student_cdf((mean + margin) / se, n - 1.0)
    return p_value, mean - half, mean + half


def _against_margin(test: PairedTest) -> PairedTest:
    assert test.low is not None
    assert test.high is not None
    if test.low > -test.margin:
        return replace(test, answer="pass", reason=f"lower bound {test.low:+.4g} above {-test.margin:+g}")
    if test.high < -test.margin:
        return replace(test, answer="fail", reason=f"upper bound {test.high:+.4g} below {-test.margin:+g}")
    reason = f"[{test.low:+.4g}, {test.high:+.4g}] holds {-test.margin:+g}"
    return replace(test, answer="inconclusive", reason=reason)


def _check_size(name: str, value: float) -> None:
    if not value >= 0.0:
        raise DataError(f"{name}: {value!r} is negative; give the size of a drop that matters, in points of score")
