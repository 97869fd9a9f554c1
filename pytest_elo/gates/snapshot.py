"""A run as other runs are compared with it: one small record an item and strategy, and what was held equal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_elo.ledger.totals import Cell as Cost
from pytest_elo.ledger.totals import Totals
from pytest_elo.records import Outcome, is_scored

__all__ = ["Cell", "CellKey", "Facts", "Snapshot", "snapshot_of"]

CellKey = tuple[str, str, str]
"""task, item, strategy"""

SHORT = 12
"""Hex digits kept of a hash: enough to tell two prompts apart, short enough to read in a diff."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one strategy achieved on one item."""

    scores: tuple[float, ...]
    """one a repeat; infrastructure failures are left out"""
    tokens: float
    """mean over the repeats, every attempt counted"""
    prompt: str = ""
    """hash of the prompt of the first repeat; empty when not known"""
    grading: str = ""
    """hash of what decides the score besides the reply; empty when not known"""
    usd: float | None = None
    """mean over the repeats; ``None`` where a price is not known"""

    @property
    def score(self) -> float:
        return sum(self.scores) / len(self.scores)


@dataclass(frozen=True, slots=True)
class Facts:
    """What must be equal in two runs, and what competes."""

    models: tuple[str, ...]
    endpoint: str = ""
    """host of the gateway, or hash of the local model's file"""
    seed: int | None = None
    strategies: Mapping[str, Any] = field(default_factory=dict)
    """name -> kind and parameters: these compete, so they may differ"""
    started: str = ""
    prices_date: str = ""
    """of the price table that USD stand on"""
    answers: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The scored cells of a run. ``name`` is how the user calls it."""

    name: str
    facts: Facts
    cells: Mapping[CellKey, Cell] = field(repr=False)
    unscored: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """task -> status -> outcomes without a score, which no cell holds: an arena's answers, infrastructure failures"""

    @property
    def strategies(self) -> tuple[str, ...]:
        return tuple(sorted({strategy for _, _, strategy in self.cells}))

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(sorted({task for task, _, _ in self.cells}))


def snapshot_of(name: str, header: Mapping[str, Any], outcomes: Sequence[Outcome], totals: Totals) -> Snapshot:
    """The snapshot of a run from its rows; outcomes that have no score are counted apart."""
    unscored: dict[str, dict[str, int]] = defaultdict(dict)
    groups: dict[CellKey, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if is_scored(outcome):
            groups[outcome.task_id, outcome.item_id, outcome.strategy].append(outcome)
        else:
            counts = unscored[outcome.task_id]
            counts[outcome.status] = counts.get(outcome.status, 0) + 1
    facts = Facts(
        models=tuple(sorted({outcome.model for outcome in outcomes})),
        endpoint=str(header.get("identity", "")),
        seed=header.get("seed"),
        strategies=header.get("strategies", {}),
        started=str(header.get("started", "")),
        prices_date=str((header.get("prices") or {}).get("date") or ""),
        answers=str(header.get("answers", "")),
    )
    cells = {key: _cell(key, found, totals) for key, found in sorted(groups.items())}
    return Snapshot(
        name, facts, cells, {task: dict(sorted(counts.items())) for task, counts in sorted(unscored.items())}
    )


def _cell(key: CellKey, outcomes: Sequence[Outcome], totals: Totals) -> Cell:
    ordered = sorted(outcomes, key=lambda outcome: outcome.repeat)
    costs = [totals.cells.get((*key, outcome.repeat), Cost()) for outcome in ordered]
    usd = [cost.usd for cost in costs if cost.usd is not None]
    return Cell(
        scores=tuple(round(outcome.score, 6) for outcome in ordered),
        tokens=round(sum(cost.total_tokens for cost in costs) / len(costs), 1),
        usd=round(sum(usd) / len(usd), 9) if len(usd) == len(costs) else None,
        prompt=_first_repeat(outcome.prompt_sha256 for outcome in ordered if outcome.repeat == 0),
        grading=_first_repeat(outcome.grading_sha256 for outcome in ordered if outcome.repeat == 0),
    )


def _first_repeat(hashes: Iterable[str | None]) -> str:
    """Repeats may be posed differently (options in another order), so the first one stands for the item."""
    return next((value[:SHORT] for value in hashes if value), "")
