"""What attempts cost, as reports and gates read it: a cell a trial, a tier a task and strategy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pytest_elo.config import Price
from pytest_elo.ledger.prices import usd_for
from pytest_elo.ledger.sums import Latencies, Sums, columns_of
from pytest_elo.records import POLICY_ROLES, Attempt

__all__ = ["Cell", "CellKey", "Tier", "Totals", "by_strategy", "by_task_strategy", "total", "totals_of"]

CellKey = tuple[str, str, str, int]
"""Task, item, strategy, repeat."""

BATCH = 4096
_NEVER = (-1, "")


@dataclass(slots=True)
class Cell:
    """What one item cost under one strategy in one repeat."""

    attempts: int = 0
    failed_attempts: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    total_tokens_high: int = 0
    estimated_tokens: int = 0
    discarded_tokens: int = 0
    last_success_tokens: int = 0
    usd: float | None = 0.0
    """the high end where tokens are an interval; ``None`` as soon as one of its models has no price"""
    _last_success: tuple[int, str] = _NEVER

    def add(self, sums: Mapping[str, int], usd: float | None, latest: tuple[int, str, int] | None) -> None:
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + sums[name])
        self.usd = None if self.usd is None or usd is None else self.usd + usd
        if latest is not None and latest[:2] >= self._last_success:
            self._last_success, self.last_success_tokens = latest[:2], latest[2]


_SUMMED = (
    "attempts", "failed_attempts", "calls", "prompt_tokens", "completion_tokens", "total_tokens",
    "total_tokens_high", "estimated_tokens", "discarded_tokens",
)  # fmt: skip


@dataclass(slots=True)
class Tier:
    """One strategy on one task: what it cost in all, and where the tokens went."""

    cost: Cell = field(default_factory=Cell)
    items: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    uses: dict[tuple[str, str], int] = field(default_factory=dict)
    """(role, ``used`` | ``discarded`` | ``failed``) -> tokens"""
    latencies: Latencies = field(default_factory=Latencies)
    sampled: int = 0
    """attempts that did not ask for temperature 0"""


@dataclass(slots=True)
class Totals:
    """What is charged to policies, by trial and by tier, and what stands apart."""

    cells: dict[CellKey, Cell] = field(default_factory=dict)
    tiers: dict[tuple[str, str], Tier] = field(default_factory=dict)
    """by (task, strategy)"""
    apart: dict[str, Cell] = field(default_factory=dict)
    """by role: judge and ping, never charged to a policy"""
    judges: Mapping[str, set[str]] = field(default_factory=dict)
    """task -> models that judged it, by the names asked for and answered with"""
    unanswered: int = 0
    """attempts that were opened and never closed: their process died with the request on the wire"""


def total(rows: Iterable[Attempt], prices: Mapping[str, Price] | None = None) -> Totals:
    """Totals of rows in memory."""
    sums, rest = Sums(), iter(rows)
    while batch := list(islice(rest, BATCH)):
        sums.add(columns_of(batch))
    return totals_of(sums, prices)


def totals_of(sums: Sums, prices: Mapping[str, Price] | None = None) -> Totals:
    """Totals from sufficient statistics. Without prices nothing has a cost in USD."""
    totals = Totals(judges=sums.judges)
    for (task, item, strategy, repeat, role, model), measures, slot in sums.records():
        totals.unanswered += measures["unanswered"]
        usd, latest = _usd(measures, (prices or {}).get(model)), sums.latest.get(slot)
        if role not in POLICY_ROLES:
            totals.apart.setdefault(role, Cell()).add(measures, usd, latest)
            continue
        totals.cells.setdefault((task, item, strategy, repeat), Cell()).add(measures, usd, latest)
        tier = totals.tiers.get((task, strategy))
        if tier is None:
            tier = totals.tiers[task, strategy] = Tier(latencies=sums.latencies[task, strategy])
        tier.cost.add(measures, usd, latest)
        tier.items.add(item)
        tier.models.add(model)
        tier.sampled += measures["sampled"]
        for use, tokens in _uses(measures):
            tier.uses[role, use] = tier.uses.get((role, use), 0) + tokens
    for cell in totals.cells.values():  # nothing is added to them any more
        cell._last_success = _NEVER
    return totals


def _usd(measures: Mapping[str, int], price: Price | None) -> float | None:
    if price is None:
        return None
    names = ("prompt_tokens", "cached_tokens", "completion_tokens", "total_tokens_high")
    return usd_for(price, *(measures[name] for name in names))


def _uses(measures: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    failed, unused = measures["failed_tokens"], measures["unused_tokens"]
    yield "used", measures["total_tokens"] - failed - unused
    yield "discarded", unused
    yield "failed", failed


def by_strategy(totals: Totals) -> list[dict[str, Any]]:
    """The article's first table plus ``tasks`` (items): one record a strategy, dearest first.

    ``p95_latency`` is the nearest-rank percentile, seconds, over attempts.
    """
    groups: dict[str, list[Tier]] = {}
    for (_, strategy), tier in totals.tiers.items():
        groups.setdefault(strategy, []).append(tier)
    return _dearest_first({"strategy": strategy} | _record(tiers) for strategy, tiers in groups.items())


def by_task_strategy(totals: Totals) -> list[dict[str, Any]]:
    """The article's second table with calls and both token parts."""
    return _dearest_first(
        {"task": task, "strategy": strategy} | _record([tier]) for (task, strategy), tier in totals.tiers.items()
    )


def _dearest_first(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda record: (-record["total_tokens"], record.get("task", ""), record["strategy"]))


def _record(tiers: Iterable[Tier]) -> dict[str, Any]:
    sums: dict[str, int] = dict.fromkeys(_SUMMED, 0)
    items, latencies = 0, Latencies()
    for tier in tiers:
        items += len(tier.items)
        latencies.merge(tier.latencies)
        for name in _SUMMED:
            sums[name] += getattr(tier.cost, name)
    names = ("calls", "attempts", "prompt_tokens", "completion_tokens", "total_tokens", "total_tokens_high")
    return {
        "tasks": items,
        **{name: sums[name] for name in names},
        "tokens": sums["total_tokens"],
        "p95_latency": latencies.percentile(0.95),
    }
