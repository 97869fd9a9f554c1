"""How often repeats of the same item disagree: at temperature 0 that is the server's doing, not the sampling's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_elo.ledger.totals import Totals
from pytest_elo.records import UNSCORED, Outcome

__all__ = ["Disagreement", "disagreements", "repeat_lines"]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Of one strategy on one task: items with at least two outcomes, and those of them whose repeats differ."""

    task_id: str
    strategy: str
    items: int
    in_score: int | None
    """``None`` where outcomes have no score: an arena's answers are compared by votes"""
    in_answer: int
    at_temperature_0: bool
    """every call that the strategy was charged for asked for temperature 0"""


def disagreements(outcomes: Sequence[Outcome], totals: Totals) -> list[Disagreement]:
    """One row a task and strategy that has an item with two outcomes or more; sorted."""
    repeats: dict[tuple[str, str], set[int]] = {}
    for outcome in outcomes:
        repeats.setdefault((outcome.task_id, outcome.strategy), set()).add(outcome.repeat)
    items: dict[tuple[str, str], dict[str, list[Outcome]]] = {}
    for outcome in outcomes:
        if len(repeats[outcome.task_id, outcome.strategy]) < 2:
            continue  # most runs have no repeats: nothing is held of their items
        found = items.setdefault((outcome.task_id, outcome.strategy), {})
        found.setdefault(outcome.item_id, []).append(outcome)
    sampled = {place for place, tier in totals.tiers.items() if tier.sampled}
    rows = []
    for place, by_item in sorted(items.items()):
        repeated = [found for found in by_item.values() if len(found) > 1]
        if repeated:
            in_score = sum(len({outcome.score for outcome in found}) > 1 for found in repeated)
            is_arena = all(UNSCORED in outcome.marks for found in repeated for outcome in found)
            in_answer = sum(len({(outcome.answer, outcome.status) for outcome in found}) > 1 for found in repeated)
            rows.append(
                Disagreement(*place, len(repeated), None if is_arena else in_score, in_answer, place not in sampled)
            )
    return rows


def repeat_lines(outcomes: Sequence[Outcome], totals: Totals) -> Iterator[str]:
    for row in disagreements(outcomes, totals):
        name = f"{row.task_id}/{row.strategy}"
        told = f"repeats of {name} differ in answer on {row.in_answer} of {row.items} items"
        told += "" if row.in_score is None else f", in score on {row.in_score}"
        if row.at_temperature_0 and row.in_answer:
            yield f"warning: {told}, at temperature 0: what answers does not repeat itself"
        else:
            yield told
