"""How numbers look in every table: signs, decimals, intervals, and what stands in for a missing number."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_elo.rating.results import Interval, Measure

__all__ = ["MISSING", "interval", "measure", "plain", "signed"]

MISSING = "-"


def plain(value: float | None, digits: int = 1) -> str:
    return MISSING if value is None else f"{value:,.{digits}f}"


def signed(value: float | None, digits: int = 1) -> str:
    if value is None:
        return MISSING
    text = f"{value:+,.{digits}f}"
    return text.replace("-", "+", 1) if float(text.replace(",", "")) == 0 else text


def interval(value: Interval | None, digits: int = 1) -> str:
    """``[low, high]``; an unbounded end is ``..``, the outside of an interval is marked ``not``."""
    if value is None:
        return ""
    if value.shape == "everything":
        return "unbounded"
    low = ".." if value.low is None else signed(value.low, digits)
    high = ".." if value.high is None else signed(value.high, digits)
    return f"not ({low}, {high})" if value.shape == "outside" else f"[{low}, {high}]"


def measure(value: Measure, digits: int = 1) -> str:
    if value.value is None:
        return MISSING
    return f"{signed(value.value, digits)} {interval(value.interval, digits)}".rstrip()
