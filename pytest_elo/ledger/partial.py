"""Tiers of which a stopped run has only a part: known by their counts, and rated by nobody.

``run.json`` says what a run was to have (``expected``: outcomes by task and strategy) and, when it did not
come to its end, of which tiers it has less (``partial``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_elo.ledger.fold import Ledger
from pytest_elo.records import Outcome

__all__ = ["expected_by", "partial_tiers", "without_partial"]


def partial_tiers(ledger: Ledger) -> list[dict[str, Any]]:
    """Every (task, strategy) with fewer outcomes than expected: ``{"task", "strategy", "outcomes", "expected"}``."""
    counts = Counter((outcome.task_id, outcome.strategy) for outcome in ledger.outcomes())
    return [
        {"task": task, "strategy": strategy, "outcomes": counts[task, strategy], "expected": expected}
        for task, strategies in sorted(ledger.expected.items())
        for strategy, expected in sorted(strategies.items())
        if counts[task, strategy] < expected
    ]


def expected_by(header: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """``expected`` of a ``run.json``; empty where it has none."""
    expected = header.get("expected")
    return expected if isinstance(expected, dict) else {}


def without_partial(outcomes: Iterable[Outcome], header: Mapping[str, Any]) -> tuple[list[Outcome], list[str]]:
    """The outcomes of complete tiers, and one sentence for each tier that was left out."""
    partial = {(tier["task"], tier["strategy"]): tier for tier in header.get("partial", ())}
    kept = [outcome for outcome in outcomes if (outcome.task_id, outcome.strategy) not in partial]
    notes = [
        f"{task}/{strategy} is partial ({tier['outcomes']} of {tier['expected']} outcomes) and is not rated; "
        "--elo-resume runs what is missing"
        for (task, strategy), tier in sorted(partial.items())
    ]
    return kept, notes
