"""The front door: comparisons and usage in, a complete report out."""

from __future__ import annotations

from pytest_elo.rating.analysis import analyse
from pytest_elo.rating.bounds import find_bounds
from pytest_elo.rating.caveats import find_warnings
from pytest_elo.rating.hierarchical import EQUAL_TASKS, PRIOR_SD, SCALE_DF, TAU_SCALE
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
        n_clusters=int(analysis.compared.sum()),
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
        return (
            f"normal prior of {PRIOR_SD:.0f} Elo on ratings; on tau half-normal of {TAU_SCALE:.0f} Elo "
            f"with {EQUAL_TASKS:g} on tau = 0; on the variance's factor {SCALE_DF:g} degrees of freedom around 1"
        )
    if any(task.penalised for task in tasks):
        return "Firth (m - 1 virtual ties by leverage) where no maximum-likelihood rating exists, none elsewhere"
    return "none: maximum likelihood exists everywhere"
