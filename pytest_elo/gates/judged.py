"""The run that gates judge, and every number they may ask of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_elo.gates.estimates import item_mean, task_mean
from pytest_elo.gates.metrics import STATUS_SHARES, Metric
from pytest_elo.gates.scope import Names, Scope
from pytest_elo.gates.snapshot import Snapshot
from pytest_elo.ledger.totals import Cell as Cost
from pytest_elo.ledger.totals import Totals
from pytest_elo.rating.results import Interval, Measure
from pytest_elo.records import MODEL_STATUSES, Outcome

if TYPE_CHECKING:
    from pytest_elo.rating.results import PolicyReport, PolicyTask, RatingReport

__all__ = ["JudgedRun"]


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A finished run as gates see it."""

    snapshot: Snapshot
    outcomes: Sequence[Outcome] = field(repr=False)
    totals: Totals = field(repr=False)
    rate: Callable[[float | None], RatingReport | None] = field(repr=False)
    """the rating at a level; ``None``: at the run's own, the one that is printed"""
    unrated: str | None
    """why there is no rating"""
    declared: Collection[str]
    """strategies of elo.yaml"""
    judges: Mapping[str, Collection[str]] = field(default_factory=dict)
    """task -> models that judged it"""

    @property
    def names(self) -> Names:
        return Names(
            tasks=sorted({outcome.task_id for outcome in self.outcomes}),
            strategies=sorted({outcome.strategy for outcome in self.outcomes}),
            declared=self.declared,
        )

    def value(self, metric: Metric, scope: Scope, level: float | None) -> Measure:
        """A metric of ``metrics.py`` in a scope; the interval stands at ``level`` (default: 95 %)."""
        if metric.name in STATUS_SHARES:
            return self._status_share(STATUS_SHARES[metric.name], scope, level or 0.95)
        if metric.name in ("estimated_tokens", "discarded_tokens"):
            return self._token_share(metric.name, scope)
        if metric.name == "score":
            return item_mean([score for scores in self._cells(scope).values() for score in scores], level or 0.95)
        if metric.name == "tokens_per_item":
            return self._cost(self._tokens_of_items(scope), level)
        if metric.name == "usd_per_item":
            return self._usd(scope, level)
        return self._rated(metric.name, scope, level)

    def within(self, scope: Scope) -> Iterator[Outcome]:
        for outcome in self.outcomes:
            if scope.task in (None, outcome.task_id) and scope.strategy in (None, outcome.strategy):
                yield outcome

    def _cells(self, scope: Scope) -> Mapping[str, Sequence[float]]:
        """task -> score of each scored cell."""
        found: dict[str, list[float]] = defaultdict(list)
        for (task, _, strategy), cell in self.snapshot.cells.items():
            if scope.task in (None, task) and scope.strategy in (None, strategy):
                found[task].append(cell.score)
        return found

    def _status_share(self, statuses: Sequence[str], scope: Scope, level: float) -> Measure:
        items: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
        for outcome in self.within(scope):
            key = (outcome.task_id, outcome.item_id, outcome.strategy)
            items[key].append(outcome.status in statuses)
        return item_mean([sum(found) / len(found) for found in items.values()], level)

    def _token_share(self, name: str, scope: Scope) -> Measure:
        costs = list(self._costs(scope))
        total = sum(cost.total_tokens for cost in costs)
        if not total:
            return Measure(None, reason="no tokens were spent")
        return Measure(sum(getattr(cost, name) for cost in costs) / total, reason="a share of a sum has no interval")

    def _costs(self, scope: Scope) -> Iterator[Cost]:
        for (task, _, strategy, _), cost in self.totals.cells.items():
            if scope.task in (None, task) and scope.strategy in (None, strategy):
                yield cost

    def _usd(self, scope: Scope, level: float | None) -> Measure:
        found = self._of_items(scope, lambda cost: cost.usd)
        cells = {task: [usd for usd in values if usd is not None] for task, values in found.items()}
        if sum(map(len, cells.values())) < sum(map(len, found.values())):
            return Measure(None, reason="a model has no price; add it under prices.models of elo.yaml")
        return self._cost(cells, level)

    def _cost(self, cells: Mapping[str, Sequence[float]], level: float | None) -> Measure:
        """As in the table: each task with the same weight, unless the route pools items."""
        rating = self.rate(None)
        if rating is not None and rating.route == "pooled":
            return item_mean([cost for found in cells.values() for cost in found], level or 0.95)
        return task_mean(cells, level or 0.95)

    def _tokens_of_items(self, scope: Scope) -> Mapping[str, Sequence[float]]:
        found = self._of_items(scope, lambda cost: cost.total_tokens)
        return {task: [tokens for tokens in values if tokens is not None] for task, values in found.items()}

    def _of_items(self, scope: Scope, of: Callable[[Cost], float | None]) -> Mapping[str, Sequence[float | None]]:
        """task -> what each item cost each strategy, means over the repeats, ``None`` where a repeat's is unknown;
        arenas included, which have no score."""
        found: dict[tuple[str, str, str], list[float | None]] = defaultdict(list)
        for outcome in self.within(scope):
            if outcome.status in MODEL_STATUSES:
                key = (outcome.task_id, outcome.item_id, outcome.strategy)
                found[key].append(of(self.totals.cells.get((*key, outcome.repeat), Cost())))
        tasks: dict[str, list[float | None]] = defaultdict(list)
        for (task, _, _), costs in sorted(found.items()):
            known = [cost for cost in costs if cost is not None]
            tasks[task].append(sum(known) / len(known) if len(known) == len(costs) else None)
        return tasks

    def tokens_high(self, scope: Scope, measure: Measure) -> float | None:
        """The high end of tokens an item, where the cost of attempts is only known as an interval."""
        low = sum(cost.total_tokens for cost in self._costs(scope))
        high = sum(cost.total_tokens_high for cost in self._costs(scope))
        if measure.value is None or high <= low:
            return measure.value
        return measure.value * high / low if low else None

    def _rated(self, name: str, scope: Scope, level: float | None) -> Measure:
        rating = self.rate(level)
        if rating is None:
            return Measure(None, reason=f"no rating: {self.unrated}")
        if name == "marginal_elo_per_1k":
            return _marginal(rating, scope)
        row = _row(rating, scope)
        if row is None:
            return Measure(None, reason=f"{scope} is not rated")
        measure: Measure | None = getattr(row, {"delta_elo": "delta"}.get(name, name), None)
        if measure is None:
            return Measure(None, reason=f"{name} is defined over all tasks; name the strategy alone")
        return _with_bound(measure, row) if name == "delta_elo" else measure


def _row(rating: RatingReport, scope: Scope) -> PolicyReport | PolicyTask | None:
    if scope.task is None:
        return next((policy for policy in rating.policies if policy.policy == scope.strategy), None)
    tasks = [task for task in rating.tasks if task.task == scope.task]
    return next((row for task in tasks for row in task.policies if row.policy == scope.strategy), None)


def _with_bound(measure: Measure, row: PolicyReport | PolicyTask) -> Measure:
    """A rating that only a penalty keeps finite is known by its bound, so the point is withheld."""
    if not row.penalised:
        return measure
    if row.bound is None:
        return Measure(None, reason="finite only through the penalty: the data set no bound")
    low = row.bound.value if row.bound.side == "at least" else None
    high = row.bound.value if row.bound.side == "at most" else None
    said = f"{row.bound.side} {row.bound.value:+.1f} at {row.bound.level:.0%}, no finite rating exists"
    return Measure(None, Interval(low, high, row.bound.level, "bound"), reason=said)


def _marginal(rating: RatingReport, scope: Scope) -> Measure:
    if scope.task is not None:
        return Measure(None, reason="a marginal is defined over all tasks; name the strategy alone")
    steps = [step for ladder in rating.ladders for step in ladder.steps if step.upper == scope.strategy]
    return steps[0].marginal if steps else Measure(None, reason=f"{scope} is no upper tier of a ladder")
