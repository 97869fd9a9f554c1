"""A leaderboard from votes alone, without any run: ratings, ranks, bias, agreement, style control."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.rating import Comparisons, RatingReport, Settings, evaluate
from pytest_elo.rating.results import PolicyReport
from pytest_elo.rating.scale import ANCHOR_ELO
from pytest_elo.rating.style import (
    FEWEST_JUDGES,
    StyleControl,
    control_style,
    log_ratio,
    relative_difference,
)
from pytest_elo.records import Comparison
from pytest_elo.votes.agreement import Agreement, agreement_of
from pytest_elo.votes.bias import BiasBlock, bias_block, bias_of
from pytest_elo.votes.records import Vote
from pytest_elo.votes.self_preference import SelfPreference, self_preference
from pytest_elo.votes.settle import Result, comparisons_of, settle, unsettled_lines

__all__ = ["Leaderboard", "Standing", "bias_blocks", "leaderboard", "style_control"]

Ties = Literal["half", "davidson", "drop"]

_SHOWN = 5
"""Policies whose need for more items is spelt out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One policy's place. Intervals are simultaneous for ranks and single for Elo."""

    policy: str
    elo: float | None
    low: float | None
    high: float | None
    best_rank: int | None
    worst_rank: int | None
    results: int
    won: int
    tied: int
    lost: int
    controlled_elo: float | None
    controlled_half_width: float | None
    note: str | None
    """Why a number is missing, or what must be known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderboard:
    anchor: str
    level: float
    ties: str
    results: Mapping[str, int]
    """Results by status: consistent, inconsistent, incomplete, single, identical, excluded."""
    standings: Sequence[Standing]
    bias: Sequence[BiasBlock]
    agreement: Sequence[Agreement]
    self_preference: Sequence[SelfPreference]
    style: StyleControl | None
    notes: Sequence[str]


def leaderboard(
    votes: Iterable[Vote],
    *,
    anchor: str | None = None,
    ties: Ties = "half",
    weight: Literal["vote", "item"] = "vote",
    level: float = 0.95,
    models: Mapping[str, str] | None = None,
) -> Leaderboard:
    """Rate the policies of ``votes`` (one a key, see ``distinct``); a pure function of their set.

    ``anchor`` stands at 1000; by default the policy with the most results. ``weight="vote"`` counts every
    result once, as public leaderboards do; ``"item"`` counts every pair on an item once. Several tasks are
    rated as one pool. Raises :class:`DataError` where no vote decides anything.
    """
    votes = list(votes)
    results = settle(votes)
    comparisons = comparisons_of(results, weight=weight)
    if not comparisons:
        raise DataError("votes: none of them names a winner or a tie, so nothing can be rated")
    met = Counter(name for comparison in comparisons for name in (comparison.a, comparison.b))
    anchor = anchor or min(met, key=lambda policy: (-met[policy], policy))
    if anchor not in met:
        raise ConfigError(f"anchor {anchor!r} has no vote; choose one of {', '.join(sorted(met)[:8])}")
    report = evaluate(_columns(comparisons), None, Settings(anchor, ties=ties, route="pooled", level=level))
    style, style_note = _style(results, anchor, level, weight)
    return Leaderboard(
        anchor=anchor,
        level=level,
        ties=ties,
        results=dict(sorted(Counter(result.status for result in results).items())),
        standings=_standings(report, results, style),
        bias=bias_blocks(votes, models),
        agreement=_agreement(results),
        self_preference=_self_preference(results, models),
        style=style,
        notes=[*report.warnings, *style_note, *unsettled_lines(results), *_more_needed(report)],
    )


def style_control(
    results: Iterable[Result], anchor: str, level: float = 0.95, weight: Literal["vote", "item"] = "vote"
) -> StyleControl | None:
    """Raw and controlled ratings of the results whose votes know the style of both answers.

    A covariate is used where every such vote has it; ``None`` where no vote knows even a length.
    """
    rows = [
        (result, result.share, vote)
        for result in results
        if result.share is not None and (vote := _styled(result)) is not None
    ]
    if not rows:
        return None
    policies = sorted({name for result, _, _ in rows for name in (result.a, result.b)})
    if anchor not in policies:
        return None
    code = {policy: i for i, policy in enumerate(policies)}
    pairs = [_styles(result, vote) for result, _, vote in rows]
    known = [f for f in ("chars", "tokens", "headers", "lists", "bold") if all(f in a and f in b for a, b in pairs)]
    if "chars" in known and "tokens" in known:
        known.remove("chars")
    covariates = {
        f: (log_ratio if f in ("chars", "tokens") else relative_difference)(
            [a[f] for a, _ in pairs], [b[f] for _, b in pairs]
        )
        for f in known
    }
    return control_style(
        policies=policies,
        a=[code[result.a] for result, _, _ in rows],
        b=[code[result.b] for result, _, _ in rows],
        share=[share for _, share, _ in rows],
        covariates=covariates,
        clusters={
            "item": _codes([f"{result.task_id}\0{result.item_id}" for result, _, _ in rows]),
            "judge": _codes([result.judge for result, _, _ in rows]),
        },
        anchor=anchor,
        level=level,
        weight=None if weight == "vote" else [c.weight for c in comparisons_of((r for r, _, _ in rows), weight=weight)],
    )


def _styled(result: Result) -> Vote | None:
    for vote in result.votes:
        for length in ("chars", "tokens"):
            if length in vote.style_a and length in vote.style_b:
                return vote
    return None


def _styles(result: Result, vote: Vote) -> tuple[Mapping[str, float], Mapping[str, float]]:
    return (vote.style_a, vote.style_b) if vote.a == result.a else (vote.style_b, vote.style_a)


def _codes(names: Sequence[str]) -> list[int]:
    code = {name: i for i, name in enumerate(sorted(set(names)))}
    return [code[name] for name in names]


def _columns(comparisons: Sequence[Comparison]) -> Comparisons:
    tasks = sorted({c.task_id for c in comparisons})
    items = sorted({c.item_id for c in comparisons})
    policies = sorted({name for c in comparisons for name in (c.a, c.b)})
    judges = sorted({c.judge or "" for c in comparisons})
    places = [{name: i for i, name in enumerate(names)} for names in (tasks, items, policies, judges)]
    task, item, policy, judge = places
    return Comparisons(
        tasks=tuple(tasks),
        items=tuple(items),
        policies=tuple(policies),
        judges=tuple(judges),
        task=np.array([task[c.task_id] for c in comparisons]),
        item=np.array([item[c.item_id] for c in comparisons]),
        a=np.array([policy[c.a] for c in comparisons]),
        b=np.array([policy[c.b] for c in comparisons]),
        share=np.array([c.share for c in comparisons]),
        weight=np.array([c.weight for c in comparisons]),
        judge=np.array([judge[c.judge or ""] for c in comparisons]) if len(judges) >= FEWEST_JUDGES else None,
    )


def _style(
    results: Sequence[Result], anchor: str, level: float, weight: Literal["vote", "item"]
) -> tuple[StyleControl | None, list[str]]:
    try:
        style = style_control(results, anchor, level, weight)
    except DataError as error:
        return None, [str(error)]
    if style is None:
        return None, ["length and style control: no vote knows the length of both answers"]
    counted = sum(result.share is not None for result in results)
    notes = [f"style control left out {name}: it {why}" for name, why in style.dropped.items()]
    if style.n_rows < counted:
        notes.append(f"style control knows the answers of {style.n_rows} of {counted} results")
    return style, notes


def _standings(report: RatingReport, results: Sequence[Result], style: StyleControl | None) -> list[Standing]:
    tally: dict[str, Counter[str]] = {policy.policy: Counter() for policy in report.policies}
    for result in results:
        if result.share is not None:
            tally[result.a][_word(result.share)] += 1
            tally[result.b][_word(1 - result.share)] += 1
    controlled = {rating.policy: rating for rating in style.ratings} if style else {}
    standings = [_standing(policy, tally[policy.policy], controlled.get(policy.policy)) for policy in report.policies]
    return sorted(standings, key=lambda s: (s.elo is None, -(s.elo or 0.0), s.policy))


def _word(share: float) -> str:
    return "won" if share > 0.5 else "lost" if share < 0.5 else "tied"


def _standing(policy: PolicyReport, tally: Counter[str], controlled: Any) -> Standing:
    delta = policy.delta
    interval = delta.interval
    ends = (interval.low, interval.high) if interval and interval.shape == "between" else (None, None)
    return Standing(
        policy=policy.policy,
        elo=None if delta.value is None else ANCHOR_ELO + delta.value,
        low=None if ends[0] is None else ANCHOR_ELO + ends[0],
        high=None if ends[1] is None else ANCHOR_ELO + ends[1],
        best_rank=policy.rank.best if policy.rank else None,
        worst_rank=policy.rank.worst if policy.rank else None,
        results=tally.total(),
        won=tally["won"],
        tied=tally["tied"],
        lost=tally["lost"],
        controlled_elo=ANCHOR_ELO + controlled.controlled if controlled else None,
        controlled_half_width=controlled.controlled_half_width if controlled else None,
        note=None if policy.is_anchor else delta.reason,
    )


def bias_blocks(votes: Sequence[Vote], models: Mapping[str, str] | None = None) -> list[BiasBlock]:
    """One block for each model judge and one for all people."""
    judges = sorted({vote.judge for vote in votes if vote.kind == "model" and not _unseen(vote)})
    blocks = [bias_of(judge, votes, models=models) for judge in judges]
    people = [vote for vote in votes if vote.kind == "person"]
    if people:
        voters = len({vote.judge for vote in people})
        blocks.append(bias_block(f"people ({voters})", people, models=models))
    return blocks


def _unseen(vote: Vote) -> bool:
    """A pair that no judge was asked about."""
    return vote.reason == "identical" or (vote.reason or "").startswith("excluded")


def _by_side(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Results by model judge, and of all people together as ``people``."""
    sides: dict[str, list[Result]] = {}
    for result in results:
        if result.status not in ("identical", "excluded"):
            sides.setdefault("people" if result.kind == "person" else result.judge, []).append(result)
    return dict(sorted(sides.items()))


def _agreement(results: Sequence[Result]) -> list[Agreement]:
    sides = list(_by_side(results).items())
    found = [
        agreement_of(one, other, names=(name, other_name))
        for i, (name, one) in enumerate(sides)
        for other_name, other in sides[i + 1 :]
    ]
    return [agreement for agreement in found if agreement.with_ties.n]


def _self_preference(results: Sequence[Result], models: Mapping[str, str] | None) -> list[SelfPreference]:
    """Against people where there are any, else against all other judges."""
    sides = _by_side(results)
    found: list[SelfPreference] = []
    for judge, judged in sides.items():
        if judge == "people":
            continue
        others = [result for side, rest in sides.items() if side != judge for result in rest]
        found += self_preference(judge, judged, sides.get("people", others), models=models)
    return found


def _more_needed(report: RatingReport) -> list[str]:
    """For policies that are not told from the anchor: how many more items would do it."""
    lines = []
    for policy in report.policies:
        power = policy.power
        if policy.is_anchor or power is None or policy.delta.value is None:
            continue
        if abs(policy.delta.value) > power.resolves:
            continue
        more = "" if power.items_needed is None else f", {max(power.items_needed - power.n_items, 1)} more"
        lines.append(f"{policy.policy} is not told from {report.anchor}: {power.text}{more}")
    shown = lines[:_SHOWN]
    return shown if len(lines) == len(shown) else [*shown, f"{len(lines) - len(shown)} more policies likewise"]
