"""What attempts cost by a dated price table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_elo.config import Price
from pytest_elo.ledger.totals import CellKey
from pytest_elo.records import POLICY_ROLES, Attempt

__all__ = ["prices_of", "usd_by_cell", "usd_of"]


def usd_of(row: Attempt, prices: Mapping[str, Price]) -> float | None:
    """What an attempt cost in USD, the high end where its tokens are an interval; ``None`` without a price."""
    price = prices.get(row.model)
    if price is None:
        return None
    cached = row.cached_tokens or 0
    unknown = max(0, row.total_tokens_high - row.total_tokens)
    cached_price = price.prompt if price.cached is None else price.cached
    prompt = (row.prompt_tokens - cached) * price.prompt + cached * cached_price
    return (prompt + (row.completion_tokens + unknown) * price.completion) / 1e6


def prices_of(header: Mapping[str, Any]) -> dict[str, Price]:
    """The price table that a run was given, by model; empty without one."""
    return {name: Price(**price) for name, price in (header.get("prices") or {}).get("models", {}).items()}


def usd_by_cell(rows: Iterable[Attempt], prices: Mapping[str, Price]) -> dict[CellKey, float]:
    """What each cell cost in USD, NaN where the price of one of its models is not known."""
    cost: dict[CellKey, float] = {}
    for row in rows:
        if row.role in POLICY_ROLES:
            key = (row.task_id, row.item_id, row.strategy, row.repeat)
            spent = usd_of(row, prices)
            cost[key] = cost.get(key, 0.0) + (math.nan if spent is None else spent)
    return cost
