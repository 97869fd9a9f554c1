"""What a sample can see: half-widths, and items needed for a given effect."""

from __future__ import annotations

import math

from pytest_elo.rating.quantiles import normal_quantile
from pytest_elo.rating.results import Power

__all__ = ["ITEMS_LIMIT", "items_needed", "items_needed_alike", "power_of", "power_of_alike"]

ITEMS_LIMIT = 10_000_000
"""Above this many items the answer is "no number of items"."""


def items_needed(
    n_items: int, se: float, effect: float, *, level: float, sides: int = 2, power: float = 0.8
) -> int | None:
    """Items with which a test at ``level`` finds ``effect`` with ``power``; ``se`` was seen on ``n_items``.

    The variance of every estimate here falls as 1/items: n = n0 ((z_a + z_b) se / effect)^2.
    """
    if effect == 0.0 or se == 0.0:
        return None
    reach = normal_quantile(1.0 - (1.0 - level) / sides) + normal_quantile(power)
    needed = n_items * (reach * se / effect) ** 2
    return math.ceil(needed) if needed <= ITEMS_LIMIT else None


def items_needed_alike(n_items: int, half_width: float, effect: float) -> int | None:
    """Items that would tell ``effect`` from 0 if all of them go on saying the same: what they may have missed, which
    is ``half_width`` wide with ``n_items``, falls nearly as 1/items."""
    if effect == 0.0:
        return None
    needed = n_items * half_width / abs(effect)
    return math.ceil(needed) if needed <= ITEMS_LIMIT else None


def power_of_alike(n_items: int, half_width: float) -> Power:
    """The power line of a ΔElo of which every item says the same."""
    return Power(n_items, half_width, None, f"{n_items} items that all say the same resolve ±{half_width:.0f} Elo")


def power_of(n_items: int, delta: float, se: float, quantile: float, *, level: float) -> Power:
    """The power line of one ΔElo."""
    resolves = quantile * se
    needed = items_needed(n_items, se, delta, level=level)
    words = f"{n_items} items resolve ±{resolves:.0f} Elo; this effect ({delta:+.0f})"
    words += f" needs {needed}" if needed is not None else " is beyond any number of items"
    return Power(n_items, resolves, needed, words)
