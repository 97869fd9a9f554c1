"""Counting votes: who leads, whether that can still change, and how many samples it would take."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import floor

__all__ = ["Tally", "tally"]

_ROUNDING = 1e-9
"""Weights are floats: a lead no larger than this may be an accident of summation."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The state of a vote. Weights lie in [0, 1]; a sample without an answer has no vote."""

    winner: Hashable | None
    """The answer with the most weight, of several the one seen first; ``None`` without any answer."""
    is_tied: bool
    lead: float
    """Weight by which the winner is ahead of the next answer (of 0 where there is none)."""

    def is_settled(self, outstanding: int) -> bool:
        """Whether no answer, seen or not, can draw level with the winner in ``outstanding`` samples."""
        return self.lead > outstanding + _ROUNDING

    def fewest_to_settle(self, outstanding: int) -> int:
        """How many of the outstanding samples are needed at the least before the vote can be settled.

        After m samples for the winner it leads by lead + m with outstanding - m to come, so m is the smallest
        number above (outstanding - lead) / 2. Drawing m at once never draws a sample that drawing one by one
        would have saved.
        """
        return min(outstanding, floor((outstanding - self.lead) / 2) + 1)


def tally(keys: Sequence[Hashable | None], weights: Sequence[float]) -> Tally:
    """Add up the weights of equal keys; ``None`` is no vote."""
    totals: dict[Hashable, float] = {}
    for key, weight in zip(keys, weights, strict=True):
        if key is not None:
            totals[key] = totals.get(key, 0.0) + weight
    if not totals:
        return Tally(None, False, 0.0)
    winner = max(totals, key=lambda key: totals[key])  # max takes the first of equals: the answer seen first
    rivals = [total for key, total in totals.items() if key != winner]
    lead = totals[winner] - max(rivals, default=0.0)
    return Tally(winner, bool(rivals) and lead == 0.0, lead)
