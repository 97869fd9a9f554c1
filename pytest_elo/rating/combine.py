"""From per-task fits to one ΔElo a policy: the routes that treat tasks as given.

``anchored``: fit each task, shift it to its anchor, take the mean over tasks. ``pooled``: one fit on the
sum of all tasks' tables, right only where tasks share one set of ratings. The third route, ``hierarchical``,
sees tasks as a sample and has its own module.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating.cells import Cells, Frame
from pytest_elo.rating.groups import Groups, Ties, counted_ties, fit_groups, influence
from pytest_elo.rating.judges import two_way_covariance
from pytest_elo.rating.moments import Estimates, Strata
from pytest_elo.rating.scale import settled

__all__ = ["Combined", "TaskFits", "anchored", "fit_tasks", "pooled"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TaskFits:
    """Every task fitted on its own, as contrasts to the anchor."""

    wins: Floats
    """(T, n, n)"""
    ties: Floats
    """(T, n, n) symmetric; those that the tie mode counts"""
    all_ties: Floats
    """(T, n, n) symmetric; all of them"""
    groups: Groups
    anchor: int
    """position of the anchor; -1 if no row names it"""
    valid: Booleans
    """(T, n): the contrast to the anchor has a value"""
    delta: Floats
    """(T, n) logits, 0 where not valid"""
    raw: Floats
    """(U, n) influence on the strengths of the unit's own task"""
    influence: Floats
    """(U, n) the same on the contrasts to the anchor"""
    active: Booleans
    """(U, n): the policy has a comparison on the unit"""
    estimates: tuple[Estimates, ...]
    """one a task, (n,) each"""
    penalised: Booleans
    """(T, n): valid, but finite only through the penalty"""

    def volume(self, policy: int) -> tuple[Floats, Floats]:
        """(T,) total weight of a policy's comparisons, and of its ties."""
        ties = self.all_ties[:, policy].sum(axis=-1)
        decided = self.wins[:, policy].sum(axis=-1) + self.wins[:, :, policy].sum(axis=-1)
        return decided + ties, ties


@dataclass(frozen=True, slots=True)
class Combined:
    """One ΔElo a policy, in logits."""

    delta: Estimates
    """(n,)"""
    covariance: Floats
    """(n, n) of ``delta``"""
    weights: Floats
    """(T, n) what each task contributes; columns sum to 1 or to 0"""
    penalised: Booleans
    """(n,)"""
    quantile_df: Floats
    """(n,) degrees of freedom for intervals"""
    n_judges: int = 0
    """judges that the intervals are clustered by, besides items"""
    method: Literal["cr1", "posterior"] = "cr1"
    """where the covariance comes from"""


def fit_tasks(cells: Cells, axes: Frame, anchor: int, mode: Ties) -> TaskFits:
    n, n_tasks, n_units = len(axes.policies), len(axes.tasks), len(axes.unit_item)
    cell_task = axes.unit_task[cells.unit]
    wins, all_ties = cells.tables(cell_task, n_tasks, n)
    ties = counted_ties(wins, all_ties, mode)
    groups = fit_groups(wins, ties, mode)
    counts = cells.wins + cells.losses + (0.0 if mode == "drop" else cells.ties)
    active = np.zeros(n_units * n, dtype=np.bool_)
    active[cells.unit[counts > 0] * n + cells.a[counts > 0]] = True
    active[cells.unit[counts > 0] * n + cells.b[counts > 0]] = True
    active = active.reshape(n_units, n) & groups.present[axes.unit_task]
    raw = influence(cells, groups, cell_task, cells.unit, axes.unit_task, mode)
    if anchor < 0:
        valid = np.zeros((n_tasks, n), dtype=np.bool_)
        delta, contrast = np.zeros((n_tasks, n)), np.zeros_like(raw)
    else:
        valid = groups.rated(anchor)
        delta = np.where(valid, settled(groups.fit.theta - groups.fit.theta[:, anchor, None]), 0.0)
        contrast = np.where(valid[axes.unit_task], raw - raw[:, anchor, None], 0.0)
    estimates = []
    for task in range(n_tasks):
        rows = axes.unit_task == task
        alone = Strata(np.zeros(int(rows.sum()), dtype=np.int64), 1)
        estimates.append(alone.estimates(delta[task], contrast[rows], active[rows]))
    mutual = groups.mutual[:, :, anchor] if anchor >= 0 else np.zeros_like(valid)
    return TaskFits(
        wins=wins,
        ties=ties,
        all_ties=all_ties,
        groups=groups,
        anchor=anchor,
        valid=valid,
        delta=delta,
        raw=raw,
        influence=contrast,
        active=active,
        estimates=tuple(estimates),
        penalised=valid & ~mutual,
    )


def anchored(tasks: TaskFits, cells: Cells, axes: Frame, mode: Ties) -> Combined:
    """Mean over the tasks in which the policy can be compared with the anchor."""
    weights = tasks.valid / np.maximum(tasks.valid.sum(axis=0), 1)
    value = np.where(tasks.valid.any(axis=0), settled((weights * tasks.delta).sum(axis=0)), np.nan)
    raw = weights[axes.unit_task] * tasks.influence
    active = tasks.active & tasks.valid[axes.unit_task]
    delta = axes.strata.estimates(value, raw, active)
    combined = Combined(delta, _cross(delta), weights, np.any(tasks.penalised, axis=0), delta.df)
    return _with_judges(combined, cells, tasks.groups, axes.unit_task[cells.unit], weights, tasks.anchor, mode)


def pooled(tasks: TaskFits, cells: Cells, axes: Frame, mode: Ties) -> tuple[Combined, Groups]:
    """One fit on all tasks' comparisons together."""
    anchor = tasks.anchor
    groups = fit_groups(tasks.wins.sum(axis=0)[None], tasks.ties.sum(axis=0)[None], mode)
    theta = groups.fit.theta[0]
    valid = groups.rated(anchor)[0]
    value = np.where(valid, settled(theta - theta[anchor]), np.nan)
    one = np.zeros(len(cells.unit), dtype=np.int64)
    raw = influence(cells, groups, one, cells.unit, np.zeros(len(axes.unit_task), dtype=np.int64), mode)
    contrast = np.where(valid, raw - raw[:, anchor, None], 0.0)
    counted = tasks.active & valid
    informative = np.any(counted, axis=1)[:, None] & np.ones_like(counted)
    delta = axes.strata.estimates(value, contrast, informative)
    per_task = axes.strata.totals(counted)
    weights = per_task / np.maximum(per_task.sum(axis=0), 1.0)
    penalised = valid & ~groups.mutual[0, :, anchor]
    combined = Combined(delta, _cross(delta), weights, penalised, delta.df)
    whole = valid[None].astype(np.float64)
    return _with_judges(combined, cells, groups, one, whole, anchor, mode), groups


def _with_judges(
    combined: Combined,
    cells: Cells,
    groups: Groups,
    cell_group: Integers,
    weights: Floats,
    anchor: int,
    mode: Ties,
) -> Combined:
    """Widen the covariance for judges where there are any."""
    if cells.n_judges < 2:
        return combined
    covariance, n_judges = two_way_covariance(combined.covariance, cells, groups, cell_group, weights, anchor, mode)
    if n_judges < 2:
        return combined
    df = np.minimum(combined.quantile_df, n_judges - 1.0)
    return replace(combined, covariance=covariance, quantile_df=df, n_judges=n_judges)


def _cross(delta: Estimates) -> Floats:
    return np.asarray(np.einsum("ui,uj->ij", delta.influence, delta.influence))
