"""The front door: comparisons and usage in, a complete report out."""

from __future__ import annotations

from pytest_elo.rating.analysis import analyse
from pytest_elo.rating.bounds import find_bounds
from pytest_elo.rating.caveats import find_warnings
from pytest_elo.rating.hierarchical import PRIOR_SD, TAU_SCALE
from pytest_elo.rating.homogeneity import homogeneity_p
from pytest_elo.rating.inputs import Comparisons, Usage
from pytest_elo.rating.ladders import ladder_reports
from pytest_elo.rating.outcomes import comparisons_from_outcomes
from pytest_elo.rating.report_policies import policy_reports
from pytest_elo.rating.report_tasks import task_reports
from pytest_elo.rating.results import RatingReport, TaskReport
from pytest_elo.rating.settings import Settings

__all__ = ["Comparisons", "Settings", "Usage", "comparisons_from_outcomes", "evaluate"]


def evaluate(comparisons: Comparisons, usage: Usage | None, settings: Settings) -> RatingReport:
    """Rate every policy, price it in tokens and judge the ladders.

    A pure function: the same rows in any order give the same report to the last bit. Raises ``DataError``
    for rows that cannot be read as comparisons or usage, or for tasks without the anchor.
    """
    analysis = analyse(comparisons, usage, settings)
    bounds = find_bounds(analysis)
    tasks = task_reports(analysis, bounds)
    policies, critical = policy_reports(analysis, bounds)
    homogeneity = homogeneity_p(analysis.tasks)
    cells = analysis.cells
    ties = float(cells.ties.sum())
    total = ties + float(cells.wins.sum() + cells.losses.sum())
    return RatingReport(
        anchor=settings.anchor,
        ties=settings.ties,
        route=settings.route,
        penalty=_penalty(settings, tasks),
        interval="posterior" if settings.route == "hierarchical" else settings.interval,
        level=settings.level,
        seed=settings.seed,
        bootstrap_rounds=settings.bootstrap_rounds if analysis.draws is not None else None,
        n_rows=cells.n_rows,
        n_comparisons=total,
        n_items=int(analysis.compared.sum()),
        n_judges=analysis.combined.n_judges,
        tie_share=ties / total if total > 0.0 else 0.0,
        tau=analysis.tau,
        homogeneity_p=homogeneity,
        tasks=tasks,
        policies=policies,
        ladders=ladder_reports(analysis),
        critical_value=critical,
        warnings=find_warnings(analysis, tasks, policies, homogeneity),
    )


def _penalty(settings: Settings, tasks: tuple[TaskReport, ...]) -> str:
    if settings.route == "hierarchical":
        return f"normal prior of {PRIOR_SD:.0f} Elo on ratings, half-normal of {TAU_SCALE:.0f} Elo on tau"
    if any(task.penalised for task in tasks):
        return "Firth (m - 1 virtual ties by leverage) where no maximum-likelihood rating exists, none elsewhere"
    return "none: maximum likelihood exists everywhere"
<<<<<<< HEAD


def _warnings(analysis: Analysis, tasks: tuple[TaskReport, ...], policies: tuple[PolicyReport, ...]) -> tuple[str, ...]:
    lines = []
    used = [task for task in tasks if task.used]
    for task in tasks:
        if not task.used:
            lines.append(f"task {task.task} is not in the ratings: {task.reason}")
        elif task.n_items < FEW_CLUSTERS:
            lines.append(
                f"task {task.task} has {task.n_items} items; intervals need about {FEW_CLUSTERS} to be trusted"
            )
        if len(task.components) > 1:
            groups = " | ".join(", ".join(group) for group in task.components)
            lines.append(f"task {task.task}: groups never compared with each other: {groups}")
        elif task.used and task.penalised:
            lines.append(
                f"task {task.task}: some policies never lost or never won against the rest; "
                "a penalty decides how far apart they stand"
            )
    if analysis.settings.ties == "half":
        apart = max((abs(a.tie_share - b.tie_share) for a, b in combinations(used, 2)), default=0.0)
        if apart > TIE_SHARES_APART:
            lines.append(
                f"tie shares of the averaged tasks differ by {100 * apart:.0f} points: half-tie Elo is not on one "
                "scale over them, use ties = davidson"
            )
    separable = [p for p in policies if not p.is_anchor and p.delta.interval is not None and _excludes_zero(p)]
    rated = [p for p in policies if not p.is_anchor and p.delta.value is not None]
    if rated and not separable:
        lines.append(f"nothing is separable: no ΔElo to {analysis.settings.anchor} excludes 0")
    return tuple(lines)


def _excludes_zero(policy: PolicyReport) -> bool:
    interval = policy.delta.interval
    if interval is None or interval.low is None or interval.high is None:
        return False
    return interval.low > 0.0 or interval.high < 0.0
=======
>>>>>>> rating
