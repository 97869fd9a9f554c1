"""What changed from one run to another: per task and strategy, paired on items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import stdev
from typing import Any

from pytest_elo.gates.pairing import Pairing, pair
from pytest_elo.gates.snapshot import Snapshot
from pytest_elo.rating.paired import tango_interval
from pytest_elo.rating.power import items_needed
from pytest_elo.rating.quantiles import few_carry, share_unseen, student_quantile

__all__ = ["Change", "Difference", "changes"]


@dataclass(frozen=True, slots=True)
class Difference:
    """After minus before, with a two-sided interval; ends are ``None`` where one item has no spread, and for tokens
    and USD where every item changed by the same."""

    before: float
    after: float
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Change:
    """One strategy in one task (``None``: over all tasks, each item with the same weight)."""

    task: str | None
    strategy: str
    n_items: int
    score: Difference
    """in points: 100 times the score"""
    tokens: Difference
    """tokens an item"""
    usd: Difference | None
    """USD an item; ``None`` unless both runs know every price"""
    worse: tuple[str, ...]
    better: tuple[str, ...]
    resolves: float | None
    """points: half-width of the interval, the smallest difference that would exclude 0"""
    needed: int | None
    """items that would tell a difference of this size from 0 with 80 % power"""
    remarks: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        def plain(difference: Difference) -> dict[str, float | None]:
            return {name: getattr(difference, name) for name in ("before", "after", "value", "low", "high")}

        return {
            "task": self.task,
            "strategy": self.strategy,
            "items": self.n_items,
            "score_points": plain(self.score),
            "tokens_per_item": plain(self.tokens),
            "usd_per_item": None if self.usd is None else plain(self.usd),
            "worse": list(self.worse),
            "better": list(self.better),
            "resolves_points": self.resolves,
            "items_needed": self.needed,
            "remarks": list(self.remarks),
        }


def changes(before: Snapshot, after: Snapshot, level: float) -> list[Change]:
    """All strategies that both runs hold, per task, and over all tasks where there are several."""
    strategies = [name for name in after.strategies if name in before.strategies]
    found = []
    for strategy in strategies:
        tasks = [task for task in after.tasks if task in before.tasks]
        pairings = [(task, pair(after, before, (task, strategy))) for task in tasks]
        filled = [(task, pairing) for task, pairing in pairings if pairing.items]
        found += [_change(task, pairing, before.name, level) for task, pairing in filled]
        if len(filled) > 1:
            found.append(_change(None, pair(after, before, (None, strategy)), before.name, level))
    return found


def _change(task: str | None, pairing: Pairing, before: str, level: float) -> Change:
    after_scores, before_scores = pairing.scores
    score = _score(after_scores, before_scores, pairing, level)
    se = _standard_error([100 * (b - a) for a, b in zip(before_scores, after_scores, strict=True)])
    half = None if score.low is None or score.high is None else 0.5 * (score.high - score.low)
    n = len(pairing.items)
    return Change(
        task=task,
        strategy=pairing.strategy,
        n_items=n,
        score=score,
        tokens=_paired([cell.tokens for cell in pairing.ours], [cell.tokens for cell in pairing.theirs], level),
        usd=_usd(pairing, level),
        worse=tuple(map(str, pairing.worse)),
        better=tuple(map(str, pairing.better)),
        resolves=half,
        needed=items_needed(n, se, score.value, level=level) if se else None,
        remarks=tuple(pairing.remarks(before)),
    )


def _usd(pairing: Pairing, level: float) -> Difference | None:
    after = [cell.usd for cell in pairing.ours if cell.usd is not None]
    before = [cell.usd for cell in pairing.theirs if cell.usd is not None]
    known = len(after) == len(before) == len(pairing.items)
    return _paired(after, before, level) if known else None


def _score(after: Sequence[float], before: Sequence[float], pairing: Pairing, level: float) -> Difference:
    """Tango's interval for right and wrong, Student's t on items otherwise; where few or no items changed by more or
    less than the others, at least what so many items may have missed."""
    n = len(after)
    if any(value not in (0.0, 1.0) for value in (*after, *before)):
        change = _paired([100 * value for value in after], [100 * value for value in before], level)
        if n < 2:
            return change
        half = 0.0 if change.high is None else change.high - change.value
        apart = [(b - a - change.value / 100) ** 2 for a, b in zip(before, after, strict=True)]
        if half == 0.0 or few_carry(sum(apart), sum(square**2 for square in apart)):
            half = max(half, 100 * share_unseen(n, 0.5 * (1.0 - level)))
        return replace(change, low=change.value - half, high=change.value + half)
    low, high = tango_interval(len(pairing.worse), len(pairing.better), n, level=level)
    mean_before, mean_after = 100 * math.fsum(before) / n, 100 * math.fsum(after) / n
    return Difference(mean_before, mean_after, mean_after - mean_before, 100 * low, 100 * high)


def _paired(after: Sequence[float], before: Sequence[float], level: float) -> Difference:
    n = len(after)
    mean_before, mean_after = math.fsum(before) / n, math.fsum(after) / n
    value = mean_after - mean_before
    if n < 2:
        return Difference(mean_before, mean_after, value, None, None)
    se = _standard_error([b - a for a, b in zip(before, after, strict=True)])
    if se == 0.0:
        return Difference(mean_before, mean_after, value, None, None)
    half = student_quantile(0.5 * (1.0 + level), n - 1.0) * se
    return Difference(mean_before, mean_after, value, value - half, value + half)


def _standard_error(values: Sequence[float]) -> float:
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
