"""The per-task part of the report."""

from __future__ import annotations

import numpy as np

from pytest_elo.rating.analysis import Analysis
from pytest_elo.rating.bounds import Bounds
from pytest_elo.rating.connectivity import components
from pytest_elo.rating.efficiency import per_1k_in_task
from pytest_elo.rating.results import Measure, PolicyTask, TaskReport

__all__ = ["task_reports"]


def task_reports(analysis: Analysis, bounds: Bounds) -> tuple[TaskReport, ...]:
    return tuple(_task(analysis, bounds, task) for task in range(len(analysis.axes.tasks)))


def _task(analysis: Analysis, bounds: Bounds, task: int) -> TaskReport:
    axes, tasks = analysis.axes, analysis.tasks
    groups = tasks.groups
    rows = axes.unit_task == task
    known = ~np.isnan(analysis.meters.tokens[rows])
    present = groups.present[task]
    edges = (tasks.wins[task] > 0.0) | (tasks.ties[task] > 0.0)
    named = tuple(tuple(axes.policies[i] for i in group) for group in components(edges) if present[list(group)].any())
    used = bool((analysis.combined.weights[task] > 0.0).any())
    mutual = groups.mutual[task][np.ix_(present, present)]
    ties = 0.5 * float(tasks.all_ties[task].sum())
    total = ties + float(tasks.wins[task].sum())
    per_1k = per_1k_in_task(analysis, task)
    return TaskReport(
        task=axes.tasks[task],
        used=used,
        reason=None if used else _why_unused(analysis, task),
        n_items=int(analysis.compared[rows].sum()),
        n_comparisons=total,
        tie_share=ties / total if total > 0.0 else 0.0,
        anchor_present=bool(present[analysis.anchor]),
        strongly_connected=bool(present.any() and mutual.all()),
        components=named,
        penalised=bool(groups.penalised[task]),
        nu=float(groups.fit.nu[task]) if analysis.settings.ties == "davidson" and present.any() else None,
        policies=tuple(
            _policy(analysis, bounds, task, policy, per_1k[policy])
            for policy in range(len(axes.policies))
            if present[policy] or known[:, policy].any()
        ),
    )


def _why_unused(analysis: Analysis, task: int) -> str:
    if not analysis.tasks.groups.present[task].any():
        if analysis.settings.ties != "half" and analysis.tasks.all_ties[task].any():
            return f"every comparison is a tie, ties={analysis.settings.ties} sees nothing in it"
        return "no comparison"
    return f"the anchor {analysis.settings.anchor!r} has no comparison here"


def _policy(analysis: Analysis, bounds: Bounds, task: int, policy: int, per_1k: Measure) -> PolicyTask:
    axes, meters = analysis.axes, analysis.meters
    rows = axes.unit_task == task
    volume, _ = analysis.tasks.volume(policy)
    penalised = bool(analysis.tasks.penalised[task, policy])
    compared = analysis.tasks.active[rows, policy]
    return PolicyTask(
        task=axes.tasks[task],
        policy=axes.policies[policy],
        n_items=int(compared.sum()),
        n_comparisons=float(volume[task]),
        score=_mean(meters.score[rows, policy]),
        tokens_per_item=_mean(np.where(compared, meters.tokens[rows, policy], np.nan)),
        delta=analysis.task_measure(task, policy),
        penalised=penalised,
        bound=bounds.tasks.get((task, policy)),
        elo_per_1k=per_1k,
        flag=_flag(analysis, task, policy),
    )


def _flag(analysis: Analysis, task: int, policy: int) -> str | None:
    tasks = analysis.tasks
    if not tasks.valid[task, policy]:
        return analysis.why_absent_in(task, policy)
    if not tasks.penalised[task, policy]:
        return None
    won, lost = tasks.wins[task, policy].sum(), tasks.wins[task, :, policy].sum()
    if tasks.ties[task, policy].sum() == 0.0 and lost == 0.0:
        return "never lost"
    if tasks.ties[task, policy].sum() == 0.0 and won == 0.0:
        return "never won"
    reaches = tasks.groups.reaches[task]
    up, down = reaches[policy, analysis.anchor], reaches[analysis.anchor, policy]
    if up and not down:
        return "no loss to the anchor, directly or through others"
    if down and not up:
        return "no win over the anchor, directly or through others"
    return "no chain of wins to the anchor in either direction"


def _mean(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None
