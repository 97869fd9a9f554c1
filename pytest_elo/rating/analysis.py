"""Everything estimated once, in logits and on canonical axes, for the reports to read off."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_elo.errors import DataError
from pytest_elo.rating.bootstrap import Draws, bca_interval, percentile_interval, resample
from pytest_elo.rating.cells import Cells, Frame, Meters, collect_cells, collect_meters, frame
from pytest_elo.rating.combine import Combined, TaskFits, anchored, fit_tasks, pooled
from pytest_elo.rating.groups import Groups
from pytest_elo.rating.hierarchical import hierarchical
from pytest_elo.rating.inputs import Comparisons, Usage
from pytest_elo.rating.moments import Estimates
from pytest_elo.rating.quantiles import student_quantile
from pytest_elo.rating.results import Interval, Measure
from pytest_elo.rating.scale import ELO_PER_LOGIT
from pytest_elo.rating.settings import Settings
from pytest_elo.rating.unseen import NO_WIDTH, Unseen, unseen_of

__all__ = ["ALL_ALIKE", "FEW_DIFFER", "METERS", "Analysis", "analyse"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

METERS = ("tokens", "tokens_high", "completion_tokens", "last_success_tokens", "usd", "samples", "repeats")

ALL_ALIKE = "every item says the same: the interval is what so many items may have missed"
FEW_DIFFER = "few items of a task differ, or none: the interval allows for what so many items may have missed"


@dataclass(frozen=True, slots=True)
class Analysis:
    settings: Settings
    axes: Frame
    cells: Cells
    meters: Meters
    tasks: TaskFits
    combined: Combined
    pooled_groups: Groups | None
    tau: float | None
    compared: Booleans
    """(U,) the units that hold a comparison"""
    known: Booleans
    """(U, n): compared, in a task that counts for the policy, and with usage"""
    routes: Mapping[str, Combined]
    """ΔElo by every route, ``combined`` among them; empty with one task, where all routes agree"""
    means: Mapping[str, Estimates]
    """mean of each meter per item, (n,) each, with the route's task weights"""
    draws: Draws | None
    unseen: Unseen

    @property
    def anchor(self) -> int:
        return self.tasks.anchor

    def quantile(self, df: float, level: float | None = None) -> float:
        level = self.settings.level if level is None else level
        return student_quantile(0.5 * (1.0 + level), df)

    def gap(self, upper: Integers, lower: Integers) -> Estimates:
        """Mean paired difference of tokens between policies, on items where both are known."""
        values = self.meters.tokens
        both = self.known[:, upper] & self.known[:, lower]
        difference = np.where(both, values[:, upper] - values[:, lower], 0.0)
        return self.axes.strata.means(difference, both, self.combined.weights[:, upper])

    def alike(self, upper: int, lower: int, combined: Combined | None = None) -> bool:
        """Whether every item says the same of the two."""
        return self.unseen.nothing_varies(self.combined if combined is None else combined, upper, lower)

    def df(self, upper: int, lower: int, combined: Combined | None = None) -> float:
        """Degrees of freedom of a difference: the fewer of the two; the anchor's own difference is none."""
        combined = self.combined if combined is None else combined
        return min(float(combined.quantile_df[policy]) for policy in (upper, lower) if policy != self.anchor)

    def missing(self, upper: int, lower: int, level: float, combined: Combined | None = None) -> float:
        """What to add to the variance of a difference, in squared logits: ``Unseen.missing``."""
        combined = self.combined if combined is None else combined
        df = self.df(upper, lower, combined)
        return 0.0 if np.isnan(df) else self.unseen.missing(combined, upper, lower, level, self.quantile(df, level))

    def delta_measure(self, policy: int, combined: Combined | None = None) -> Measure:
        """ΔElo of a policy, by another route if one is given; without an interval where a penalty made it."""
        draws = None
        if combined is None:
            combined = self.combined
            draws = None if self.draws is None else self.draws.delta[:, policy]
        value = float(combined.delta.value[policy])
        if np.isnan(value):
            return Measure(None, reason=self.why_absent(policy))
        if policy == self.anchor:
            return Measure(0.0, reason="the anchor: 0 by construction")
        elo = value * ELO_PER_LOGIT
        if combined.penalised[policy]:
            return Measure(elo, reason="finite only through the penalty")
        return self._measure(
            value, float(combined.covariance[policy, policy]), float(combined.quantile_df[policy]),
            draws, combined.delta.influence[:, policy],
            self.missing(policy, self.anchor, self.settings.level, combined),
            self.alike(policy, self.anchor, combined), combined.method,
        )  # fmt: skip

    def task_measure(self, task: int, policy: int) -> Measure:
        """ΔElo of a policy within one task."""
        tasks = self.tasks
        if not tasks.valid[task, policy]:
            return Measure(None, reason=self.why_absent_in(task, policy))
        if policy == self.anchor:
            return Measure(0.0, reason="the anchor: 0 by construction")
        value = float(tasks.delta[task, policy])
        if tasks.penalised[task, policy]:
            return Measure(value * ELO_PER_LOGIT, reason="finite only through the penalty")
        estimate = tasks.estimates[task]
        draws = None if self.draws is None else self.draws.task_delta[task, :, policy]
        pull = estimate.influence[:, policy]
        return self._measure(
            value, float(estimate.variance[policy]), float(estimate.df[policy]), draws, pull,
            self.missing_in(task, policy, self.settings.level), self.alike_in(task, policy),
        )  # fmt: skip

    def alike_in(self, task: int, policy: int) -> bool:
        """``alike`` within one task, against the anchor."""
        return float((self.tasks.estimates[task].influence[:, policy] ** 2).sum()) <= NO_WIDTH**2

    def missing_in(self, task: int, policy: int, level: float) -> float:
        """``missing`` within one task, against the anchor."""
        estimate = self.tasks.estimates[task]
        df, pull = float(estimate.df[policy]), estimate.influence[:, policy]
        if np.isnan(df):
            return 0.0
        return self.unseen.missing_in(task, policy, self.anchor, pull, level, self.quantile(df, level))

    def _measure(
        self,
        value: float,
        variance: float,
        df: float,
        draws: Floats | None,
        pull: Floats,
        missing: float,
        alike: bool,
        student: str = "cr1",
    ) -> Measure:
        """``student`` names the interval where it is Student's t; ``missing`` is what ``variance`` lacks."""
        elo = value * ELO_PER_LOGIT
        if np.isnan(variance) or np.isnan(df):
            return Measure(elo, reason="no interval: a task has fewer than two items")
        variance = max(variance, 0.0)
        se = math.sqrt(variance + missing)
        method, level = self.settings.interval, self.settings.level
        if math.isinf(se) or se <= NO_WIDTH:
            return Measure(elo, reason="no interval: every item says the same")
        if alike:
            half = self.quantile(df) * se * ELO_PER_LOGIT
            return Measure(elo, Interval(elo - half, elo + half, level, "unseen"), reason=ALL_ALIKE)
        if draws is None or method == "cr1":
            half = self.quantile(df) * se
            ends: tuple[float, float] | None = (value - half, value + half)
            method_name = "unseen" if missing else student
        elif method == "percentile":
            ends, method_name = percentile_interval(draws, level), "percentile"
        else:
            ends, method_name = bca_interval(draws, value, pull, level), "bca"
        if ends is None:
            reason = "no interval: fewer than half of the bootstrap rounds connect it to the anchor"
            return Measure(elo, se=se * ELO_PER_LOGIT, reason=reason)
        interval = Interval(ends[0] * ELO_PER_LOGIT, ends[1] * ELO_PER_LOGIT, level, method_name)
        return Measure(elo, interval, se * ELO_PER_LOGIT, FEW_DIFFER if method_name == "unseen" else None)

    def why_absent_in(self, task: int, policy: int) -> str:
        groups = self.tasks.groups
        if not self.tasks.active[self.axes.unit_task == task][:, policy].any():
            touched = self.tasks.all_ties[task, policy].any()
            if touched and not groups.present[task].any() and self.settings.ties != "half":
                return f"no decisive comparison, which ties={self.settings.ties} needs"
            return "no comparison"
        if self.anchor < 0 or not groups.present[task, self.anchor]:
            return "the anchor has no comparison here"
        if not groups.fit.converged[task]:
            return "the fit did not converge: the weights span too many orders of magnitude"
        return "not connected to the anchor by comparisons: the difference is unknown"

    def why_absent(self, policy: int) -> str:
        if self.tasks.valid[:, policy].any():
            return "the fit did not converge: the weights span too many orders of magnitude"
        reasons = {self.why_absent_in(task, policy) for task in range(len(self.axes.tasks))}
        reasons -= {"no comparison"} if len(reasons) > 1 else set()
        return "; ".join(sorted(reasons)) or "no comparison"


def analyse(comparisons: Comparisons, usage: Usage | None, settings: Settings) -> Analysis:
    """Fit all that the settings ask for. Raises ``DataError`` for tasks without the anchor."""
    axes = frame(comparisons, usage)
    cells = collect_cells(comparisons, axes)
    meters = collect_meters(usage, axes)
    anchor = axes.policies.index(settings.anchor) if settings.anchor in axes.policies else -1
    tasks = fit_tasks(cells, axes, anchor, settings.ties)
    _check_anchor(tasks, axes, settings)
    routes, pooled_groups, tau = _routes(tasks, cells, axes, settings)
    combined = routes[settings.route]
    counts = (combined.weights > 0.0)[axes.unit_task]
    known = tasks.active & counts & ~np.isnan(meters.tokens)
    means = {
        meter: axes.strata.means(values, known & ~np.isnan(values), combined.weights)
        for meter, values in ((meter, getattr(meters, meter)) for meter in METERS)
    }
    draws = None
    if settings.interval != "cr1" and settings.route != "hierarchical":
        columns = [getattr(meters, meter) for meter in METERS[:5]]
        draws = resample(
            cells,
            axes,
            tasks,
            pooled_groups if settings.route == "pooled" else None,
            np.stack([np.nan_to_num(column) for column in columns]),
            np.stack([known & ~np.isnan(column) for column in columns]),
            mode=settings.ties,
            rounds=settings.bootstrap_rounds,
            seed=settings.seed,
        )
    return Analysis(
        settings=settings,
        axes=axes,
        cells=cells,
        meters=meters,
        tasks=tasks,
        combined=combined,
        pooled_groups=pooled_groups if settings.route == "pooled" else None,
        tau=tau,
        compared=np.bincount(cells.unit, minlength=len(axes.unit_task)) > 0,
        known=known,
        routes=routes if len(routes) > 1 else {},
        means=means,
        draws=draws,
        unseen=unseen_of(tasks, cells, axes, settings.ties),
    )


def _routes(
    tasks: TaskFits, cells: Cells, axes: Frame, settings: Settings
) -> tuple[dict[str, Combined], Groups | None, float | None]:
    """The chosen route, and the others where there is more than one task to disagree about."""
    routes: dict[str, Combined] = {}
    several = int(np.any(tasks.groups.present, axis=1).sum()) > 1
    groups, tau = None, None
    if several or settings.route == "anchored":
        routes["anchored"] = anchored(tasks, cells, axes, settings.ties)
    if several or settings.route == "pooled":
        routes["pooled"], groups = pooled(tasks, cells, axes, settings.ties)
    if several or settings.route == "hierarchical":
        routes["hierarchical"], tau = hierarchical(tasks, axes)
    return routes, groups, tau


def _check_anchor(tasks: TaskFits, axes: Frame, settings: Settings) -> None:
    if tasks.anchor < 0:
        raise DataError(
            f"anchor: no comparison or usage names {settings.anchor!r}; "
            f"choose one of {', '.join(axes.policies) or 'nothing (no rows at all)'}"
        )
    if settings.route != "anchored" or settings.missing_anchor == "drop":
        return
    compared = tasks.groups.present
    missing = [axes.tasks[t] for t in np.flatnonzero(compared.any(axis=1) & ~compared[:, tasks.anchor])]
    if missing:
        raise DataError(
            f"anchor: {settings.anchor!r} has no comparison in {', '.join(missing)}; run it there, choose "
            "another anchor, drop these tasks (missing_anchor = drop), or rate with the hierarchical route"
        )
