"""What a reader of the ratings must know and might not look for."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from pytest_elo.rating.analysis import FEW_DIFFER, Analysis
from pytest_elo.rating.results import Interval, PolicyReport, TaskReport

__all__ = ["FEW_CLUSTERS", "find_warnings"]

FEW_CLUSTERS = 20
"""Clusters below which a cluster-robust interval is too short."""

TIE_SHARES_APART = 0.15
FEW_TASKS = 4


def find_warnings(
    analysis: Analysis,
    tasks: tuple[TaskReport, ...],
    policies: tuple[PolicyReport, ...],
    homogeneity: float | None,
) -> tuple[str, ...]:
    """Lines in a fixed order: tasks, scale, routes, tokens, then what the whole comes to."""
    return (
        *_task_lines(analysis, tasks),
        *_few_lines(policies),
        *_scale_lines(analysis, tasks),
        *_route_lines(analysis, tasks, policies, homogeneity),
        *_usage_lines(analysis),
        *_separability_lines(analysis, policies),
    )


def _task_lines(analysis: Analysis, tasks: tuple[TaskReport, ...]) -> list[str]:
    lines = []
    for task in tasks:
        if not task.used:
            lines.append(f"task {task.task} is not in the ratings: {task.reason}")
            continue
        if task.n_items < FEW_CLUSTERS:
            lines.append(f"task {task.task} has {task.n_items} items; below {FEW_CLUSTERS} trust no interval")
        if len(task.components) > 1:
            groups = " | ".join(", ".join(group) for group in task.components)
            lines.append(f"task {task.task}: never compared across groups, differences unknown: {groups}")
        if task.penalised:
            lines.append(
                f"task {task.task}: no maximum-likelihood rating exists (somebody never lost or never won "
                "against the rest); a penalty decides how far apart they stand"
            )
    judges = analysis.combined.n_judges
    if 0 < judges < FEW_CLUSTERS:
        lines.append(f"{judges} judges; below {FEW_CLUSTERS} trust no interval that is clustered by judge")
    return lines


def _few_lines(policies: tuple[PolicyReport, ...]) -> list[str]:
    """One line for all: whose interval is wider than the items that differ would make it."""
    names = [row.policy for row in policies if row.delta.reason == FEW_DIFFER]
    return [f"{', '.join(names)}: {FEW_DIFFER}"] if names else []


def _scale_lines(analysis: Analysis, tasks: tuple[TaskReport, ...]) -> list[str]:
    if analysis.settings.ties != "half":
        return []
    used = [task for task in tasks if task.used]
    apart = max((abs(a.tie_share - b.tie_share) for a, b in combinations(used, 2)), default=0.0)
    if apart <= TIE_SHARES_APART:
        return []
    return [
        f"tie shares of the averaged tasks differ by {100.0 * apart:.0f} points: half-tie Elo is not on one "
        "scale across them; ties = davidson is"
    ]


def _route_lines(
    analysis: Analysis,
    tasks: tuple[TaskReport, ...],
    policies: tuple[PolicyReport, ...],
    homogeneity: float | None,
) -> list[str]:
    lines = []
    used = sum(task.used for task in tasks)
    if 1 < used < FEW_TASKS:
        lines.append(f"{used} tasks: read the rows by task, a mean over so few is not a general result")
    route = analysis.settings.route
    if route == "hierarchical" and analysis.tau is None:
        lines.append("one task: the variance between tasks cannot be estimated and is taken as 0")
    if route == "pooled" and homogeneity is not None and homogeneity < 0.05:
        lines.append(f"the tasks do not share one set of ratings (p = {homogeneity:.2g}): do not pool them")
    if route == "anchored":
        lines.extend(
            f"{row.policy}: the anchored and the hierarchical route disagree by more than one standard error"
            for row in policies
            if _disagrees(row)
        )
    return lines


def _disagrees(row: PolicyReport) -> bool:
    by_route = dict(row.by_route)
    if row.is_anchor or not by_route:
        return False
    one, other = by_route["anchored"], by_route["hierarchical"]
    if one.value is None or other.value is None or one.se is None or other.se is None:
        return False
    return abs(one.value - other.value) > max(one.se, other.se)


def _usage_lines(analysis: Analysis) -> list[str]:
    if np.isnan(analysis.meters.tokens).all():
        return []
    lines = []
    counted = (analysis.combined.weights > 0.0)[analysis.axes.unit_task]
    blank = (analysis.tasks.active & counted & np.isnan(analysis.meters.tokens)).sum(axis=0)
    for policy, name in enumerate(analysis.axes.policies):
        if blank[policy]:
            lines.append(f"{name}: {int(blank[policy])} compared items have no token count and are not in its mean")
    low, high = analysis.means["tokens"].value, analysis.means["tokens_high"].value
    with np.errstate(invalid="ignore", divide="ignore"):
        unknown = np.nan_to_num((high - low) / high)
    lines.extend(
        f"{name}: {100.0 * unknown[policy]:.0f} % of its tokens may or may not have been spent"
        for policy, name in enumerate(analysis.axes.policies)
        if unknown[policy] > 0.05
    )
    return lines


def _separability_lines(analysis: Analysis, policies: tuple[PolicyReport, ...]) -> list[str]:
    rated = [row for row in policies if not row.is_anchor and row.delta.value is not None]
    if not rated or any(_excludes_zero(row.delta.interval) or _bound_excludes_zero(row) for row in rated):
        return []
    return [f"nothing is separable: no ΔElo to {analysis.settings.anchor} excludes 0"]


def _excludes_zero(interval: Interval | None) -> bool:
    if interval is None or interval.low is None or interval.high is None:
        return False
    return interval.low > 0.0 or interval.high < 0.0


def _bound_excludes_zero(row: PolicyReport) -> bool:
    if row.bound is None:
        return False
    return row.bound.value > 0.0 if row.bound.side == "at least" else row.bound.value < 0.0
