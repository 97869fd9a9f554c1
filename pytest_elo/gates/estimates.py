"""Means over items with their intervals, for scores, shares and tokens that no rating gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pytest_elo.rating.quantiles import normal_quantile, student_quantile
from pytest_elo.rating.results import Interval, Measure

__all__ = ["item_mean", "task_mean", "wilson_interval"]


def item_mean(values: Sequence[float], level: float) -> Measure:
    """Mean with items as clusters: Wilson's interval where all values are 0 or 1, else Student's t."""
    if not values:
        return Measure(None, reason="no outcome")
    n = len(values)
    mean = math.fsum(values) / n
    if all(value in (0.0, 1.0) for value in values):
        return Measure(mean, wilson_interval(sum(values), n, level))
    if n < 2:
        return Measure(mean, reason="no interval: one item has no spread")
    se = _standard_error(values)
    if se == 0.0:
        return Measure(mean, reason="no interval: every item says the same")
    half = student_quantile(0.5 * (1.0 + level), n - 1.0) * se
    return Measure(mean, Interval(mean - half, mean + half, level, "student"), se)


def task_mean(tasks: Mapping[str, Sequence[float]], level: float) -> Measure:
    """Mean of the tasks' means, each task with the same weight; Satterthwaite degrees of freedom."""
    if len(tasks) <= 1:
        return item_mean([value for values in tasks.values() for value in values], level)
    mean = math.fsum(math.fsum(values) / len(values) for values in tasks.values()) / len(tasks)
    if any(len(values) < 2 for values in tasks.values()):
        return Measure(mean, reason="no interval: a task has fewer than two items")
    variances = [(_standard_error(values) / len(tasks)) ** 2 for values in tasks.values()]
    total = math.fsum(variances)
    if total == 0.0:
        return Measure(mean, reason="no interval: every item says the same")
    sizes = [len(values) for values in tasks.values()]
    df = total**2 / math.fsum(v**2 / (n - 1) for v, n in zip(variances, sizes, strict=True))
    half = student_quantile(0.5 * (1.0 + level), df) * math.sqrt(total)
    return Measure(mean, Interval(mean - half, mean + half, level, "student"), math.sqrt(total))


def wilson_interval(successes: float, n: int, level: float) -> Interval:
    """Wilson's score interval of a share (Wilson 1927); it has width even at 0 of n and n of n."""
    z = normal_quantile(0.5 * (1.0 + level))
    share, shrink = successes / n, 1.0 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(share * (1.0 - share) / n + z * z / (4 * n * n))
    return Interval(max(0.0, centre - half), min(1.0, centre + half), level, "score")


def _standard_error(values: Sequence[float]) -> float:
    n = len(values)
    mean = math.fsum(values) / n
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
