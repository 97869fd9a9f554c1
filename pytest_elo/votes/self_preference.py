"""Does a judge prefer its own model beyond what others see in it?

A strong model that is judged by itself wins often because it is strong. So the judge's own model is laid
beside rivals of the same strength, as a reference (people, or another judge) sees strength, on the pairs
that each of them did not win in the reference's eyes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_elo.votes.agreement import Meeting, plurality
from pytest_elo.votes.bias import Share
from pytest_elo.votes.names import same_model
from pytest_elo.votes.settle import Result

__all__ = ["SelfPreference", "self_preference"]

MATCHED_RIVALS = 5
FEWEST = 20
"""Pairs below which no difference is called one: 9 of 12 is 75 % with an interval of 43 to 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfPreference:
    """Where the reference did not pick a policy, how often the judge did."""

    judge: str
    policy: str
    own: Share
    rivals: Share
    """The same over the rivals nearest in strength, pooled."""
    matched: Sequence[str]

    @property
    def delta(self) -> float | None:
        """Own share less the rivals'; ``None`` where either has no pair."""
        if self.own.value is None or self.rivals.value is None:
            return None
        return self.own.value - self.rivals.value

    @property
    def resolved(self) -> bool:
        """Whether there are enough pairs on both sides to speak of a difference."""
        return min(self.own.n, self.rivals.n) >= FEWEST

    def __str__(self) -> str:
        if self.delta is None:
            return f"self-preference of {self.judge} for {self.policy}: no pairs to tell (n {self.own.n})"
        verdict = "" if self.resolved else f", not resolved below {FEWEST} pairs"
        return (
            f"self-preference of {self.judge} for {self.policy}: picks it in {self.own} of {self.own.n} "
            f"pairs that the reference did not give it, against {self.rivals} of {self.rivals.n} for rivals "
            f"of like strength ({', '.join(self.matched)}): {100 * self.delta:+.1f} points{verdict}"
        )


def self_preference(
    judge: str,
    judged: Iterable[Result],
    reference: Iterable[Result],
    *,
    models: Mapping[str, str] | None = None,
) -> tuple[SelfPreference, ...]:
    """One record for each contestant that is the judge's own model.

    ``judged`` are the judge's results, ``reference`` those of people or another judge; of several
    reference results on one pair and item the most frequent counts. Strength is the mean share a policy
    wins in the reference; the rivals are the five nearest in it.
    """
    reference = list(reference)
    seen, verdicts = plurality(reference), plurality(judged)
    strength = _strength(reference)
    names = models or {}
    picks = {policy: _picked_unearned(policy, verdicts, seen) for policy in strength}
    records = []
    for policy in sorted(strength):
        if not same_model(judge, names.get(policy, policy)):
            continue
        rivals = [p for p in strength if p != policy and not same_model(judge, names.get(p, p)) and picks[p].n]
        rivals.sort(key=lambda rival: (abs(strength[rival] - strength[policy]), rival))
        matched = rivals[:MATCHED_RIVALS]
        pooled = Share(sum(picks[r].hits for r in matched), sum(picks[r].n for r in matched))
        records.append(SelfPreference(judge=judge, policy=policy, own=picks[policy], rivals=pooled, matched=matched))
    return tuple(records)


def _strength(results: Iterable[Result]) -> dict[str, float]:
    """Mean share won by each policy."""
    won: dict[str, list[float]] = defaultdict(list)
    for result in results:
        if result.share is not None:
            won[result.a].append(result.share)
            won[result.b].append(1 - result.share)
    return {policy: sum(shares) / len(shares) for policy, shares in won.items()}


def _picked_unearned(policy: str, judged: Mapping[Meeting, int], seen: Mapping[Meeting, int]) -> Share:
    hits = n = 0
    for meeting, picked in judged.items():
        _, _, a, b = meeting
        side = (policy == a) - (policy == b)
        if side and meeting in seen and seen[meeting] != side:
            n += 1
            hits += picked == side
    return Share(hits, n)
