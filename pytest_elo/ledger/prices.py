"""What attempts cost by a dated price table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_elo._forms import each, known, maybe, number
from pytest_elo.config import Price
from pytest_elo.errors import DataError
from pytest_elo.records import Attempt

__all__ = ["prices_of", "usd_for", "usd_of"]


def usd_of(row: Attempt, prices: Mapping[str, Price]) -> float | None:
    """What an attempt cost in USD, the high end where its tokens are an interval; ``None`` without a price."""
    price = prices.get(row.model)
    if price is None:
        return None
    high = max(row.total_tokens, row.total_tokens_high)
    return usd_for(price, row.prompt_tokens, row.cached_tokens or 0, row.completion_tokens, high)


def usd_for(price: Price, prompt: int, cached: int, completion: int, high: int) -> float:
    """USD for sums of tokens; ``high`` is the high end of the total, ``cached`` a part of ``prompt``.

    What the total holds beyond its two parts, and what an interval leaves open, costs what a completion does.
    """
    cached_price = price.prompt if price.cached is None else price.cached
    unknown = max(0, high - prompt - completion)
    return ((prompt - cached) * price.prompt + cached * cached_price + (completion + unknown) * price.completion) / 1e6


def prices_of(header: Mapping[str, Any]) -> dict[str, Price]:
    """The price table that a run was given, by model; empty without one."""
    table = (header.get("prices") or {}).get("models", {})
    if not each(_is_price)(table):
        raise DataError("run.json: 'prices' is no table of prices; correct or remove it")
    return {name: Price(**price) for name, price in table.items()}


def _usd(value: Any) -> bool:
    return number(value) and value >= 0


_FIELDS = {"prompt": _usd, "completion": _usd, "cached": maybe(_usd)}


def _is_price(value: Any) -> bool:
    return known(**_FIELDS)(value) and {"prompt", "completion"} <= value.keys() <= _FIELDS.keys()
