"""Ratings of one field of policies from its tables of wins and ties.

The entry for plain vote data: ``count_votes`` makes the tables, ``bradley_terry`` the ratings,
``bootstrap_ratings`` their resampled copies. Votes are taken as independent here; where items or judges
repeat, ``evaluate`` gives the intervals that know it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_elo.errors import DataError
from pytest_elo.rating.connectivity import is_strongly_connected
from pytest_elo.rating.fit import TOLERANCE
from pytest_elo.rating.groups import Ties, counted_ties, fit_groups
from pytest_elo.rating.newton import newton_cg
from pytest_elo.rating.poisson import PoissonCells
from pytest_elo.rating.refit import Design, refit

__all__ = ["Ratings", "bootstrap_ratings", "bradley_terry"]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_SMALL = 40
"""Policies up to which inverting the information is cheaper than conjugate gradients."""

_ROUNDS_AT_ONCE = 1_000_000
"""Pairs times rounds drawn together: eight megabytes a table."""


@dataclass(frozen=True, slots=True)
class Ratings:
    theta: Floats
    """(n,) logits; each group of connected policies has mean zero; NaN for a policy without comparisons"""
    nu: float
    """Davidson's tie parameter, 0 in the other modes"""
    penalised: bool
    """no maximum-likelihood rating exists: Firth's penalty keeps these finite"""
    together: Booleans
    """(n, n): the difference of the two is known"""
    converged: bool


def bradley_terry(wins: Floats, ties: Floats, mode: Ties = "half") -> Ratings:
    """Rate from (n, n) wins of i over j and (n, n) symmetric ties.

    Raises ``DataError`` for tables that are not square, not finite or negative.
    """
    wins, ties = _table("wins", wins), _table("ties", ties)
    if wins.shape != ties.shape or not np.array_equal(ties, ties.T):
        raise DataError("ties: expected a symmetric table of the shape of wins")
    n = len(wins)
    counted = counted_ties(wins[None], ties[None], mode)[0]
    edges = (wins > 0.0) | (counted > 0.0)
    if n > _SMALL and not (mode == "davidson" and counted.any()) and is_strongly_connected(edges):
        counts = wins + wins.T
        counts += counted
        theta, converged = newton_cg(counts, wins.sum(axis=1) + 0.5 * counted.sum(axis=1), TOLERANCE)
        if converged:
            return Ratings(theta, 0.0, False, np.ones((n, n), dtype=np.bool_), True)
    groups = fit_groups(wins[None], ties[None], mode)
    return Ratings(
        theta=np.where(groups.present[0], groups.fit.theta[0], np.nan),
        nu=float(groups.fit.nu[0]),
        penalised=bool(groups.penalised[0]),
        together=groups.together[0],
        converged=bool(groups.fit.converged[0]),
    )


def bootstrap_ratings(wins: Floats, ties: Floats, *, rounds: int, seed: int = 0) -> Floats:
    """(rounds, n) half-tie ratings of resampled votes, in logits of mean zero.

    Votes are resampled as independent Poisson counts of each cell, so a round costs the same whatever the
    number of votes. Rounds that fail Ford's condition are fitted with the penalty, never dropped: dropping
    them would leave out the hard rounds.
    """
    wins, ties = _table("wins", wins), _table("ties", ties)
    groups = fit_groups(wins[None], ties[None], "half")
    design = Design.of(wins + wins.T + ties, groups.fit.theta[0], groups.fit.inverse[0])
    first, second = design.first, design.second
    means = np.stack([wins[first, second], wins[second, first], ties[first, second]])
    filled = means > 0.0
    cells = PoissonCells(means[filled])
    generator = np.random.default_rng([seed, 3])
    step = min(rounds, max(1, _ROUNDS_AT_ONCE // max(len(first), 1)))
    # Halves of small counts are exact in single precision, which halves the memory to go through.
    precision = np.float32 if means.max(initial=0.0) < 2.0**20 else np.float64
    scores = np.zeros((3, len(first), step), dtype=precision)
    parts = []
    for start in range(0, rounds, step):
        won, lost, halves = drawn = scores[..., : min(step, rounds - start)]
        drawn[filled] = cells.draw(generator, drawn.shape[-1])
        halves *= 0.5
        won += halves
        lost += halves
        parts.append(refit(design, won, lost))
        drawn[:] = 0.0
    return np.ascontiguousarray(np.concatenate(parts, axis=1).T)


def _table(name: str, values: Floats) -> Floats:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1]:
        raise DataError(f"{name}: expected a square table, got {table.shape}")
    if not (np.isfinite(table).all() and (table >= 0.0).all() and not np.diag(table).any()):
        raise DataError(f"{name}: expected finite counts of 0 or more, and none of a policy against itself")
    return table
