r"""Refit the same design with other outcomes, many rounds at once, each to a vanishing gradient.

A bootstrap round changes the tables a little, so the strengths move a little: chord Newton keeps the
information of the full data, only recomputes the gradient, and learns from the step before (Anderson 1965,
depth one): 10 gradients to 1e-10 where the plain chord takes 12 (100 policies, 100,000 votes).

The gradient is nearly all of the cost. Pairs are laid out by the distance between their policies on a ring:
in one such stripe every policy is first once and second once, so that the work on it is elementwise on
whole blocks of policies by rounds, without gathering. With s = exp(theta), E[lost by first] = N s_j / (s_i + s_j).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_elo.rating.groups import fit_groups

__all__ = ["GRADIENT", "Design", "refit"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

GRADIENT = 1e-10
"""Largest gradient of a round that is done, relative to the largest number of comparisons of one policy in the
full data."""

_MAX_STEPS = 60
_COARSE_STEPS = 5
"""Steps in single precision, whose gradients cost half: it tells gradients down to 1e-7 of the comparisons."""
_LONGEST_STEP = 5.0
"""Logits; a round that moves further has left the neighbourhood of the full data and is fitted on its own."""


@dataclass(frozen=True, slots=True)
class Stripe:
    """Pairs with distinct first and distinct second policies, standing in ``rows``. Policies are numbered
    over two turns of the ring, so that a whole stripe is two slices."""

    rows: slice
    first: Integers | slice
    second: Integers | slice


@dataclass(frozen=True, slots=True)
class Design:
    """The P pairs compared and the fit of the full data. A stripe that is mostly compared is filled up with
    pairs that never met."""

    n: int
    first: Integers
    """(P,)"""
    second: Integers
    theta: Floats
    """(n,)"""
    inverse: Floats
    """(n, n) generalised inverse of the information"""
    metric: Floats
    """(n,) diagonal of the information: how steps are compared"""
    slack: float
    """largest gradient of a round that is done"""
    stripes: tuple[Stripe, ...]

    @classmethod
    def of(cls, counts: Floats, theta: Floats, inverse: Floats) -> Design:
        """The design of one (n, n) table of comparisons, of the size of those that will be fitted."""
        n = len(counts)
        first, second, stripes, start = [], [], [], 0
        for distance in range(1, n // 2 + 1):
            i = np.arange(n // 2 if 2 * distance == n else n)
            met = counts[i, (i + distance) % n] > 0.0
            whole = 2 * int(met.sum()) > len(i)
            i = i if whole else i[met]
            if not len(i):
                continue
            first.append(i)
            second.append((i + distance) % n)
            rows = slice(start, start + len(i))
            start += len(i)
            if whole:
                stripes.append(Stripe(rows, slice(0, len(i)), slice(distance, distance + len(i))))
            else:
                stripes.append(Stripe(rows, first[-1], second[-1]))
        none = np.zeros(0, dtype=np.int64)
        left, right = np.concatenate([none, *first]), np.concatenate([none, *second])
        chance = 1.0 / (1.0 + np.exp(np.clip(theta[None, :] - theta[:, None], -300.0, 300.0)))
        metric = (counts * chance * (1.0 - chance)).sum(axis=1)
        slack = GRADIENT * float(counts.sum(axis=1).max(initial=0.0))
        return cls(n, left, right, theta, inverse, metric, slack, tuple(stripes))


def refit(design: Design, won: NDArray[np.floating], lost: NDArray[np.floating]) -> Floats:
    """Strengths (n, B) of half-tie Bradley-Terry for B tables of pairs, (P, B) each.

    ``won`` and ``lost`` are scores with ties as halves, of the first of each pair, in any precision that
    holds them exactly. A round that fails Ford's
    condition, or whose chord does not converge, is fitted on its own, with the penalty where no
    maximum-likelihood fit exists; policies without a comparison in a round come back as NaN.
    """
    result = np.full((design.n, won.shape[1]), np.nan)
    work = _strongly_connected(design, won > 0.0, lost > 0.0)
    alone = ~work
    counts, surplus = np.add(won, lost, dtype=np.float64), _surplus(design, lost)
    coarse = counts.astype(np.float32)
    theta = np.repeat(design.theta[:, None], won.shape[1], axis=1)
    step = moved = np.zeros_like(theta)
    for number in range(_COARSE_STEPS + _MAX_STEPS):
        gradient = surplus + _expected(design, coarse if number < _COARSE_STEPS else counts, theta)
        if number >= _COARSE_STEPS:
            settled = work & (np.abs(gradient).max(axis=0) <= design.slack)
            result[:, settled] = theta[:, settled]
            work &= ~settled
            if not work.any():
                break
        before, step = step, np.einsum("ij,jb->ib", design.inverse, gradient)
        step -= step.mean(axis=0)
        moved = step if number == 0 else _anderson(design, moved, before, step)
        theta = theta + moved
        astray = work & ~(np.abs(moved).max(axis=0) <= _LONGEST_STEP)
        alone |= astray
        work &= ~astray
        theta[:, ~work] = 0.0
    alone |= work
    if alone.any():
        result[:, alone] = _refit_alone(design, won[:, alone], lost[:, alone])
    return result


def _surplus(design: Design, lost: NDArray[np.floating]) -> Floats:
    """(n, B) score less the comparisons in which the policy stands first."""
    sums = np.zeros((2 * design.n, lost.shape[1]))
    for stripe in design.stripes:
        part = lost[stripe.rows]
        sums[stripe.first] -= part
        sums[stripe.second] += part
    return _fold(sums)


def _expected(design: Design, counts: NDArray[np.floating], theta: Floats) -> Floats:
    """(n, B) comparisons in which the policy stands first less its expected score, in the precision of counts."""
    strength = np.exp(theta).astype(counts.dtype, copy=False)
    strength = np.concatenate([strength, strength])
    sums = np.zeros_like(strength)
    block = np.empty_like(strength[: design.n])
    for stripe in design.stripes:
        other = strength[stripe.second]
        expected = block[: stripe.rows.stop - stripe.rows.start]
        np.add(strength[stripe.first], other, out=expected)
        np.divide(other, expected, out=expected)
        np.multiply(expected, counts[stripe.rows], out=expected)
        sums[stripe.first] += expected
        sums[stripe.second] -= expected
    return _fold(sums)


def _anderson(design: Design, moved: Floats, before: Floats, step: Floats) -> Floats:
    """What to add: of all points on the line through the last two, the one with the shortest chord step."""
    change = step - before
    weighted = change * design.metric[:, None]
    curvature = (weighted * change).sum(axis=0)
    share = (weighted * step).sum(axis=0) / np.where(curvature > 0.0, curvature, 1.0)
    return np.asarray(step - share * (moved + change))


def _fold(sums: NDArray[np.floating]) -> Floats:
    """Both turns of the ring into one."""
    n = len(sums) // 2
    return np.asarray(np.add(sums[:n], sums[n:], dtype=np.float64))


def _strongly_connected(design: Design, won: Booleans, lost: Booleans) -> Booleans:
    """(B,) whether every policy is reached from the first one along wins, and along losses."""
    down, up = np.packbits(won, axis=1), np.packbits(lost, axis=1)
    everywhere = _reached(design, down, up) & _reached(design, up, down)
    return np.unpackbits(everywhere, count=won.shape[1]).astype(np.bool_)


def _reached(design: Design, down: Bytes, up: Bytes) -> Bytes:
    """(B / 8,) whether all are reached from the first policy; rounds are packed eight to a byte."""
    reached = np.zeros((design.n, down.shape[1]), dtype=np.uint8)
    reached[:1] = 255
    before = np.zeros_like(reached)
    while not np.array_equal(before, reached):
        before = reached.copy()
        for stripe in design.stripes:
            i, j = design.first[stripe.rows], design.second[stripe.rows]
            reached[j] |= down[stripe.rows] & reached[i]
            reached[i] |= up[stripe.rows] & reached[j]
            if reached.min() == 255:
                return np.asarray(reached[0])
    return np.asarray(np.bitwise_and.reduce(reached, axis=0))


def _refit_alone(design: Design, won: NDArray[np.floating], lost: NDArray[np.floating]) -> Floats:
    tables = np.zeros((won.shape[1], design.n, design.n))
    tables[:, design.first, design.second] = won.T
    tables[:, design.second, design.first] = lost.T
    groups = fit_groups(tables, np.zeros_like(tables), "half")
    return np.where(groups.present, groups.fit.theta, np.nan).T
