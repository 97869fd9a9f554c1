"""One-sided bounds for ratings that only a penalty keeps finite, per task and combined."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating.analysis import Analysis
from pytest_elo.rating.groups import Groups
from pytest_elo.rating.profile import profile_bounds
from pytest_elo.rating.quantiles import normal_quantile, student_quantile
from pytest_elo.rating.results import Bound
from pytest_elo.rating.scale import ELO_PER_LOGIT

__all__ = ["Bounds", "find_bounds"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bounds:
    tasks: dict[tuple[int, int], Bound]
    """by (task, policy)"""
    combined: dict[int, Bound]
    """by policy"""


def find_bounds(analysis: Analysis) -> Bounds:
    """Profile bounds of every penalised contrast that has a finite side.

    Over tasks the distances from estimate to bound add in squares (MOVER; Zou and Donner 2008); a task
    without a finite end on that side leaves the mean without one.
    """
    tasks, level = analysis.tasks, analysis.settings.level
    where = [(int(t), int(j)) for t, j in np.argwhere(tasks.penalised) if j != analysis.anchor]
    per_task = _profile(tasks.wins, tasks.ties, tasks.groups, where, analysis.anchor, level)
    penalised = [int(j) for j in np.flatnonzero(analysis.combined.penalised)]
    if analysis.settings.route == "anchored":
        combined = {j: _mean_bound(analysis, per_task, j) for j in penalised}
    elif analysis.pooled_groups is not None:
        table = tasks.wins.sum(axis=0)[None], tasks.ties.sum(axis=0)[None]
        found = _profile(*table, analysis.pooled_groups, [(0, j) for j in penalised], analysis.anchor, level)
        combined = {j: bound for (_, j), bound in found.items()}
    else:
        combined = {j: _posterior_bound(analysis, j) for j in penalised}
    return Bounds(per_task, {j: bound for j, bound in combined.items() if bound is not None})


def _profile(
    wins: Floats, ties: Floats, groups: Groups, where: list[tuple[int, int]], anchor: int, level: float
) -> dict[tuple[int, int], Bound]:
    sides = [_side(groups, t, j, anchor) for t, j in where]
    problems = [(place, side) for place, side in zip(where, sides, strict=True) if side != 0]
    if not problems:
        return {}
    table = np.array([t for (t, _), _ in problems])
    policy = np.array([j for (_, j), _ in problems])
    side = np.array([side for _, side in problems])
    ends = profile_bounds(
        wins[table], ties[table], groups.fit.nu[table], groups.fit.theta[table],
        groups.together[table, :, anchor], anchor, policy, side, normal_quantile(level),
    )  # fmt: skip
    return {
        place: Bound("at least" if side < 0 else "at most", float(end) * ELO_PER_LOGIT, level)
        for (place, side), end in zip(problems, ends, strict=True)
        if np.isfinite(end)
    }


def _side(groups: Groups, task: int, policy: int, anchor: int) -> int:
    """-1: the estimate runs to plus infinity, a floor exists; +1: a ceiling; 0: neither."""
    up, down = groups.reaches[task, policy, anchor], groups.reaches[task, anchor, policy]
    return int(down) - int(up)


def _mean_bound(analysis: Analysis, per_task: dict[tuple[int, int], Bound], policy: int) -> Bound | None:
    tasks, level = analysis.tasks, analysis.settings.level
    used = np.flatnonzero(tasks.valid[:, policy])
    sides = {per_task[int(t), policy].side for t in used if (int(t), policy) in per_task}
    if len(sides) != 1:
        return None
    side = sides.pop()
    distances = []
    for t in used:
        if tasks.penalised[t, policy]:
            bound = per_task.get((int(t), policy))
            if bound is None:
                return None
            distances.append(bound.value / ELO_PER_LOGIT - tasks.delta[t, policy])
            continue
        estimate = tasks.estimates[t]
        variance, df = float(estimate.variance[policy]), float(estimate.df[policy])
        if math.isnan(variance):
            return None
        distances.append(student_quantile(level, df) * math.sqrt(variance))
    distance = math.sqrt(sum(float(x) ** 2 for x in distances)) / len(used)
    value = float(analysis.combined.delta.value[policy]) + (-distance if side == "at least" else distance)
    return Bound(side, value * ELO_PER_LOGIT, level)


def _posterior_bound(analysis: Analysis, policy: int) -> Bound | None:
    tasks = analysis.tasks
    reach = np.any(tasks.groups.reaches, axis=0)
    up, down = bool(reach[policy, analysis.anchor]), bool(reach[analysis.anchor, policy])
    if up == down:
        return None
    level = analysis.settings.level
    distance = normal_quantile(level) * math.sqrt(float(analysis.combined.covariance[policy, policy]))
    value = float(analysis.combined.delta.value[policy]) + (-distance if up else distance)
    return Bound("at least" if up else "at most", value * ELO_PER_LOGIT, level)
