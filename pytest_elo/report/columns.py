"""From outcomes and token totals to the columns that the rating takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_elo.ledger.totals import Cell, Totals
from pytest_elo.records import MODEL_STATUSES, Comparison, Outcome, is_scored

if TYPE_CHECKING:
    from pytest_elo.rating.inputs import Comparisons, Usage

__all__ = ["Dropped", "comparable", "comparison_columns", "pair_outcomes", "usage_columns"]

ItemCell = tuple[str, str, str]

TOKENS_UNKNOWN = "tokens_unknown"
"""Mark of an outcome that another program bought: nobody here knows for how much."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Outcomes that make no comparison, per (task, strategy, status): never silent, always printed."""

    counts: Mapping[tuple[str, str, str], int]

    def __bool__(self) -> bool:
        return bool(self.counts)


def comparable(outcomes: Iterable[Outcome]) -> tuple[list[Outcome], Dropped]:
    """Split off what is no doing of the model (infrastructure, configuration, unfaithful environment)."""
    kept: list[Outcome] = []
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    for outcome in outcomes:
        if outcome.status in MODEL_STATUSES:
            kept.append(outcome)
        else:
            counts[outcome.task_id, outcome.strategy, outcome.status] += 1
    return kept, Dropped(dict(sorted(counts.items())))


def pair_outcomes(outcomes: Sequence[Outcome]) -> list[Comparison]:
    """Every pair of strategies on every item: the share of cross pairs of repeats that the first one won.

    One comparison of weight 1 an item and pair, whatever the repeats; equal scores are half a win each. Outcomes
    of an arena have no score: their comparisons are votes.
    """
    by_item: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for outcome in filter(is_scored, outcomes):
        by_item[outcome.task_id, outcome.item_id][outcome.strategy].append(outcome.score)
    comparisons = []
    for (task_id, item_id), scores in sorted(by_item.items()):
        names = sorted(scores)
        for position, a in enumerate(names):
            for b in names[position + 1 :]:
                share = _share(scores[a], scores[b])
                comparisons.append(Comparison(task_id=task_id, item_id=item_id, a=a, b=b, share=share))
    return comparisons


def _share(first: Sequence[float], second: Sequence[float]) -> float:
    won = sum((x > y) + 0.5 * (x == y) for x in first for y in second)
    return won / (len(first) * len(second))


def comparison_columns(comparisons: Sequence[Comparison]) -> Comparisons:
    from pytest_elo.rating.inputs import Comparisons

    tasks = _Names(comparison.task_id for comparison in comparisons)
    items = _Names(comparison.item_id for comparison in comparisons)
    policies = _Names(name for comparison in comparisons for name in (comparison.a, comparison.b))
    judges = _Names(comparison.judge for comparison in comparisons if comparison.judge is not None)
    return Comparisons(
        tasks=tasks.names,
        items=items.names,
        policies=policies.names,
        judges=judges.names,
        judge=_judge_codes(comparisons, judges),
        task=tasks.codes(comparison.task_id for comparison in comparisons),
        item=items.codes(comparison.item_id for comparison in comparisons),
        a=policies.codes(comparison.a for comparison in comparisons),
        b=policies.codes(comparison.b for comparison in comparisons),
        share=_floats(comparison.share for comparison in comparisons),
        weight=_floats(comparison.weight for comparison in comparisons),
    )


def usage_columns(outcomes: Sequence[Outcome], totals: Totals) -> Usage:
    """One row a (task, item, strategy): means over the repeats that have an outcome in ``outcomes``.

    Outcomes marked ``tokens_unknown`` (imported predictions) have no row: what they cost is not 0.
    """
    from pytest_elo.rating.inputs import Usage

    repeats: dict[ItemCell, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if TOKENS_UNKNOWN in outcome.marks:
            continue
        repeats[outcome.task_id, outcome.item_id, outcome.strategy].append(outcome)
    rows = [_usage_row(cell, found, totals) for cell, found in sorted(repeats.items())]
    tasks = _Names(row["task"] for row in rows)
    items = _Names(row["item"] for row in rows)
    policies = _Names(row["policy"] for row in rows)
    return Usage(
        tasks=tasks.names,
        items=items.names,
        policies=policies.names,
        task=tasks.codes(row["task"] for row in rows),
        item=items.codes(row["item"] for row in rows),
        policy=policies.codes(row["policy"] for row in rows),
        **{
            name: _floats(row[name] for row in rows)
            for name in (
                "tokens",
                "tokens_high",
                "completion_tokens",
                "last_success_tokens",
                "samples",
                "score",
                "repeats",
            )
        },
    )


def _usage_row(cell: ItemCell, outcomes: Sequence[Outcome], totals: Totals) -> dict[str, Any]:
    task_id, item_id, strategy = cell
    costs = [totals.cells.get((task_id, item_id, strategy, outcome.repeat), Cell()) for outcome in outcomes]
    n = len(outcomes)
    return {
        "task": task_id,
        "item": item_id,
        "policy": strategy,
        "tokens": sum(cost.total_tokens for cost in costs) / n,
        "tokens_high": sum(cost.total_tokens_high for cost in costs) / n,
        "completion_tokens": sum(cost.completion_tokens for cost in costs) / n,
        "last_success_tokens": sum(cost.last_success_tokens for cost in costs) / n,
        "samples": sum(cost.calls for cost in costs) / n,
        "score": sum(outcome.score for outcome in outcomes) / n if all(map(is_scored, outcomes)) else float("nan"),
        "repeats": n,
    }


def _judge_codes(comparisons: Sequence[Comparison], judges: _Names) -> Any:
    """Codes of the judges, -1 where nobody judged; ``None`` where they are too few to be a sample of judges."""
    import numpy as np

    from pytest_elo.rating.style import FEWEST_JUDGES

    if len(judges.names) < FEWEST_JUDGES:
        return None
    code = {name: number for number, name in enumerate(judges.names)}
    return np.fromiter((code.get(comparison.judge or "", -1) for comparison in comparisons), dtype=np.int64)


class _Names:
    """Sorted names of one kind, and their codes."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(set(names)))
        self._code = {name: code for code, name in enumerate(self.names)}

    def codes(self, names: Iterable[str]) -> Any:
        import numpy as np

        return np.fromiter((self._code[name] for name in names), dtype=np.int64)


def _floats(values: Iterable[float]) -> Any:
    import numpy as np

    return np.fromiter(values, dtype=np.float64)
