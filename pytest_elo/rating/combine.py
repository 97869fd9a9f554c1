"""From per-task fits to one ΔElo a policy: the routes that treat tasks as given.

``anchored``: fit each task, shift it to its anchor, take the mean over tasks. ``pooled``: one fit on the
sum of all tasks' tables, right only where tasks share one set of ratings. The third route, ``hierarchical``,
sees tasks as a sample and has its own module.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating.cells import Cells, Frame
from pytest_elo.rating.groups import Groups, Ties, counted_ties, fit_groups, influence
from pytest_elo.rating.moments import Estimates, small_sample

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
    """(n,) degrees of freedom for intervals, infinite for a posterior"""


def fit_tasks(cells: Cells, axes: Frame, anchor: int, mode: Ties) -> TaskFits:
    n, n_tasks, n_units = len(axes.policies), len(axes.tasks), len(axes.unit_item)
    cell_task = axes.unit_task[cells.unit]
    wins, ties = cells.tables(cell_task, n_tasks, n)
    ties = counted_ties(wins, ties, mode)
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
        valid = groups.together[:, :, anchor] & groups.present & groups.present[:, anchor, None]
        delta = np.where(valid, groups.fit.theta - groups.fit.theta[:, anchor, None], 0.0)
        contrast = np.where(valid[axes.unit_task], raw - raw[:, anchor, None], 0.0)
    estimates = []
    for task in range(n_tasks):
        rows = axes.unit_task == task
        only = np.zeros(int(rows.sum()), dtype=np.int64)
        estimates.append(small_sample(delta[task], contrast[rows], active[rows], only, 1))
    mutual = groups.mutual[:, :, anchor] if anchor >= 0 else np.zeros_like(valid)
    return TaskFits(wins, ties, groups, anchor, valid, delta, raw, contrast, active, tuple(estimates), valid & ~mutual)


def anchored(tasks: TaskFits, axes: Frame) -> Combined:
    """Mean over the tasks in which the policy can be compared with the anchor."""
    weights = tasks.valid / np.maximum(tasks.valid.sum(axis=0), 1)
    value = np.where(tasks.valid.any(axis=0), (weights * tasks.delta).sum(axis=0), np.nan)
    raw = weights[axes.unit_task] * tasks.influence
    active = tasks.active & tasks.valid[axes.unit_task]
    delta = small_sample(value, raw, active, axes.unit_task, len(axes.tasks))
    return Combined(delta, _cross(delta), weights, tasks.penalised.any(axis=0), delta.df)


def pooled(tasks: TaskFits, cells: Cells, axes: Frame, mode: Ties) -> tuple[Combined, Groups]:
    """One fit on all tasks' comparisons together."""
    n, anchor = len(axes.policies), tasks.anchor
    groups = fit_groups(tasks.wins.sum(axis=0)[None], tasks.ties.sum(axis=0)[None], mode)
    theta = groups.fit.theta[0]
    valid = groups.together[0, :, anchor] & groups.present[0] & groups.present[0, anchor]
    value = np.where(valid, theta - theta[anchor], np.nan)
    one = np.zeros(len(cells.unit), dtype=np.int64)
    raw = influence(cells, groups, one, cells.unit, np.zeros(len(axes.unit_task), dtype=np.int64), mode)
    contrast = np.where(valid, raw - raw[:, anchor, None], 0.0)
    counted = tasks.active & valid
    informative = counted.any(axis=1)[:, None] & np.ones_like(counted)
    delta = small_sample(value, contrast, informative, axes.unit_task, len(axes.tasks))
    per_task = np.zeros((len(axes.tasks), n))
    np.add.at(per_task, axes.unit_task, counted.astype(np.float64))
    weights = per_task / np.maximum(per_task.sum(axis=0), 1.0)
    penalised = valid & ~groups.mutual[0, :, anchor]
    return Combined(delta, _cross(delta), weights, penalised, delta.df), groups


def _cross(delta: Estimates) -> Floats:
    return np.asarray(np.einsum("ui,uj->ij", delta.influence, delta.influence))
