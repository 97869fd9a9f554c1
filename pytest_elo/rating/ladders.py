"""Marginals between the tiers of a ladder, and the verdicts on it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pytest_elo.errors import ConfigError
from pytest_elo.rating.analysis import ALL_ALIKE, FEW_DIFFER, Analysis
from pytest_elo.rating.efficiency import Denominator, ratio
from pytest_elo.rating.moments import Estimates
from pytest_elo.rating.results import Interval, LadderReport, LegacyVerdict, Measure, Step
from pytest_elo.rating.scale import ELO_PER_LOGIT, settled
from pytest_elo.rating.verdict import VERDICT_LEVEL, legacy_verdict, verdict

__all__ = ["ladder_reports"]

Floats = NDArray[np.float64]

_LEAST_GAP = 0.10
"""A token gap below this share of the lower tier's tokens makes the ratio meaningless."""


def ladder_reports(analysis: Analysis) -> tuple[LadderReport, ...]:
    """One report a declared ladder; raises ``ConfigError`` for a ladder that names a tier twice."""
    return tuple(_ladder(analysis, ladder) for ladder in analysis.settings.ladders)


def _ladder(analysis: Analysis, ladder: tuple[str, ...]) -> LadderReport:
    if len(set(ladder)) != len(ladder):
        raise ConfigError(f"ladders: {ladder!r} names a tier twice")
    position = {name: i for i, name in enumerate(analysis.axes.policies)}
    tokens = analysis.means["tokens"].value
    rated = [
        position[name]
        for name in ladder
        if name in position
        and not math.isnan(tokens[position[name]])
        and not math.isnan(analysis.combined.delta.value[position[name]])
    ]
    tiers = sorted(rated, key=lambda policy: (tokens[policy], analysis.axes.policies[policy]))
    steps = _steps(analysis, tiers)
    counted = (analysis.combined.weights > 0.0)[analysis.axes.unit_task]
    used = (analysis.tasks.active & counted)[:, tiers].any(axis=1)
    return LadderReport(
        ladder=ladder,
        tiers=tuple(analysis.axes.policies[policy] for policy in tiers),
        steps=steps,
        verdict=verdict(steps, worth=analysis.settings.worth_elo_per_1k, n_items=int(used.sum())),
        legacy=_legacy(analysis, tiers, tokens),
    )


def _steps(analysis: Analysis, tiers: list[int]) -> tuple[Step, ...]:
    if len(tiers) < 2:
        return ()
    lower, upper = np.array(tiers[:-1]), np.array(tiers[1:])
    gaps = analysis.gap(upper, lower)
    tokens = analysis.means["tokens"].value
    return tuple(
        _step(analysis, int(lower[k]), int(upper[k]), gaps.take(np.array([k])), float(tokens[lower[k]]))
        for k in range(len(lower))
    )


def _step(analysis: Analysis, lower: int, upper: int, gap: Estimates, base: float) -> Step:
    combined, names, level = analysis.combined, analysis.axes.policies, analysis.settings.level
    delta = float(settled(combined.delta.value[upper] - combined.delta.value[lower]))
    c = combined.covariance
    variance = max(float(c[upper, upper] + c[lower, lower] - 2.0 * c[upper, lower]), 0.0)
    df = analysis.df(upper, lower)
    alike = analysis.alike(upper, lower)
    shaky = bool(combined.penalised[upper] or combined.penalised[lower])
    token_gap = _difference(analysis, float(gap.value[0]), float(gap.variance[0]), float(gap.df[0]), 1.0)
    lacking = analysis.missing(upper, lower, level)
    if shaky:
        elo_gap = Measure(delta * ELO_PER_LOGIT, reason="finite only through the penalty")
    else:
        elo_gap = _difference(analysis, delta, variance, df, ELO_PER_LOGIT, missing=lacking, alike=alike)
    reason = _unresolved(token_gap, base) or ("finite only through the penalty" if shaky else None)
    if reason is not None:
        marginal, at_verdict = Measure(None, reason=f"not resolved: {reason}"), None
    else:
        pull = combined.delta.influence[:, upper] - combined.delta.influence[:, lower]
        below = Denominator(
            float(gap.value[0]), float(gap.variance[0]), float((gap.influence[:, 0] * pull).sum()), 1000.0
        )
        marginal = ratio(delta, variance, df, below, analysis, level, missing=lacking, alike=alike)
        lacking = analysis.missing(upper, lower, VERDICT_LEVEL)
        at_verdict = ratio(delta, variance, df, below, analysis, VERDICT_LEVEL, missing=lacking, alike=alike).interval
    return Step(names[lower], names[upper], token_gap, elo_gap, marginal, at_verdict, reason is None)


def _unresolved(token_gap: Measure, base: float) -> str | None:
    if token_gap.value is None:
        return token_gap.reason
    if token_gap.value == 0.0:
        return "the tiers spend as many tokens"
    if abs(token_gap.value) < _LEAST_GAP * base:
        return f"the tiers are {token_gap.value:.0f} tokens apart, under 10 % of {base:.0f}"
    if token_gap.interval is None:
        # Tokens that differ by the same amount on every item are resolved without an interval.
        return None if token_gap.se == 0.0 else token_gap.reason
    low, high = token_gap.interval.low, token_gap.interval.high
    if low is not None and high is not None and low <= 0.0 <= high:
        return f"the token gap {token_gap.value:.0f} [{low:.0f}, {high:.0f}] includes 0"
    return None


def _difference(
    analysis: Analysis,
    value: float,
    variance: float,
    df: float,
    scale: float,
    *,
    missing: float = 0.0,
    alike: bool = False,
) -> Measure:
    if math.isnan(value):
        return Measure(None, reason="no item with known tokens of both tiers")
    if math.isnan(variance) or math.isnan(df):
        return Measure(value * scale, reason="no interval: a task has fewer than two items")
    se = math.sqrt(variance + missing) * scale
    if math.isinf(se) or se <= 1e-9:
        return Measure(value * scale, se=0.0, reason="no interval: every item says the same")
    half = analysis.quantile(df) * se
    ends = value * scale - half, value * scale + half
    if alike:
        return Measure(value * scale, Interval(*ends, analysis.settings.level, "unseen"), reason=ALL_ALIKE)
    if missing:
        return Measure(value * scale, Interval(*ends, analysis.settings.level, "unseen"), se, FEW_DIFFER)
    return Measure(value * scale, Interval(*ends, analysis.settings.level, "cr1"), se)


def _legacy(analysis: Analysis, tiers: list[int], tokens: Floats) -> LegacyVerdict:
    deltas = analysis.combined.delta.value * ELO_PER_LOGIT
    above = [policy for policy in tiers if policy != analysis.anchor and tokens[policy] > 0.0]
    per_1k = [float(1000.0 * deltas[policy] / tokens[policy]) for policy in above]
    marginals = per_1k[:1]
    for lower, upper in pairwise(above):
        gap = tokens[upper] - tokens[lower]
        marginals.append(float(1000.0 * (deltas[upper] - deltas[lower]) / gap) if gap > 0.0 else 0.0)
    return legacy_verdict(per_1k, marginals)
