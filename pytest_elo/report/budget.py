"""Equal budgets: what each family of strategies gives for the same tokens an item.

The budgets are the tiers' own. At a budget between two neighbouring tiers of a family stands the straight line
between them, which is what choosing one of the two by lot for each item gives in expectation (of the score
exactly, of Elo nearly). The line is drawn only where the token gap of the two tiers is resolved, and never
beyond the cheapest and the dearest tier: what was not measured is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from pytest_elo.report.build import Report, rating_of_shared_tasks
from pytest_elo.report.numbers import plain, signed
from pytest_elo.report.typeset import typeset

if TYPE_CHECKING:
    from pytest_elo.rating.results import LadderReport, PolicyReport, RatingReport

__all__ = ["Budget", "EqualBudgets", "Offer", "budget_lines", "budgets_of", "equal_budgets"]

SAME_TOKENS = 0.01
"""A tier whose tokens differ from the budget by less than this share is at the budget."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a family gives at a budget; without ``delta`` the reason says why it gives nothing."""

    delta: float | None
    """ΔElo to the anchor."""
    score: float | None
    tiers: tuple[str, ...]
    """The tier it stands on, or the two it lies between."""
    reason: str = ""
    penalised: bool = False
    """Finite only through the penalty, as in the tables."""


@dataclass(frozen=True, slots=True)
class Budget:
    tokens_per_item: float
    tier: str
    """Whose tokens they are."""
    offers: Mapping[str, Offer]
    """By family."""


@dataclass(frozen=True, slots=True)
class EqualBudgets:
    families: tuple[str, ...]
    """Named by their ladder: ``baseline -> r3 -> r5``."""
    budgets: tuple[Budget, ...]
    """From cheap to dear, one a tier."""
    tasks: tuple[str, ...] = ()
    """The tasks it is about, where those are not all: the ones that every tier has run."""


def budgets_of(report: Report) -> EqualBudgets | None:
    """Those of a report, over the tasks that all tiers share."""
    if report.rating is None:
        return None
    rating, tasks = rating_of_shared_tasks(report)
    budgets = equal_budgets(rating) if rating is not None else None
    if budgets is None or rating is report.rating:
        return budgets
    return replace(budgets, tasks=tasks)


def equal_budgets(rating: RatingReport) -> EqualBudgets | None:
    """``None`` with fewer than two families: there is nothing to compare."""
    ladders = {" -> ".join(ladder.tiers): ladder for ladder in rating.ladders if len(ladder.tiers) > 1}
    if len(ladders) < 2:
        return None
    policies = {policy.policy: policy for policy in rating.policies}
    tiers = {tier for ladder in ladders.values() for tier in ladder.tiers}
    priced = sorted((_tokens(policies[tier]), tier) for tier in tiers)
    budgets = [
        Budget(tokens, tier, {name: _offer(ladder, policies, tokens) for name, ladder in ladders.items()})
        for tokens, tier in priced
    ]
    return EqualBudgets(tuple(ladders), tuple(budgets))


def budget_lines(view: EqualBudgets) -> list[str]:
    """The block under the table."""
    names = [_family(name) for name in view.families]
    rows = [
        [plain(budget.tokens_per_item, 0), budget.tier, *(_cell(budget.offers[name]) for name in view.families)]
        for budget in view.budgets
    ]
    heads = ["tokens\n/item", "as", *(f"ΔElo\n{name}" for name in names)]
    align = ["right", "left", *("right" for _ in names)]
    table = typeset(rows, heads, align)
    over = f" over {', '.join(view.tasks)}, which all of them ran" if view.tasks else ""
    return [
        f"At equal budgets{over} (what each family gives for the same tokens an item; point estimates):",
        *table.splitlines(),
        *_legend(view),
    ]


def _offer(ladder: LadderReport, policies: Mapping[str, PolicyReport], budget: float) -> Offer:
    tiers = [policies[name] for name in ladder.tiers]
    for policy in tiers:
        if abs(_tokens(policy) - budget) <= SAME_TOKENS * budget:
            return Offer(policy.delta.value, policy.score, (policy.policy,), penalised=policy.penalised)
    if budget < _tokens(tiers[0]):
        return Offer(None, None, (tiers[0].policy,), "cheaper than its cheapest tier")
    if budget > _tokens(tiers[-1]):
        return Offer(None, None, (tiers[-1].policy,), "dearer than its dearest tier")
    lower, upper, resolved = next(_around(ladder, tiers, budget))
    between = (lower.policy, upper.policy)
    if not resolved:
        return Offer(None, None, between, "the step between its tiers around it is not resolved")
    share = (budget - _tokens(lower)) / (_tokens(upper) - _tokens(lower))
    return Offer(
        _between(lower.delta.value, upper.delta.value, share), _between(lower.score, upper.score, share), between
    )


def _around(
    ladder: LadderReport, tiers: Sequence[PolicyReport], budget: float
) -> Iterator[tuple[PolicyReport, PolicyReport, bool]]:
    for (lower, upper), step in zip(pairwise(tiers), ladder.steps, strict=True):
        if _tokens(lower) <= budget <= _tokens(upper):
            yield lower, upper, step.resolved


def _between(low: float | None, high: float | None, share: float) -> float | None:
    return None if low is None or high is None else low + share * (high - low)


def _tokens(policy: PolicyReport) -> float:
    assert policy.tokens_per_item is not None  # a tier has tokens
    return policy.tokens_per_item


def _family(name: str) -> str:
    return "\n".join(name.split(" -> "))


def _cell(offer: Offer) -> str:
    if offer.delta is None:
        return "-"
    return f"{signed(offer.delta)}{'~' if len(offer.tiers) > 1 else '*' if offer.penalised else ''}"


def _legend(view: EqualBudgets) -> Iterator[str]:
    offers = [(budget, name, offer) for budget in view.budgets for name, offer in budget.offers.items()]
    if any(len(offer.tiers) > 1 and offer.delta is not None for _, _, offer in offers):
        yield "~ on the straight line between two resolved tiers: what a mix of both gives, item by item."
    if any(offer.delta is None for _, _, offer in offers):
        reasons = sorted({offer.reason for _, _, offer in offers if offer.delta is None})
        yield f"- not measured: {'; '.join(reasons)}. Nothing is extrapolated."
