"""When do strengths exist? Ford's condition on the graph of wins.

Ford (1957): finite maximum-likelihood strengths exist, unique up to a shift, if and only if for every split
of the policies into two groups somebody of each group has beaten somebody of the other, that is, if the
graph of wins (a tie is an edge both ways) is strongly connected. Without any path between two policies
their difference is *not identified*; with paths in one direction only it is *infinite*.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["components", "has_tie_scale", "is_strongly_connected", "reachability"]

Booleans = NDArray[np.bool_]


def is_strongly_connected(beats: Booleans) -> bool:
    """Whether every policy reaches every other along ``beats[i, j]`` (i won something against j)."""
    return bool(_reached(beats).all() and _reached(beats.T).all())


def _reached(edges: Booleans) -> Booleans:
    seen = np.zeros(len(edges), dtype=np.bool_)
    seen[:1] = True
    frontier = seen.copy()
    while frontier.any():
        frontier = edges[frontier].any(axis=0) & ~seen
        seen |= frontier
    return seen


def reachability(beats: Booleans) -> Booleans:
    """Transitive and reflexive closure of a stack ``(..., n, n)`` of graphs (Warshall)."""
    n = beats.shape[-1]
    closed = beats | np.eye(n, dtype=np.bool_)
    for k in range(n):
        closed |= closed[..., :, k, None] & closed[..., None, k, :]
    return closed


def components(beats: Booleans) -> tuple[tuple[int, ...], ...]:
    """Groups of policies joined by comparisons in any direction, each sorted, in order of first member."""
    closed = reachability(beats | beats.T)
    firsts = closed.argmax(axis=1)
    # Not np.unique: it imports numpy.ma, which costs a third of a whole report.
    return tuple(tuple(np.flatnonzero(firsts == first).tolist()) for first in sorted(set(firsts.tolist())))


def has_tie_scale(beats: Booleans, tied: Booleans) -> Booleans:
    """Whether Davidson's tie parameter stays finite, for a stack ``(..., n, n)`` of connected graphs.

    Strengths and nu can run to infinity together only if strengths exist with ``s_i >= s_j + 1`` for each
    win of i over j and ``|s_i - s_j| <= 1`` for each tie. Such a system has a solution unless some cycle
    holds more wins than ties (longest paths; Bellman 1958).
    """
    n = beats.shape[-1]
    never = -4.0 * n
    longest = np.where(beats, 1.0, np.where(tied, -1.0, never))
    for k in range(n):
        through = longest[..., :, k, None] + longest[..., None, k, :]
        longest = np.clip(np.maximum(longest, through), never, float(n))
    return np.asarray(np.einsum("...ii->...i", longest).max(axis=-1, initial=never) > 0.0)
