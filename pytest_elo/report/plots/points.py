"""What is plotted: one point a strategy, with its interval in both directions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_elo.gates.estimates import item_mean, task_mean
from pytest_elo.gates.snapshot import Snapshot, snapshot_of
from pytest_elo.report.build import Report
from pytest_elo.report.flags import flags_of
from pytest_elo.report.tables import ordered

if TYPE_CHECKING:
    from pytest_elo.rating.results import Bound, Measure, RatingReport

__all__ = ["Point", "frontier", "ladders", "points", "task_points"]


@dataclass(frozen=True, slots=True)
class Point:
    strategy: str
    tokens: float
    """an item, at the low end of what is known"""
    tokens_low: float
    tokens_high: float
    """of the interval; the high end of unknown costs lies in it"""
    elo: float
    elo_low: float | None
    """``None``: unbounded or not known"""
    elo_high: float | None
    is_anchor: bool
    oracle: bool
    arrow: int
    """-1, 1: the rating is only known to lie below, above ``elo``; 0: it is known"""


def points(report: Report) -> list[Point]:
    """The strategies over all tasks; those without a ΔElo or tokens are left out."""
    rating = report.rating
    if rating is None:
        return []
    snapshot = snapshot_of("", report.header, report.outcomes, report.totals)
    flags = flags_of(report)
    found = []
    for row in ordered(rating):
        if row.delta.value is None or not row.tokens_per_item:
            continue
        spread = _tokens(snapshot, rating, row.policy)
        tokens = (row.tokens_per_item, row.tokens_per_item_high or row.tokens_per_item)
        oracle = "oracle" in flags.get(row.policy, ())
        found.append(_point(row.policy, row.delta, row.bound, spread, tokens, is_anchor=row.is_anchor, oracle=oracle))
    return found


def task_points(report: Report) -> dict[str, list[Point]]:
    """The same within each task."""
    rating = report.rating
    if rating is None:
        return {}
    snapshot = snapshot_of("", report.header, report.outcomes, report.totals)
    flags = flags_of(report)
    order = [row.policy for row in ordered(rating)]
    found: dict[str, list[Point]] = {}
    for task in rating.tasks:
        found[task.task] = []
        for row in sorted(task.policies, key=lambda row: order.index(row.policy)):
            if row.delta.value is None or not row.tokens_per_item:
                continue
            spread = item_mean(_cell_tokens(snapshot, row.policy)[task.task], rating.level)
            tokens = (row.tokens_per_item, row.tokens_per_item)
            anchor, oracle = row.policy == rating.anchor, "oracle" in flags.get(row.policy, ())
            point = _point(row.policy, row.delta, row.bound, spread, tokens, is_anchor=anchor, oracle=oracle)
            found[task.task].append(point)
    return found


def frontier(shown: Sequence[Point]) -> list[Point]:
    """The strategies that nothing beats for as many tokens or fewer, by tokens; oracles stand outside."""
    best: list[Point] = []
    for point in sorted(shown, key=lambda point: (point.tokens, -point.elo)):
        if not point.oracle and (not best or point.elo > best[-1].elo):
            best.append(point)
    return best


def ladders(rating: RatingReport, shown: Sequence[Point]) -> list[list[Point]]:
    """The points of each declared ladder in its order."""
    by_name = {point.strategy: point for point in shown}
    found = [[by_name[name] for name in ladder.ladder if name in by_name] for ladder in rating.ladders]
    return [ladder for ladder in found if len(ladder) > 1]


def _point(
    strategy: str,
    delta: Measure,
    bound: Bound | None,
    spread: Measure,
    tokens: tuple[float, float],
    *,
    is_anchor: bool,
    oracle: bool,
) -> Point:
    """``spread`` gives the width of the interval of tokens, ``tokens`` the low and high end of what is known."""
    assert delta.value is not None
    low, high = tokens
    elo, arrow = delta.value, 0
    if bound is not None:
        elo, arrow = bound.value, 1 if bound.side == "at least" else -1
    half = 0.0
    if spread.interval is not None and spread.interval.high is not None and spread.value is not None:
        half = spread.interval.high - spread.value
    interval = delta.interval if delta.interval is not None and delta.interval.shape == "between" else None
    return Point(
        strategy=strategy,
        tokens=low,
        tokens_low=max(low - half, low * 0.05),
        tokens_high=max(low + half, high),
        elo=elo,
        elo_low=interval.low if interval is not None and not arrow else None,
        elo_high=interval.high if interval is not None and not arrow else None,
        is_anchor=is_anchor,
        oracle=oracle,
        arrow=arrow,
    )


def _tokens(snapshot: Snapshot, rating: RatingReport, strategy: str) -> Measure:
    tasks = _cell_tokens(snapshot, strategy)
    if rating.route == "pooled":
        return item_mean([value for values in tasks.values() for value in values], rating.level)
    return task_mean(tasks, rating.level)


def _cell_tokens(snapshot: Snapshot, strategy: str) -> Mapping[str, Sequence[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for (task, _, name), cell in snapshot.cells.items():
        if name == strategy:
            found[task].append(cell.tokens)
    return found
