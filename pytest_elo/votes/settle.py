"""From votes to results: the newest vote of each kind, both orders beside each other, panels by majority."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_elo.records import Comparison
from pytest_elo.tasks.arena.verdict import Slot, panel_majority, settle_orders
from pytest_elo.votes.records import Vote, VoteKey

__all__ = ["Conflict", "Distinct", "Result", "comparisons_of", "distinct", "settle", "unsettled_lines"]

_SLOTS: dict[str | None, Slot | None] = {"a": "A", "b": "B", "tie": "C", "both_bad": "C", None: None}


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two votes on the same thing that disagree: the one that counts and the one it replaced."""

    kept: Vote
    dropped: Vote

    def __str__(self) -> str:
        return (
            f"{self.kept.judge} on {self.kept.item_id}, {self.kept.a} against {self.kept.b}: "
            f"{self.dropped.winner} ({self.dropped.source or 'earlier'}) gave way to "
            f"{self.kept.winner} ({self.kept.source or 'later'})"
        )


@dataclass(frozen=True, slots=True)
class Distinct:
    """Votes with one left for each key, in order of first appearance."""

    votes: Sequence[Vote]
    duplicates: int
    conflicts: Sequence[Conflict]


@dataclass(frozen=True, slots=True)
class Result:
    """What one judge (or panel) made of one pair on one item. ``share`` is won by ``a`` (``a < b``)."""

    task_id: str
    item_id: str
    a: str
    b: str
    judge: str
    kind: Literal["model", "person"]
    status: Literal["consistent", "inconsistent", "incomplete", "single", "identical", "excluded"]
    share: float | None
    votes: Sequence[Vote]


def distinct(votes: Iterable[Vote]) -> Distinct:
    """Keep the newest vote of each key: by time where both have one, else the later in the sequence.

    An undone vote is newer than the vote it takes back and stands as a vote without a winner.
    """
    kept: dict[VoteKey, Vote] = {}
    conflicts: list[Conflict] = []
    duplicates = 0
    for vote in votes:
        earlier = kept.get(vote.key)
        if earlier is None:
            kept[vote.key] = vote
            continue
        duplicates += 1
        older = bool(vote.ts and earlier.ts and vote.ts < earlier.ts)
        newest, replaced = (earlier, vote) if older else (vote, earlier)
        kept[vote.key] = newest
        if newest.share != replaced.share and None not in (newest.share, replaced.share):
            conflicts.append(Conflict(newest, replaced))
    return Distinct(tuple(kept.values()), duplicates, tuple(conflicts))


def settle(votes: Iterable[Vote]) -> tuple[Result, ...]:
    """Results in canonical order; ``votes`` hold one vote a key (see :func:`distinct`).

    Undone votes were never cast: they leave nothing behind.
    """
    groups: dict[tuple[str | int, ...], list[Vote]] = defaultdict(list)
    for vote in votes:
        if vote.reason != "undone":
            groups[_group(vote)].append(vote)
    return tuple(_result(groups[key]) for key in sorted(groups, key=repr))


def comparisons_of(results: Iterable[Result], *, weight: Literal["vote", "item"]) -> tuple[Comparison, ...]:
    """The comparisons that count.

    ``weight="vote"``: every result weighs 1, as public leaderboards count. ``weight="item"``: all results
    of one pair on one item share a weight of 1, so that an item asked more often does not count more.
    """
    counted = [result for result in results if result.share is not None]
    sizes: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for result in counted:
        sizes[result.task_id, result.item_id, result.a, result.b] += 1
    return tuple(
        Comparison(
            task_id=result.task_id,
            item_id=result.item_id,
            a=result.a,
            b=result.b,
            share=result.share,
            weight=1.0 if weight == "vote" else 1.0 / sizes[result.task_id, result.item_id, result.a, result.b],
            judge=result.judge,
        )
        for result in counted
        if result.share is not None
    )


def unsettled_lines(results: Iterable[Result], *, at_most: int = 20) -> list[str]:
    """A line for each result that makes no comparison, with its reasons; then how many more there are."""
    lines = [
        f"{result.item_id}, {result.a} against {result.b}, by {result.judge}: {result.status}{_reasons(result)}"
        for result in results
        if result.share is None
    ]
    left = len(lines) - at_most
    return [*lines[:at_most], f"{left} more like these"] if left > 0 else lines


def _reasons(result: Result) -> str:
    reasons = sorted({vote.reason.removeprefix("excluded ") for vote in result.votes if vote.reason})
    return f" ({'; '.join(reasons)})" if reasons else ""


def _group(vote: Vote) -> tuple[str | int, ...]:
    """Votes that make one result together. Votes that stand alone keep their order in the key."""
    by = "+".join(vote.panel) or vote.judge
    order = "" if vote.both_orders else vote.a
    return (vote.task_id, vote.item_id, *vote.pair, by, vote.turn, vote.repeat, order)


def _result(votes: Sequence[Vote]) -> Result:
    first, second = votes[0].pair
    status, share = _outcome(votes, first, second)
    return Result(
        task_id=votes[0].task_id,
        item_id=votes[0].item_id,
        a=first,
        b=second,
        judge="+".join(votes[0].panel) or votes[0].judge,
        kind=votes[0].kind,
        status=status,
        share=share,
        votes=tuple(votes),
    )


def _outcome(
    votes: Sequence[Vote], first: str, second: str
) -> tuple[Literal["consistent", "inconsistent", "incomplete", "single", "identical", "excluded"], float | None]:
    vote = votes[0]
    if vote.both_orders:
        settled = settle_orders(_majority(votes, first), _majority(votes, second))
        return settled.status, settled.share
    if vote.share is None:
        return ("excluded" if (vote.reason or "").startswith("excluded") else "incomplete"), None
    status: Literal["identical", "single"] = "identical" if vote.reason == "identical" else "single"
    return status, vote.share if vote.a == first else 1.0 - vote.share


def _majority(votes: Sequence[Vote], shown_first: str) -> Slot | None:
    slots = [_SLOTS[vote.winner] for vote in votes if vote.a == shown_first]
    absent = max(1, len(votes[0].panel)) - len(slots)
    return panel_majority([*slots, *[None] * absent])
