"""Online Elo, for those who ask for it, with what it hides: it depends on the order of the votes.

Each vote moves both policies by K times the surprise (Elo 1978). Another order of the same votes gives other
ratings: on 8,931 human votes with K = 32 one policy's rating has a standard deviation of 35 Elo over orders,
and twelve policies lead in some order. Bradley-Terry uses all votes at once and has no order, which is why
it is the default here. This view averages over many orders and shows the spread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_elo.errors import DataError
from pytest_elo.rating.scale import ANCHOR_ELO, ELO_PER_LOGIT

__all__ = ["LEAST_ORDERS", "OnlineElo", "online_elo"]

Floats = NDArray[np.float64]

LEAST_ORDERS = 100


@dataclass(frozen=True, slots=True)
class OnlineElo:
    """Ratings over all orders drawn."""

    mean: Floats
    """(n,) Elo, starting from 1000"""
    spread: Floats
    """(n,) standard deviation over orders"""
    leader_share: Floats
    """(n,) share of orders in which the policy leads"""
    orders: int
    k: float


def online_elo(
    a: ArrayLike, b: ArrayLike, share: ArrayLike, n: int, *, k: float = 32.0, orders: int = 100, seed: int = 0
) -> OnlineElo:
    """Rate (V,) votes in ``orders`` random orders; ``share`` is 1, 0.5 or 0 for a.

    The votes are sorted first, so that their order on entry does not matter. Raises ``DataError`` for fewer
    than 100 orders.
    """
    if orders < LEAST_ORDERS:
        raise DataError(f"orders: {orders} is fewer than {LEAST_ORDERS}; online Elo from few orders is luck")
    columns = (
        np.asarray(a, dtype=np.int64),
        np.asarray(b, dtype=np.int64),
        np.asarray(share, dtype=np.float64),
    )
    ascending = np.lexsort(columns[::-1])
    first, second, score = (column[ascending] for column in columns)
    generator = np.random.default_rng([seed, 2])
    votes = len(first)
    order = np.argsort(generator.random((orders, votes)), axis=1, kind="stable").T
    rating = np.full((orders, n), ANCHOR_ELO)
    lane = np.arange(orders)
    for vote in order:
        i, j = first[vote], second[vote]
        gap = np.clip((rating[lane, i] - rating[lane, j]) / ELO_PER_LOGIT, -300.0, 300.0)
        move = k * (score[vote] - 1.0 / (1.0 + np.exp(-gap)))
        rating[lane, i] += move
        rating[lane, j] -= move
    leads = np.bincount(rating.argmax(axis=1), minlength=n) / orders
    return OnlineElo(rating.mean(axis=0), rating.std(axis=0, ddof=1), leads, orders, k)
