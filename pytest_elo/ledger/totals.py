"""Token totals of a ledger in one pass: memory grows with cells (task, item, strategy, repeat), not rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_elo.records import POLICY_ROLES, Attempt

__all__ = ["Cell", "CellKey", "Totals", "by_strategy", "by_task_strategy", "total"]

CellKey = tuple[str, str, str, int]
"""Task, item, strategy, repeat."""


@dataclass(slots=True)
class Cell:
    """What one item cost under one strategy in one repeat."""

    attempts: int = 0
    failed_attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    total_tokens_high: int = 0
    estimated_tokens: int = 0
    discarded_tokens: int = 0
    last_success_tokens: int = 0
    _calls: set[str] = field(default_factory=set)
    _last_success: str = ""

    @property
    def calls(self) -> int:
        return len(self._calls)

    def add(self, row: Attempt) -> None:
        self.attempts += 1
        self._calls.add(row.call_id)
        self.prompt_tokens += row.prompt_tokens
        self.completion_tokens += row.completion_tokens
        self.total_tokens += row.total_tokens
        self.total_tokens_high += max(row.total_tokens, row.total_tokens_high)
        if row.estimated is not None:
            self.estimated_tokens += row.total_tokens
        if row.kept is False:
            self.discarded_tokens += row.total_tokens
        if row.status != "ok":
            self.failed_attempts += 1
        elif row.ts >= self._last_success:
            self._last_success, self.last_success_tokens = row.ts, row.total_tokens


@dataclass(slots=True)
class Totals:
    """Cells of what is charged to policies, and what stands apart."""

    cells: dict[CellKey, Cell] = field(default_factory=dict)
    apart: dict[str, Cell] = field(default_factory=dict)
    """by role: judge and ping, never charged to a policy"""
    unanswered: int = 0
    """attempts that were opened and never closed: their process died with the request on the wire"""

    def add(self, row: Attempt) -> None:
        if row.role in POLICY_ROLES:
            key = (row.task_id, row.item_id, row.strategy, row.repeat)
            self.cells.setdefault(key, Cell()).add(row)
        else:
            self.apart.setdefault(row.role, Cell()).add(row)
        self.unanswered += row.status == "open"


def total(rows: Iterable[Attempt]) -> Totals:
    totals = Totals()
    for row in rows:
        totals.add(row)
    return totals


def by_strategy(rows: Iterable[Attempt]) -> list[dict[str, Any]]:
    """The article's first table plus ``tasks`` (items): one record a strategy, dearest first.

    ``p95_latency`` is the nearest-rank percentile, seconds, over attempts.
    """
    return _table(rows, lambda row: {"strategy": row.strategy})


def by_task_strategy(rows: Iterable[Attempt]) -> list[dict[str, Any]]:
    """The article's second table with calls and both token parts."""
    return _table(rows, lambda row: {"task": row.task_id, "strategy": row.strategy})


def _table(rows: Iterable[Attempt], name: Any) -> list[dict[str, Any]]:
    groups: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        if row.role not in POLICY_ROLES:
            continue
        names: Mapping[str, str] = name(row)
        group = groups.setdefault(
            tuple(names.values()),
            {**names, "items": set(), "calls": set(), "latencies": [], "cell": Cell()},
        )
        group["items"].add((row.task_id, row.item_id))
        group["latencies"].append(row.latency_s)
        group["cell"].add(row)
    records = [_record(group) for group in groups.values()]
    records.sort(key=lambda record: (-record["total_tokens"], record.get("task", ""), record["strategy"]))
    return records


def _record(group: Mapping[str, Any]) -> dict[str, Any]:
    cell: Cell = group["cell"]
    latencies = sorted(group["latencies"])
    names = {key: group[key] for key in ("task", "strategy") if key in group}
    return names | {
        "tasks": len(group["items"]),
        "calls": cell.calls,
        "attempts": cell.attempts,
        "prompt_tokens": cell.prompt_tokens,
        "completion_tokens": cell.completion_tokens,
        "total_tokens": cell.total_tokens,
        "total_tokens_high": cell.total_tokens_high,
        "tokens": cell.total_tokens,
        "p95_latency": latencies[math.ceil(0.95 * len(latencies)) - 1],
    }
