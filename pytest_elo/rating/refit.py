"""Refit the same design with other outcomes, many rounds at once.

A bootstrap round changes the tables a little, so the strengths move a little: chord Newton keeps the
information of the full data and only recomputes the gradient. Tables are laid out pair by pair with the
rounds side by side, (P, B), so that everything is elementwise or adds whole rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating.groups import fit_groups

__all__ = ["Design", "refit"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_MAX_STEPS = 40
_TOLERANCE = 1e-6
"""Longest step in logits after which a round is done (2e-4 Elo; what is left after it is smaller still)."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Pairs ordered by one of their policies: run k of them belongs to ``policy[k]``."""

    order: Integers | slice
    start: Integers
    policy: Integers

    @classmethod
    def of(cls, side: Integers) -> Runs:
        ascending = bool((np.diff(side) >= 0).all())
        order = slice(None) if ascending else np.argsort(side, kind="stable")
        ordered = side[order]
        start = np.flatnonzero(np.r_[True, np.diff(ordered) != 0])
        return cls(order, start, ordered[start])


@dataclass(frozen=True, slots=True)
class Design:
    """The P pairs compared and the fit of the full data."""

    n: int
    first: Integers
    """(P,) ascending"""
    second: Integers
    theta: Floats
    """(n,)"""
    inverse: Floats
    """(n, n) generalised inverse of the information"""
    first_runs: Runs
    second_runs: Runs

    @classmethod
    def of(cls, counts: Floats, theta: Floats, inverse: Floats) -> Design:
        """The design of one (n, n) table of comparisons."""
        first, second = np.nonzero(np.triu(counts, 1))
        return cls(len(counts), first, second, theta, inverse, Runs.of(first), Runs.of(second))


def refit(design: Design, won: Floats, lost: Floats) -> Floats:
    """Strengths (n, B) of half-tie Bradley-Terry for B tables of pairs, (P, B) each.

    ``won`` and ``lost`` are scores with ties as halves. A round that fails Ford's condition, or whose chord
    does not converge, is fitted on its own, with the penalty where no maximum-likelihood fit exists;
    policies without a comparison in a round come back as NaN.
    """
    total = won + lost
    theta = np.repeat(design.theta[:, None], won.shape[1], axis=1)
    live = np.flatnonzero(_strongly_connected(design, won > 0.0, lost > 0.0))
    done = np.zeros(won.shape[1], dtype=np.bool_)
    score, counts, strengths = won[:, live], total[:, live], theta[:, live]
    for _ in range(_MAX_STEPS):
        if not len(live):
            break
        expected = strengths[design.second] - strengths[design.first]
        with np.errstate(over="ignore"):
            np.exp(expected, out=expected)
        expected += 1.0
        np.divide(counts, expected, out=expected)
        np.subtract(score, expected, out=expected)
        step = np.einsum("ij,jb->ib", design.inverse, _gather(design, expected))
        strengths += step
        moved = np.abs(step).max(axis=0)
        settled = moved <= _TOLERANCE
        if settled.any():
            theta[:, live[settled]] = strengths[:, settled]
            done[live[settled]] = True
            rest = ~settled & (moved < 5.0)
            live, score, counts, strengths = live[rest], score[:, rest], counts[:, rest], strengths[:, rest]
    rest = np.flatnonzero(~done)
    if len(rest):
        theta[:, rest] = _refit_alone(design, won[:, rest], lost[:, rest])
    return theta


def _strongly_connected(design: Design, won: Booleans, lost: Booleans) -> Booleans:
    """(B,) whether every policy is reached from the first one along wins, and along losses."""
    connected = np.ones(won.shape[1], dtype=np.bool_)
    for forward, backward in ((won, lost), (lost, won)):
        reached = np.zeros((design.n, won.shape[1]), dtype=np.bool_)
        reached[:1] = True
        size = -1
        while (count := int(reached.sum())) != size:
            size = count
            _gather_any(design.second_runs, forward & reached[design.first], reached)
            _gather_any(design.first_runs, backward & reached[design.second], reached)
        connected &= reached.all(axis=0)
    return connected


def _gather_any(runs: Runs, pairs: Booleans, reached: Booleans) -> None:
    reached[runs.policy] |= np.logical_or.reduceat(pairs[runs.order], runs.start, axis=0)


def _gather(design: Design, residual: Floats) -> Floats:
    """Sum pair residuals (P, B) into policies (n, B): plus for the first of a pair, minus for the second."""
    gathered = np.zeros((design.n, residual.shape[1]))
    for runs, sign in ((design.first_runs, 1.0), (design.second_runs, -1.0)):
        gathered[runs.policy] += sign * np.add.reduceat(residual[runs.order], runs.start, axis=0)
    return gathered


def _refit_alone(design: Design, won: Floats, lost: Floats) -> Floats:
    tables = np.zeros((won.shape[1], design.n, design.n))
    tables[:, design.first, design.second] = won.T
    tables[:, design.second, design.first] = lost.T
    groups = fit_groups(tables, np.zeros_like(tables), "half")
    return np.where(groups.present, groups.fit.theta, np.nan).T
