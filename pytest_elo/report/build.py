"""A report is a pure function of a run directory: the same rows give the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_elo.errors import DataError
from pytest_elo.ledger.partial import without_partial
from pytest_elo.ledger.read import read_attempts, read_outcomes
from pytest_elo.ledger.rundir import RunDir
from pytest_elo.ledger.totals import Totals, total
from pytest_elo.records import Attempt, Comparison, Outcome
from pytest_elo.report.columns import Dropped, comparable, comparison_columns, pair_outcomes, usage_columns
from pytest_elo.report.oracles import oracles

if TYPE_CHECKING:
    from pytest_elo.rating.results import RatingReport

__all__ = ["Report", "build", "build_from"]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything the tables and files show."""

    header: Mapping[str, Any]
    attempts: Sequence[Attempt] = field(repr=False)
    outcomes: Sequence[Outcome] = field(repr=False)
    comparisons: Sequence[Comparison] = field(repr=False)
    totals: Totals = field(repr=False)
    dropped: Dropped
    rating: RatingReport | None
    unrated: str | None
    """why there is no rating at all"""
    notes: Sequence[str]


def build(path: Path, rating: Mapping[str, Any] | None = None) -> Report:
    """Read a run directory and rate it; ``rating`` overrides single rating settings.

    Raises ``DataError`` with file and line for what cannot be read, and for conditions that must not mix.
    """
    run = RunDir(path)
    if not path.is_dir():
        raise DataError(f"{path}: no such run directory; runs stand under .elo/")
    notes: list[str] = []
    attempts = list(read_attempts(run.runs, notes.append))
    outcomes = list(read_outcomes(run.outcomes, notes.append))
    header = run.read_header()
    return build_from(header, attempts, outcomes, notes, rating or {})


def build_from(
    header: Mapping[str, Any],
    attempts: Sequence[Attempt],
    outcomes: Sequence[Outcome],
    notes: Sequence[str],
    overrides: Mapping[str, Any],
) -> Report:
    _refuse_mixed_conditions(outcomes)
    scored, dropped = comparable(outcomes)
    kept, partial = without_partial(scored, header)
    comparisons = pair_outcomes(kept)
    totals = total(attempts)
    settings = {**header.get("rating", {}), **overrides}
    anchor = settings.pop("anchor", None) or header.get("anchor") or "baseline"
    rating, unrated = _rate(kept, comparisons, totals, anchor, settings, header.get("ladders", ()))
    if unrated and partial:
        unrated = f"the run was stopped and {len(partial)} of its tiers are partial"
    return Report(
        header=header,
        attempts=attempts,
        outcomes=outcomes,
        comparisons=comparisons,
        totals=totals,
        dropped=dropped,
        rating=rating,
        unrated=unrated,
        notes=[*header.get("notes", ()), *notes, *partial],
    )


def _rate(
    outcomes: Sequence[Outcome],
    comparisons: Sequence[Comparison],
    totals: Totals,
    anchor: str,
    settings: Mapping[str, Any],
    ladders: Sequence[Sequence[str]],
) -> tuple[RatingReport | None, str | None]:
    present = sorted({outcome.strategy for outcome in outcomes})
    if not outcomes:
        return None, "no outcome can be compared"
    if anchor not in present:
        return None, f"the anchor {anchor!r} has no outcome here (present: {', '.join(present)})"
    if len(present) < 2:
        return None, f"only {present[0]!r} has outcomes; a rating compares at least two strategies"
    from pytest_elo.rating import Settings, evaluate

    chosen = Settings(
        anchor=anchor,
        ties=settings.get("ties", "half"),
        route=settings.get("route", "anchored"),
        interval=settings.get("interval", "cr1"),
        level=settings.get("level", 0.95),
        bootstrap_rounds=settings.get("rounds", 1000),
        seed=settings.get("seed", 0),
        ladders=_climbed(ladders, outcomes),
        worth_elo_per_1k=settings.get("worth_elo_per_1k", 5.0),
        missing_anchor=settings.get("missing_anchor", "error"),
    )
    return evaluate(comparison_columns(comparisons), usage_columns(outcomes, totals), chosen), None


def _climbed(ladders: Sequence[Sequence[str]], outcomes: Sequence[Outcome]) -> tuple[tuple[str, ...], ...]:
    """Each ladder's tiers that have outcomes. An oracle is no tier: nobody can climb to where it stands."""
    tiers = {outcome.strategy for outcome in outcomes} - oracles(outcomes)
    found = (tuple(name for name in names if name in tiers) for names in ladders)
    return tuple(ladder for ladder in found if len(ladder) > 1)


def _refuse_mixed_conditions(outcomes: Sequence[Outcome]) -> None:
    seen: dict[str, str] = {}
    for outcome in outcomes:
        first = seen.setdefault(outcome.task_id, outcome.condition)
        if outcome.condition != first:
            raise DataError(
                f"task {outcome.task_id!r} mixes outcomes of different conditions ({first or 'none'} and "
                f"{outcome.condition or 'none'}): model, data, prompts or seed differ, so they cannot be compared"
            )
