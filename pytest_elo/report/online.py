"""The online Elo view: what the article's ``eloK`` gives, with what it hides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_elo.report.numbers import plain
from pytest_elo.report.typeset import typeset

if TYPE_CHECKING:
    from pytest_elo.rating.inputs import Comparisons

__all__ = ["OnlineRow", "OnlineView", "online_lines", "online_view"]


@dataclass(frozen=True, slots=True)
class OnlineRow:
    """One strategy in one task."""

    task: str
    strategy: str
    votes: int
    elo: float
    """mean over orders, everyone starting from 1000"""
    spread: float
    """standard deviation over orders"""
    leads: float
    """share of orders in which it ends first"""


@dataclass(frozen=True, slots=True)
class OnlineView:
    k: float
    orders: int
    rows: tuple[OnlineRow, ...]


def online_view(comparisons: Comparisons, settings: Mapping[str, Any]) -> OnlineView | None:
    """Online Elo of each task from one vote an item and pair, if ``settings`` give a K; no rating uses it."""
    k = settings.get("online_k")
    if k is None:
        return None
    import numpy as np

    from pytest_elo.rating.online import LEAST_ORDERS, online_elo

    task, item, a, b = (np.asarray(column) for column in (
        comparisons.task, comparisons.item, comparisons.a, comparisons.b
    ))  # fmt: skip
    votes, position = np.unique(np.stack([task, item, a, b]), axis=1, return_inverse=True)
    weight = np.asarray(comparisons.weight, dtype=np.float64)
    won = weight * np.asarray(comparisons.share, dtype=np.float64)
    share = np.bincount(position, won) / np.bincount(position, weight)
    rows: list[OnlineRow] = []
    for number, name in enumerate(comparisons.tasks):
        inside = votes[0] == number
        first, second = votes[2, inside], votes[3, inside]
        present = sorted({*first.tolist(), *second.tolist()})
        if not present:
            continue
        code = np.zeros(len(comparisons.policies), dtype=np.int64)
        code[present] = np.arange(len(present))
        found = online_elo(
            code[first], code[second], share[inside], len(present), k=float(k), seed=settings.get("seed", 0)
        )
        rows += [
            OnlineRow(
                name, comparisons.policies[policy], int((first == policy).sum() + (second == policy).sum()),
                float(found.mean[place]), float(found.spread[place]), float(found.leader_share[place]),
            )
            for place, policy in enumerate(present)
        ]  # fmt: skip
    return OnlineView(float(k), LEAST_ORDERS, tuple(rows))


def online_lines(view: OnlineView) -> list[str]:
    """The block under the tables."""
    rows = [
        [row.task, row.strategy, str(row.votes), plain(row.elo), plain(row.spread), f"{row.leads:.0%}"]
        for row in view.rows
    ]
    heads = ["task", "strategy", "votes", "online\nElo", "SD over\norders", "leads in"]
    align = ["left", "left", "right", "right", "right", "right"]
    table = typeset(rows, heads, align)
    return [
        f"Online Elo (K = {view.k:g}), mean over {view.orders} random orders of the same votes:",
        *table.splitlines(),
        "It depends on the order of the votes, by the SD shown, and forgets the early ones. Bradley-Terry, the default "
        "and what every other number here is, takes all votes at once and has no order.",
    ]
