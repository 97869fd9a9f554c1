"""One rating model a group (a task, or all tasks pooled): existence first, then the fit, then influence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating.cells import Cells
from pytest_elo.rating.connectivity import has_tie_scale, reachability
from pytest_elo.rating.fit import Fit, fit_tables
from pytest_elo.rating.likelihood import expected_score, tie_probability

__all__ = ["Groups", "Ties", "counted_ties", "fit_groups", "influence"]

Ties = Literal["half", "davidson", "drop"]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Groups:
    """G fitted groups of n policies."""

    fit: Fit
    together: Booleans
    """(G, n, n): the data say something about the difference (joined by comparisons that count)"""
    mutual: Booleans
    """(G, n, n): the difference is finite without a penalty"""
    reaches: Booleans
    """(G, n, n): i has beaten j, directly or through others"""
    present: Booleans
    """(G, n): the policy has a comparison that counts"""
    penalised: Booleans
    """(G,): no maximum-likelihood rating exists, Firth's penalty was used"""

    def rated(self, anchor: int) -> Booleans:
        """(G, n): the difference to the anchor has a value."""
        found = self.together[:, :, anchor] & self.present & self.present[:, anchor, None]
        return found & self.fit.converged[:, None]


def fit_groups(wins: Floats, ties: Floats, mode: Ties) -> Groups:
    """Fit (G, n, n) tables of wins and symmetric ties under a tie mode."""
    ties = counted_ties(wins, ties, mode)
    beats, tied = wins > 0.0, ties > 0.0
    n = wins.shape[-1]
    davidson: Booleans = np.any(tied, axis=(-1, -2)) & (mode == "davidson")
    edges = beats | tied
    reaches = reachability(edges)
    mutual = reaches & np.swapaxes(reaches, -1, -2)
    together = reachability(edges | np.swapaxes(edges, -1, -2))
    if davidson.any():
        scaled = has_tie_scale(beats, tied) | ~davidson
        by_wins = reachability(beats)
        both = by_wins & np.swapaxes(by_wins, -1, -2)
        mutual = np.where(scaled[:, None, None], mutual, both)
        reaches = np.where(scaled[:, None, None], reaches, by_wins)
    penalised: Booleans = np.any(together & ~mutual, axis=(-1, -2))
    fit = fit_tables(wins, ties, together, davidson=davidson, penalised=penalised)
    present: Booleans = np.any(edges | np.swapaxes(edges, -1, -2), axis=-1)
    diagonal = np.eye(n, dtype=np.bool_)
    return Groups(
        fit=fit,
        together=together & (present[:, :, None] | diagonal),
        mutual=mutual,
        reaches=reaches,
        present=present,
        penalised=penalised,
    )


def counted_ties(wins: Floats, ties: Floats, mode: Ties) -> Floats:
    """The ties that a mode counts: none under ``drop``, and under ``davidson`` none in a group without a
    decisive comparison, where nothing sets the scale."""
    if mode == "half":
        return ties
    if mode == "drop":
        return np.zeros_like(ties)
    decisive = np.any(wins > 0.0, axis=(-1, -2))
    return np.where(decisive[:, None, None], ties, 0.0)


def influence(
    cells: Cells, groups: Groups, cell_group: Integers, cluster: Integers, cluster_group: Integers, mode: Ties
) -> Floats:
    """What each cluster contributes to the error of each strength, in logits: (K, n).

    A cluster's score residuals times the inverse information; summed over clusters it vanishes at a
    maximum-likelihood fit. ``cell_group`` and ``cluster`` are (C,), ``cluster_group`` (K,); a cluster lies in
    one group.
    """
    fit = groups.fit
    n = fit.theta.shape[1]
    ties = np.zeros_like(cells.ties) if mode == "drop" else cells.ties
    counts = cells.wins + cells.losses + ties
    d = fit.theta[cell_group, cells.a] - fit.theta[cell_group, cells.b]
    nu = fit.nu[cell_group]
    residual = cells.wins + 0.5 * ties - counts * expected_score(d, nu)
    size = len(cluster_group) * n
    forward = np.bincount(cluster * n + cells.a, residual, size)
    backward = np.bincount(cluster * n + cells.b, residual, size)
    score = (forward - backward).astype(np.float64).reshape(-1, n)
    if nu.any():
        tie_residual = np.where(nu > 0.0, ties - counts * tie_probability(d, nu), 0.0)
        per_cluster = np.bincount(cluster, tie_residual, len(cluster_group))
        score = score - fit.tie_slope[cluster_group] * per_cluster[:, None]
    spread = np.empty_like(score)
    for group, inverse in enumerate(fit.inverse):
        members = cluster_group == group
        spread[members] = np.einsum("kj,ji->ki", score[members], inverse)
    return spread
