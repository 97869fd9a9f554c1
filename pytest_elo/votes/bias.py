"""What can be told about a judge from its own votes, before its ratings are believed.

Notation: s is the outcome for the answer in the first slot, 1, 0.5 or 0. Everything here is a count or a
ratio of counts over votes; nothing is modelled.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_elo.votes.names import same_model
from pytest_elo.votes.records import Vote
from pytest_elo.votes.settle import Result, settle

__all__ = ["BiasBlock", "Share", "bias_block", "bias_of"]

CONSISTENCY_FLOOR = 0.75
SLOT_BAND = (0.45, 0.55)
SLOT_Z = 3.0
LENGTH_R = 0.3
LONGER_BAND = (0.35, 0.65)
_FEWEST_FOR_LENGTH = 20
"""Votes below which a length link is printed but not warned about: |r| = 0.3 is noise at n = 20."""


@dataclass(frozen=True, slots=True)
class Share:
    """``hits`` of ``n``; ``value`` is ``None`` for n = 0."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        return self.hits / self.n if self.n else None

    def __str__(self) -> str:
        return "-" if self.value is None else f"{self.value:.1%}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasBlock:
    """One judge's block. Pairs are those that need both orders; votes are single verdicts."""

    judge: str
    pairs: int
    """Pairs the judge was asked about in both orders."""
    complete: int
    single_votes: int
    """Votes that stand alone (people, files with one order)."""
    consistency: Share
    """Complete pairs whose two verdicts agree."""
    flips: Share
    """Opposite winners among complete pairs where both orders named a winner."""
    first_slot: Share
    """Verdicts for the first slot among those that name a winner and whose slots are known."""
    ties: Share
    unparsable: int
    errors: int
    nulls: int
    identical: int
    excluded: int
    length_r: float | None
    """Pearson r between ln((chars_a + 1) / (chars_b + 1)) and s."""
    length_n: int
    longer_wins: Share
    """Wins of the longer answer among decided votes on answers of unequal length."""
    self_judged: int
    """Results in which exactly one contestant is the judge's own model."""
    imitations: int
    """Pairs with an answer that holds text like a verdict; it was masked before the judge saw it."""
    judges_itself: Sequence[str]
    """Contestants that are the judge itself, or an alias of it."""

    @property
    def slot_z(self) -> float | None:
        """(A - B) / sqrt(A + B) over decided verdicts; about N(0, 1) for a judge blind to slots."""
        if not self.first_slot.n:
            return None
        return (2 * self.first_slot.hits - self.first_slot.n) / math.sqrt(self.first_slot.n)

    @property
    def warnings(self) -> Sequence[str]:
        return tuple(_warnings(self))

    def lines(self) -> list[str]:
        """The printed block: one line of numbers and one line a warning."""
        asked = f"pairs {self.complete}/{self.pairs} complete" if self.pairs else f"votes {self.single_votes}"
        if self.pairs and self.single_votes:
            asked += f", votes {self.single_votes}"
        z = "" if self.slot_z is None else f" (z {self.slot_z:.1f})"
        r = "-" if self.length_r is None else f"{self.length_r:.2f}"
        facts = [
            asked,
            f"consistency {self.consistency}",
            f"flips {self.flips}",
            f"first slot {self.first_slot}{z}",
            f"ties {self.ties}",
            f"unparsable {self.unparsable}",
            f"errors {self.errors}",
            f"no vote {self.nulls}",
            f"identical {self.identical}",
            f"excluded {self.excluded}",
            f"length r {r}",
            f"longer wins {self.longer_wins} of {self.longer_wins.n}",
            f"self-judged {self.self_judged}",
            f"verdict-like answers {self.imitations}",
        ]
        return [f"judge {self.judge}: {', '.join(facts)}", *(f"  warning: {text}" for text in self.warnings)]


def bias_of(judge: str, votes: Iterable[Vote], *, models: Mapping[str, str] | None = None) -> BiasBlock:
    """The block of ``judge`` over its own votes (one a key, see ``distinct``)."""
    return bias_block(judge, [vote for vote in votes if vote.judge == judge], models=models)


def bias_block(name: str, votes: Iterable[Vote], *, models: Mapping[str, str] | None = None) -> BiasBlock:
    """The block of all ``votes`` together, whoever cast them: of one judge, or of all people.

    ``models`` gives the model behind a policy; a policy not in it stands for a model of its own name.
    Shares that describe slots and ties are over complete pairs and single votes; an order whose other
    order is missing counts as an error only.
    """
    own = [vote for vote in votes if vote.reason != "undone"]
    results = settle([_alone(vote) for vote in own])
    paired = [result for result in results if result.votes[0].both_orders]
    complete = [result for result in paired if result.share is not None]
    single = [r.votes[0] for r in results if r.status == "single"]
    counted = [vote for result in complete for vote in result.votes] + single
    decided = [vote for vote in counted if vote.share not in (None, 0.5)]
    placed = [vote for vote in decided if vote.placed]
    both_decided = [r for r in complete if all(vote.share not in (None, 0.5) for vote in r.votes)]
    silent = Counter(_silence(vote) for vote in own if vote.winner is None)
    length_r, length_n = _length_link(counted)
    contestants = sorted({name for vote in own for name in vote.pair})
    itself = [c for c in contestants if same_model(name, (models or {}).get(c, c))]
    return BiasBlock(
        judge=name,
        pairs=len(paired),
        complete=len(complete),
        single_votes=len(single),
        consistency=Share(sum(r.status == "consistent" for r in complete), len(complete)),
        flips=Share(sum(r.status == "inconsistent" for r in both_decided), len(both_decided)),
        first_slot=Share(sum(_first_won(vote) for vote in placed), len(placed)),
        ties=Share(sum(vote.share == 0.5 for vote in counted), len(counted)),
        unparsable=silent["unparsable"],
        errors=silent["error"],
        nulls=silent["null"],
        identical=sum(result.status == "identical" for result in results),
        excluded=silent["excluded"],
        length_r=length_r,
        length_n=length_n,
        longer_wins=_longer_wins(decided),
        self_judged=sum((r.a in itself) != (r.b in itself) for r in results),
        imitations=sum(_imitates(result) for result in results),
        judges_itself=itself,
    )


def _alone(vote: Vote) -> Vote:
    """The vote without its panel: a judge's consistency is its own, not its panel's."""
    return replace(vote, panel=()) if vote.panel else vote


def _silence(vote: Vote) -> str:
    reason = vote.reason or "null"
    if reason.startswith("error"):
        return "error"
    if reason.startswith("excluded"):
        return "excluded"
    return "null" if reason == "null" else "unparsable"


def _imitates(result: Result) -> bool:
    return any(mark.startswith("verdict_like_text") for vote in result.votes for mark in vote.marks)


def _first_won(vote: Vote) -> bool:
    return vote.share is not None and vote.share > 0.5


def _length_ratio(vote: Vote) -> float | None:
    for unit in ("chars", "tokens"):
        if unit in vote.style_a and unit in vote.style_b:
            return math.log((vote.style_a[unit] + 1) / (vote.style_b[unit] + 1))
    return None


def _length_link(votes: Sequence[Vote]) -> tuple[float | None, int]:
    points = [
        (ratio, share)
        for vote in votes
        if (ratio := _length_ratio(vote)) is not None and (share := vote.share) is not None
    ]
    return _pearson(points), len(points)


def _pearson(points: Sequence[tuple[float, float]]) -> float | None:
    n = len(points)
    if n < 3:
        return None
    mean_x, mean_y = math.fsum(x for x, _ in points) / n, math.fsum(y for _, y in points) / n
    xx = math.fsum((x - mean_x) ** 2 for x, _ in points)
    yy = math.fsum((y - mean_y) ** 2 for _, y in points)
    if xx <= 0 or yy <= 0:
        return None
    return math.fsum((x - mean_x) * (y - mean_y) for x, y in points) / math.sqrt(xx * yy)


def _longer_wins(decided: Iterable[Vote]) -> Share:
    unequal = [(ratio, _first_won(v)) for v in decided if (ratio := _length_ratio(v)) not in (None, 0.0)]
    return Share(sum((ratio > 0) == won for ratio, won in unequal if ratio is not None), len(unequal))


def _warnings(block: BiasBlock) -> Iterable[str]:
    consistency, first = block.consistency.value, block.first_slot.value
    if consistency is not None and consistency < CONSISTENCY_FLOOR:
        yield (
            f"consistency {consistency:.1%} is below {CONSISTENCY_FLOOR:.0%}: "
            "the order of the answers decides too many pairs; use another judge or a panel"
        )
    z = block.slot_z
    if first is not None and z is not None and not SLOT_BAND[0] <= first <= SLOT_BAND[1] and abs(z) > SLOT_Z:
        slot = "first" if first > 0.5 else "second"
        yield f"the {slot} slot wins {max(first, 1 - first):.1%} of decided votes (z {z:.1f})"
    longer = block.longer_wins.value
    by_length = longer is not None and not LONGER_BAND[0] <= longer <= LONGER_BAND[1]
    linked = block.length_r is not None and abs(block.length_r) > LENGTH_R
    if block.length_n >= _FEWEST_FOR_LENGTH and (by_length or linked):
        r = "-" if block.length_r is None else f"{block.length_r:.2f}"
        yield (
            f"the verdict follows length (r {r}, longer wins {block.longer_wins}): "
            "compare the ratings with length controlled"
        )
    if block.judges_itself:
        yield (
            f"the judge is the model of {', '.join(block.judges_itself)}: it may prefer its own answers; "
            "gates refuse such ratings unless self-judging is allowed"
        )
