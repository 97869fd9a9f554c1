"""Elo per token: ratios of means with Fieller sets, from the joint influence of items on both parts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating.analysis import ALL_ALIKE, Analysis
from pytest_elo.rating.bootstrap import bca_interval, percentile_interval
from pytest_elo.rating.fieller import fieller_set, ratio_se
from pytest_elo.rating.moments import Estimates, Strata
from pytest_elo.rating.results import Interval, Measure, Quadrant
from pytest_elo.rating.scale import ELO_PER_LOGIT

__all__ = ["Denominator", "per_1k_in_task", "per_doubling", "per_extra", "per_unit", "quadrant_of", "ratio"]

Floats = NDArray[np.float64]

_METER_COLUMN = {"tokens": 0, "tokens_high": 1, "completion_tokens": 2, "last_success_tokens": 3, "usd": 4}


@dataclass(frozen=True, slots=True)
class Denominator:
    """A quantity that ΔElo is divided by, one number."""

    value: float
    variance: float
    covariance: float
    """with ΔElo in logits"""
    scale: float
    """units of the quantity that one unit of the ratio counts: 1000 for Elo per 1k"""


def ratio(
    delta: float,
    variance: float,
    df: float,
    below: Denominator,
    analysis: Analysis,
    level: float,
    *,
    missing: float,
    alike: bool,
) -> Measure:
    """``delta`` (logits) over a denominator, in Elo per ``scale`` units, with its Fieller set.

    ``missing`` is what ``variance`` lacks (``Unseen``). Where every item is ``alike`` it is all there is, and there is
    no standard error.
    """
    factor = ELO_PER_LOGIT * below.scale
    value = factor * delta / below.value
    if math.isnan(variance) or math.isnan(df) or math.isnan(below.variance):
        return Measure(value, reason="no interval: a task has fewer than two items")
    quantile = analysis.quantile(df, level)
    if math.isinf(missing):
        return Measure(value, Interval(None, None, level, "unseen", "everything"), reason=ALL_ALIKE)
    variance += missing
    se = factor * ratio_se(delta, below.value, variance, below.variance, below.covariance)
    interval = fieller_set(
        delta, below.value, variance, below.variance, below.covariance, quantile=quantile, level=level, scale=factor
    )
    unresolved = None if interval.bounded else "the denominator is not resolved"
    if alike:
        return Measure(value, interval, reason=unresolved or ALL_ALIKE)
    return Measure(value, interval, se, unresolved)


def per_unit(analysis: Analysis, policy: int, meter: str, scale: float) -> Measure:
    """ΔElo over the whole mean of a meter (the article's Elo per 1k tokens)."""
    absent = _absent(analysis, policy)
    if absent is not None:
        return absent
    mean = analysis.means[meter]
    value = float(mean.value[policy])
    if math.isnan(value):
        return Measure(None, reason=f"no {_words(meter)} known")
    if value <= 0.0:
        return Measure(None, reason=f"no {_words(meter)} spent")
    if policy == analysis.anchor:
        return Measure(0.0, reason="the anchor: 0 by construction")
    combined = analysis.combined
    delta = float(combined.delta.value[policy])
    if combined.penalised[policy]:
        return Measure(ELO_PER_LOGIT * scale * delta / value, reason="finite only through the penalty")
    measure = _over(analysis, policy, _denominator(mean, combined.delta, policy, scale))
    if analysis.draws is None or measure.interval is None or measure.se is None:
        return measure
    interval = _bootstrap_interval(analysis, policy, meter, scale, mean)
    return Measure(measure.value, interval or measure.interval, measure.se, measure.reason)


def per_1k_in_task(analysis: Analysis, task: int) -> tuple[Measure, ...]:
    """ΔElo of every policy within one task per 1,000 tokens of its items that hold a comparison of it."""
    rows = analysis.axes.unit_task == task
    tokens = analysis.meters.tokens[rows]
    known = analysis.tasks.active[rows] & ~np.isnan(tokens)
    items = Strata(np.zeros(len(tokens), dtype=np.int64), 1)
    mean = items.means(tokens, known, np.ones((1, tokens.shape[1])))
    return tuple(_in_task(analysis, task, policy, mean) for policy in range(tokens.shape[1]))


def _in_task(analysis: Analysis, task: int, policy: int, mean: Estimates) -> Measure:
    tasks = analysis.tasks
    if not tasks.valid[task, policy]:
        return Measure(None, reason=analysis.why_absent_in(task, policy))
    value, delta = float(mean.value[policy]), float(tasks.delta[task, policy])
    if math.isnan(value):
        return Measure(None, reason="no tokens known")
    if value <= 0.0:
        return Measure(None, reason="no tokens spent")
    if policy == analysis.anchor:
        return Measure(0.0, reason="the anchor: 0 by construction")
    if tasks.penalised[task, policy]:
        return Measure(ELO_PER_LOGIT * 1000.0 * delta / value, reason="finite only through the penalty")
    estimate = tasks.estimates[task]
    below = _denominator(mean, estimate, policy, 1000.0)
    variance, df = float(estimate.variance[policy]), float(estimate.df[policy])
    level = analysis.settings.level
    return ratio(
        delta, variance, df, below, analysis, level,
        missing=analysis.missing_in(task, policy, level), alike=analysis.alike_in(task, policy),
    )  # fmt: skip


def per_extra(analysis: Analysis, policy: int, gap: Estimates, column: int) -> Measure:
    """ΔElo per 1,000 tokens beyond the anchor's; the caller looks after the quadrant."""
    shared = float((gap.influence[:, column] * analysis.combined.delta.influence[:, policy]).sum())
    below = Denominator(float(gap.value[column]), float(gap.variance[column]), shared, 1000.0)
    return _over(analysis, policy, below)


def _over(analysis: Analysis, policy: int, below: Denominator) -> Measure:
    combined, level = analysis.combined, analysis.settings.level
    df = float(combined.quantile_df[policy])
    return ratio(
        float(combined.delta.value[policy]), float(combined.covariance[policy, policy]), df, below, analysis, level,
        missing=analysis.missing(policy, analysis.anchor, level), alike=analysis.alike(policy, analysis.anchor),
    )  # fmt: skip


def per_doubling(analysis: Analysis, policy: int) -> Measure:
    """ΔElo over log2 of the token ratio to the anchor."""
    absent = _absent(analysis, policy)
    if absent is not None:
        return absent
    if policy == analysis.anchor:
        return Measure(0.0, reason="the anchor: 0 by construction")
    mean = analysis.means["tokens"]
    own, base = float(mean.value[policy]), float(mean.value[analysis.anchor])
    if not (own > 0.0 and base > 0.0):
        return Measure(None, reason="no tokens known")
    doublings = math.log2(own / base)
    combined = analysis.combined
    pull = (mean.influence[:, policy] / own - mean.influence[:, analysis.anchor] / base) / math.log(2.0)
    variance = float((pull**2).sum())
    if abs(doublings) <= 1e-12:
        return Measure(None, reason="as many tokens as the anchor")
    delta = float(combined.delta.value[policy])
    if combined.penalised[policy]:
        return Measure(ELO_PER_LOGIT * delta / doublings, reason="finite only through the penalty")
    covariance = float((pull * combined.delta.influence[:, policy]).sum())
    return _over(analysis, policy, Denominator(doublings, variance, covariance, 1.0))


def quadrant_of(delta: float, extra_tokens: float) -> Quadrant:
    """Where (ΔElo, extra tokens) lies; only ``gain`` has an Elo per token worth ranking."""
    if extra_tokens > 0.0:
        return "gain" if delta > 0.0 else "dominated"
    if delta >= 0.0:
        return "dominates"
    return "cheaper-but-weaker" if extra_tokens < 0.0 else "dominated"


def _denominator(mean: Estimates, delta: Estimates, policy: int, scale: float) -> Denominator:
    return Denominator(
        float(mean.value[policy]),
        float(mean.variance[policy]),
        float((mean.influence[:, policy] * delta.influence[:, policy]).sum()),
        scale,
    )


def _bootstrap_interval(analysis: Analysis, policy: int, meter: str, scale: float, mean: Estimates) -> Interval | None:
    assert analysis.draws is not None
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = analysis.draws.delta[:, policy] / analysis.draws.means[_METER_COLUMN[meter], :, policy]
    factor, level = ELO_PER_LOGIT * scale, analysis.settings.level
    if analysis.settings.interval == "percentile":
        ends = percentile_interval(draws, level)
    else:
        delta, below = analysis.combined.delta, float(mean.value[policy])
        value = float(delta.value[policy]) / below
        pull = (delta.influence[:, policy] - value * mean.influence[:, policy]) / below
        ends = bca_interval(draws, value, pull, level)
    if ends is None:
        return None
    return Interval(factor * ends[0], factor * ends[1], level, analysis.settings.interval)


def _absent(analysis: Analysis, policy: int) -> Measure | None:
    if math.isnan(float(analysis.combined.delta.value[policy])):
        return Measure(None, reason=analysis.why_absent(policy))
    return None


def _words(meter: str) -> str:
    return {"usd": "price"}.get(meter, meter.replace("_", " "))
