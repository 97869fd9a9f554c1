"""The per-policy part of the report."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pytest_elo.rating.analysis import ALL_ALIKE, FEW_DIFFER, Analysis
from pytest_elo.rating.bounds import Bounds
from pytest_elo.rating.efficiency import per_doubling, per_extra, per_unit, quadrant_of
from pytest_elo.rating.moments import Estimates
from pytest_elo.rating.power import power_of, power_of_alike
from pytest_elo.rating.quantiles import share_unseen, student_quantile
from pytest_elo.rating.ranks import LARGEST_FIELD, rank_intervals
from pytest_elo.rating.results import Interval, Measure, PolicyReport, Power, Quadrant, RankInterval
from pytest_elo.rating.scale import ELO_PER_LOGIT
from pytest_elo.rating.unseen import lacking_variance

__all__ = ["policy_reports"]


def policy_reports(analysis: Analysis, bounds: Bounds) -> tuple[tuple[PolicyReport, ...], float | None]:
    """Rows in the order of the table, and the critical value of the rank intervals."""
    n = len(analysis.axes.policies)
    ranks, critical = _ranks(analysis)
    everyone = np.arange(n)
    to_anchor = np.full(n, analysis.anchor)
    gaps = analysis.gap(everyone, to_anchor)
    points = _points(analysis)
    rows = [_policy(analysis, bounds, policy, gaps, points, ranks.get(policy)) for policy in range(n)]
    return tuple(sorted(rows, key=_order)), critical


def _order(row: PolicyReport) -> tuple[bool, bool, float, str]:
    value = row.delta.value
    return (not row.is_anchor, value is None, -(value or 0.0), row.policy)


def _policy(
    analysis: Analysis,
    bounds: Bounds,
    policy: int,
    gaps: Estimates,
    points: Estimates,
    rank: RankInterval | None,
) -> PolicyReport:
    axes, combined = analysis.axes, analysis.combined
    counted = combined.weights[:, policy] > 0.0
    volume, ties = analysis.tasks.volume(policy)
    items = int((analysis.tasks.active[:, policy] & counted[axes.unit_task]).sum())
    delta = analysis.delta_measure(policy)
    quadrant, extra, lost = _against_anchor(analysis, policy, gaps)
    per_1k = per_unit(analysis, policy, "tokens", 1000.0)
    high = per_unit(analysis, policy, "tokens_high", 1000.0)
    last = per_unit(analysis, policy, "last_success_tokens", 1000.0)
    spread, net = _between_tasks(analysis, policy)
    without = _leave_one_out(analysis, policy)
    signs = _signs(analysis, policy)
    return PolicyReport(
        policy=axes.policies[policy],
        is_anchor=policy == analysis.anchor,
        n_tasks=int((analysis.tasks.valid[:, policy] & counted).sum()),
        n_items=items,
        n_comparisons=float(volume[counted].sum()),
        tie_share=float(ties[counted].sum() / volume[counted].sum()) if volume[counted].any() else None,
        samples_per_item=_mean_of(analysis, "samples", policy),
        repeats_per_item=_mean_of(analysis, "repeats", policy),
        score=_score(analysis, policy),
        score_points=_points_measure(analysis, points, policy),
        tokens_per_item=_mean_of(analysis, "tokens", policy),
        tokens_per_item_high=_mean_of(analysis, "tokens_high", policy),
        completion_per_item=_mean_of(analysis, "completion_tokens", policy),
        last_success_per_item=_mean_of(analysis, "last_success_tokens", policy),
        usd_per_item=_mean_of(analysis, "usd", policy),
        delta=delta,
        penalised=bool(combined.penalised[policy]),
        bound=bounds.combined.get(policy),
        by_route=tuple(
            (route, analysis.delta_measure(policy, combined)) for route, combined in analysis.routes.items()
        ),
        tasks_as_sample=_tasks_as_sample(analysis, policy),
        elo_per_1k=per_1k,
        elo_per_1k_high_tokens=high.value,
        elo_per_extra_1k=extra,
        elo_lost_per_1k_saved=lost,
        quadrant=quadrant,
        elo_per_doubling=per_doubling(analysis, policy),
        elo_per_1k_completion=per_unit(analysis, policy, "completion_tokens", 1000.0),
        elo_per_usd=per_unit(analysis, policy, "usd", 1.0),
        elo_per_1k_last_success=last,
        last_success_ratio=last.value / per_1k.value if last.value and per_1k.value else None,
        between_task_sd=spread,
        between_task_sd_net=net,
        signs=signs,
        leave_one_out=without,
        task_specific=_task_specific(delta, signs, without),
        rank=rank,
        power=_power(analysis, policy, items, delta),
    )


def _against_anchor(analysis: Analysis, policy: int, gaps: Estimates) -> tuple[Quadrant | None, Measure, Measure]:
    delta, gap = float(analysis.combined.delta.value[policy]), float(gaps.value[policy])
    if policy == analysis.anchor:
        own = Measure(None, reason="the anchor: nothing is extra")
        return None, own, own
    if math.isnan(delta):
        gone = Measure(None, reason=analysis.why_absent(policy))
        return None, gone, gone
    if math.isnan(gap):
        gone = Measure(None, reason="no item with known tokens of both this policy and the anchor")
        return None, gone, gone
    quadrant = quadrant_of(delta, gap)
    other = Measure(None, reason=f"{quadrant}: this ratio has no meaning here")
    if quadrant == "dominates":
        return quadrant, Measure(None, reason="dominates: at least as strong for no more tokens"), other
    if gap == 0.0:
        return quadrant, Measure(None, reason="as many tokens as the anchor"), other
    if analysis.combined.penalised[policy]:
        value = ELO_PER_LOGIT * 1000.0 * delta / gap
        measure = Measure(value, reason="finite only through the penalty")
    else:
        measure = per_extra(analysis, policy, gaps, policy)
    return (quadrant, other, measure) if quadrant == "cheaper-but-weaker" else (quadrant, measure, other)


def _points(analysis: Analysis) -> Estimates:
    """Paired score differences to the anchor, in points."""
    score, anchor = analysis.meters.score, analysis.anchor
    both = ~np.isnan(score) & ~np.isnan(score[:, anchor, None])
    difference = np.where(both, 100.0 * (score - score[:, anchor, None]), 0.0)
    return analysis.axes.strata.means(difference, both, analysis.combined.weights)


def _points_measure(analysis: Analysis, points: Estimates, policy: int) -> Measure:
    value = float(points.value[policy])
    if math.isnan(value):
        return Measure(None, reason="no item with a score of both this policy and the anchor")
    if policy == analysis.anchor:
        return Measure(0.0, reason="the anchor: 0 by construction")
    variance, df = float(points.variance[policy]), float(points.df[policy])
    if math.isnan(variance):
        return Measure(value, reason="no interval: a task has fewer than two items")
    level, quantile = analysis.settings.level, analysis.quantile(df)
    missing = _missing_points(analysis, points, policy, quantile)
    half = quantile * math.sqrt(variance + missing)
    interval = Interval(value - half, value + half, level, "unseen" if missing else "student")
    if variance <= 1e-24:
        return Measure(value, interval, reason=ALL_ALIKE)
    return Measure(value, interval, math.sqrt(variance + missing), FEW_DIFFER if missing else None)


def _missing_points(analysis: Analysis, points: Estimates, policy: int, quantile: float) -> float:
    """What the variance of a difference in points lacks: ``Unseen.missing``, each unseen item wholly apart."""
    score, rows = analysis.meters.score, analysis.axes.unit_task
    both = ~np.isnan(score[:, policy]) & ~np.isnan(score[:, analysis.anchor])
    weights = analysis.combined.weights[:, policy]
    items = np.bincount(rows[both], minlength=len(weights))
    weights = np.where(items > 0, weights, 0.0)
    squares, missing = points.influence[:, policy] ** 2, 0.0
    told, fourth = analysis.axes.strata.totals(np.column_stack((squares, squares**2))).T.tolist()
    for task in np.flatnonzero(weights).tolist():
        unseen = share_unseen(int(items[task]), 0.5 * (1.0 - analysis.settings.level))
        reach = 100.0 * unseen * float(weights[task] / weights.sum())
        missing += lacking_variance(reach, told[task], fourth[task], quantile)
    return missing


def _score(analysis: Analysis, policy: int) -> float | None:
    score = analysis.meters.score[:, policy]
    known = score[~np.isnan(score)]
    return float(known.mean()) if len(known) else None


def _mean_of(analysis: Analysis, meter: str, policy: int) -> float | None:
    value = float(analysis.means[meter].value[policy])
    return None if math.isnan(value) else value


def _task_deltas(analysis: Analysis, policy: int) -> tuple[np.ndarray, np.ndarray]:
    """The tasks in which the policy has a ΔElo, and these in Elo."""
    used = np.flatnonzero(analysis.tasks.valid[:, policy])
    return used, analysis.tasks.delta[used, policy] * ELO_PER_LOGIT


def _between_tasks(analysis: Analysis, policy: int) -> tuple[float | None, float | None]:
    used, values = _task_deltas(analysis, policy)
    if len(used) < 2 or policy == analysis.anchor:
        return None, None
    spread = float(values.std(ddof=1))
    noise = np.array([analysis.tasks.estimates[t].variance[policy] for t in used]) * ELO_PER_LOGIT**2
    if np.isnan(noise).any() or analysis.tasks.penalised[used, policy].any():
        return spread, None
    return spread, math.sqrt(max(spread**2 - float(noise.mean()), 0.0))


def _tasks_as_sample(analysis: Analysis, policy: int) -> Measure:
    used, values = _task_deltas(analysis, policy)
    if policy == analysis.anchor:
        return Measure(0.0, reason="the anchor: 0 by construction")
    if len(used) == 0:
        return Measure(None, reason=analysis.why_absent(policy))
    mean = float(values.mean())
    if len(used) < 3:
        return Measure(mean, reason=f"{len(used)} tasks are no sample of tasks; three or more are")
    se = float(values.std(ddof=1)) / math.sqrt(len(used))
    if se <= 1e-9:
        return Measure(mean, reason="no interval: every task says the same")
    half = student_quantile(0.5 * (1.0 + analysis.settings.level), len(used) - 1.0) * se
    return Measure(mean, Interval(mean - half, mean + half, analysis.settings.level, "student"), se)


def _signs(analysis: Analysis, policy: int) -> tuple[int, int, int]:
    if policy == analysis.anchor:
        return 0, 0, 0
    _, values = _task_deltas(analysis, policy)
    return int((values > 0).sum()), int((values == 0).sum()), int((values < 0).sum())


def _leave_one_out(analysis: Analysis, policy: int) -> tuple[tuple[str, float], ...]:
    used, values = _task_deltas(analysis, policy)
    if len(used) < 2 or policy == analysis.anchor:
        return ()
    total = values.sum()
    return tuple(
        (analysis.axes.tasks[t], float((total - value) / (len(used) - 1)))
        for t, value in zip(used, values, strict=True)
    )


def _task_specific(delta: Measure, signs: tuple[int, int, int], without: tuple[tuple[str, float], ...]) -> bool:
    if delta.value is None or delta.value == 0.0 or len(without) < 2:
        return False
    turned = any(value * delta.value <= 0.0 for _, value in without)
    agreeing = signs[0] if delta.value > 0.0 else signs[2]
    return turned or agreeing < 0.5 * sum(signs)


def _ranks(analysis: Analysis) -> tuple[dict[int, RankInterval], float | None]:
    combined = analysis.combined
    rated = np.flatnonzero(~np.isnan(combined.delta.value) & ~combined.penalised)
    if not 2 <= len(rated) <= LARGEST_FIELD or np.isnan(combined.covariance[np.ix_(rated, rated)]).any():
        return {}, None
    if combined.penalised.any() or np.isnan(combined.delta.df[rated[rated != analysis.anchor]]).any():
        return {}, None
    covariance = combined.covariance[np.ix_(rated, rated)]
    level, seed = analysis.settings.level, analysis.settings.seed

    def alike(i: int, k: int) -> float:
        upper, lower = int(rated[i]), int(rated[k])
        lacking = analysis.missing(upper, lower, level)
        return analysis.quantile(analysis.df(upper, lower)) * math.sqrt(lacking) if math.isfinite(lacking) else 0.0

    ranks, critical = rank_intervals(combined.delta.value[rated], covariance, alike, level=level, seed=seed)
    return dict(zip(rated.tolist(), ranks, strict=True)), critical


def _power(analysis: Analysis, policy: int, items: int, delta: Measure) -> Power | None:
    if delta.value is None or policy == analysis.anchor or delta.interval is None:
        return None
    if not delta.se:
        alike = delta.interval.high is not None and delta.interval.method == "unseen"
        return power_of_alike(items, (delta.interval.high or 0.0) - delta.value) if alike else None
    quantile = analysis.quantile(float(analysis.combined.quantile_df[policy]))
    power = power_of(items, delta.value, delta.se, quantile, level=analysis.settings.level)
    if analysis.combined.method == "posterior" and analysis.tau is not None and power.items_needed is not None:
        return replace(power, text=f"{power.text}, in as many times the tasks")
    return power
