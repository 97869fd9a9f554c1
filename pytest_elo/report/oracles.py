"""Which strategies chose with the right answer at hand."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_elo.records import Outcome

__all__ = ["ORACLE", "oracles"]

ORACLE = "oracle"
"""The mark of an outcome whose selector looked at the right answer."""


def oracles(outcomes: Iterable[Outcome]) -> frozenset[str]:
    """Strategies that did so, if only once: upper bounds, no policies."""
    return frozenset(outcome.strategy for outcome in outcomes if ORACLE in outcome.marks)
