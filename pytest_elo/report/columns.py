"""From outcomes and token totals to the columns that the rating takes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_elo.ledger.totals import Cell, Totals
from pytest_elo.records import MODEL_STATUSES, Comparison, Outcome

if TYPE_CHECKING:
    from pytest_elo.rating.inputs import Comparisons, Usage

__all__ = ["TOKENS_UNKNOWN", "Dropped", "comparable", "comparison_records", "pair_outcomes", "usage_columns"]

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


def pair_outcomes(outcomes: Sequence[Outcome]) -> Comparisons:
    """Every pair of strategies on every item: what each of them won, lost and tied over the cross pairs of their
    repeats, with a total weight of 1 an item and pair."""
    from pytest_elo.rating import comparisons_from_outcomes

    tasks = _Names(outcome.task_id for outcome in outcomes)
    items = _Names(outcome.item_id for outcome in outcomes)
    policies = _Names(outcome.strategy for outcome in outcomes)
    seen: dict[ItemCell, int] = defaultdict(int)
    repeats = []
    for outcome in outcomes:
        cell = (outcome.task_id, outcome.item_id, outcome.strategy)
        repeats.append(seen[cell])
        seen[cell] += 1
    return comparisons_from_outcomes(
        tasks=tasks.names,
        items=items.names,
        policies=policies.names,
        task=tasks.codes(outcome.task_id for outcome in outcomes),
        item=items.codes(outcome.item_id for outcome in outcomes),
        policy=policies.codes(outcome.strategy for outcome in outcomes),
        repeat=repeats,
        score=_floats(outcome.score for outcome in outcomes),
    )


def comparison_records(comparisons: Comparisons) -> list[Comparison]:
    """The rows with their names."""
    columns = (comparisons.task, comparisons.item, comparisons.a, comparisons.b, comparisons.share, comparisons.weight)
    return [
        Comparison(
            task_id=comparisons.tasks[task],
            item_id=comparisons.items[item],
            a=comparisons.policies[a],
            b=comparisons.policies[b],
            share=share,
            weight=weight,
        )
        for task, item, a, b, share, weight in zip(*(_listed(column) for column in columns), strict=True)
    ]


def _listed(column: Any) -> list[Any]:
    import numpy as np

    return list(np.asarray(column).tolist())


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
                "usd",
                "samples",
                "score",
                "repeats",
            )
        },
    )


def _usage_row(cell: ItemCell, outcomes: Sequence[Outcome], totals: Totals) -> dict[str, Any]:
    costs = [totals.cells.get((*cell, outcome.repeat), Cell()) for outcome in outcomes]
    task_id, item_id, strategy = cell
    n = len(outcomes)
    return {
        "task": task_id,
        "item": item_id,
        "policy": strategy,
        "tokens": sum(cost.total_tokens for cost in costs) / n,
        "tokens_high": sum(cost.total_tokens_high for cost in costs) / n,
        "completion_tokens": sum(cost.completion_tokens for cost in costs) / n,
        "last_success_tokens": sum(cost.last_success_tokens for cost in costs) / n,
        "usd": _mean_usd(costs),
        "samples": sum(cost.calls for cost in costs) / n,
        "score": sum(outcome.score for outcome in outcomes) / n,
        "repeats": n,
    }


def _mean_usd(costs: Sequence[Cell]) -> float:
    """NaN, which means "not known", where a price is missing."""
    prices = [cost.usd for cost in costs if cost.usd is not None]
    return sum(prices) / len(costs) if len(prices) == len(costs) else math.nan


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
