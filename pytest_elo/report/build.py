"""A report is a pure function of a run directory: the same rows give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_elo._parse import parse_json
from pytest_elo._text import did_you_mean
from pytest_elo.errors import DataError
from pytest_elo.gates.results import GateResult
from pytest_elo.ledger.fold import outcome_key
from pytest_elo.ledger.partial import without_partial
from pytest_elo.ledger.prices import prices_of
from pytest_elo.ledger.read import read_outcomes
from pytest_elo.ledger.rundir import RunDir
from pytest_elo.ledger.stream import Watch, read_sums
from pytest_elo.ledger.totals import Totals, total, totals_of
from pytest_elo.records import Attempt, Outcome
from pytest_elo.report.arena import Arena, Ballots, arenas_of, read_ballot_box, vote_comparisons
from pytest_elo.report.columns import (
    TOKENS_UNKNOWN,
    Dropped,
    comparable,
    judges_as_sample,
    pair_outcomes,
    usage_columns,
    with_votes,
)
from pytest_elo.report.online import OnlineView, online_view
from pytest_elo.report.oracles import oracles
from pytest_elo.report.samples import sample_texts

if TYPE_CHECKING:
    from pytest_elo.rating.inputs import Comparisons, Usage
    from pytest_elo.rating.results import RatingReport

__all__ = ["GATES", "Report", "build", "build_from", "rating_at", "rating_of_shared_tasks"]

GATES = "gates.json"

WATCHED_AT_MOST = 20_000
"""Attempts of failed cases that the page can show: more do not fit it."""

OUTPUTS_AT_MOST = 16_000_000
"""Characters of failed replies that are held in memory; beyond that each is cut, ``failures.jsonl`` is whole."""
OUTPUT_CUT = 400
NOT_SHOWN = ("call_ids", "response_sha256")
"""Fields of an outcome that no table and no page needs; what writes them reads the file again."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything the tables and files show."""

    header: Mapping[str, Any]
    outcomes: Sequence[Outcome] = field(repr=False)
    comparisons: Comparisons = field(repr=False)
    totals: Totals = field(repr=False)
    watched: Sequence[Attempt] = field(repr=False)
    """attempts of outcomes that are not correct, in the ledger's order, up to ``WATCHED_AT_MOST``"""
    dropped: Dropped
    rating: RatingReport | None
    unrated: str | None
    """why there is no rating at all"""
    online: OnlineView | None
    """for those who ask for it (``rating.online_k``)"""
    notes: Sequence[str]
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """rating settings above the run's own"""
    arenas: Sequence[Arena] = ()
    """of each task that is judged in pairs: who judged, and how far that can be believed"""
    gates: Sequence[GateResult] = ()
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    """call id -> what the model said, of ``watched`` attempts whose reply the run directory holds"""


def build(path: Path, rating: Mapping[str, Any] | None = None) -> Report:
    """Read a run directory and rate it; ``rating`` overrides single rating settings.

    Raises ``DataError`` with file and line for what cannot be read, and for conditions that must not mix.
    """
    run = RunDir(path)
    if not path.is_dir():
        raise DataError(f"{path}: no such run directory; runs stand under .elo/")
    notes: list[str] = []
    header = run.checked_header()
    outcomes = list(_bounded(read_outcomes(run.outcomes, notes.append, without=NOT_SHOWN)))
    watch = Watch({outcome_key(outcome) for outcome in outcomes if outcome.status != "correct"}, WATCHED_AT_MOST)
    totals = totals_of(read_sums(run.runs, notes.append, watch), prices_of(header))
    report = _rated(header, totals, watch.rows, outcomes, notes, rating or {}, read_ballot_box(path))
    return replace(report, gates=_judged_before(path / GATES), texts=sample_texts(run.responses, watch.rows))


def _bounded(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    room = OUTPUTS_AT_MOST
    for outcome in outcomes:
        output = outcome.output or ""
        room -= len(output)
        yield outcome if room >= 0 or not output else replace(outcome, output=output[:OUTPUT_CUT])


def _judged_before(path: Path) -> tuple[GateResult, ...]:
    """The answers of the session: gates are judged once, against what was stored at that time."""
    try:
        answers = parse_json(path.read_text(encoding="utf-8"))["gates"]
        return tuple(GateResult.from_dict(values) for values in answers)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{path}: no file of gates; remove it to print the report without them") from None


def build_from(
    header: Mapping[str, Any],
    attempts: Sequence[Attempt],
    outcomes: Sequence[Outcome],
    notes: Sequence[str],
    overrides: Mapping[str, Any],
    ballots: Ballots | None = None,
) -> Report:
    """A report over rows in memory."""
    failed = {outcome_key(outcome) for outcome in outcomes if outcome.status != "correct"}
    watched = [row for row in attempts if (row.task_id, row.item_id, row.strategy, row.repeat) in failed]
    totals = total(attempts, prices_of(header))
    return _rated(header, totals, watched[:WATCHED_AT_MOST], outcomes, notes, overrides, ballots or Ballots())


def _rated(
    header: Mapping[str, Any],
    totals: Totals,
    watched: Sequence[Attempt],
    outcomes: Sequence[Outcome],
    notes: Sequence[str],
    overrides: Mapping[str, Any],
    ballots: Ballots,
) -> Report:
    _refuse_mixed_conditions(outcomes)
    scored, dropped = comparable(outcomes)
    kept, partial = without_partial(scored, header)
    _require_named_anchor(overrides.get("anchor"), kept)
    comparisons = with_votes(pair_outcomes(kept), vote_comparisons(ballots, kept))
    rating, unrated = _rate(kept, comparisons, usage_columns(kept, totals), header, overrides)
    if unrated and partial:
        unrated = f"the run was stopped and {len(partial)} of its tiers are partial"
    return Report(
        header=header,
        outcomes=outcomes,
        comparisons=comparisons,
        totals=totals,
        watched=watched,
        dropped=dropped,
        rating=rating,
        unrated=unrated,
        online=online_view(comparisons, {**header.get("rating", {}), **overrides}) if rating is not None else None,
        notes=[*header.get("notes", ()), *header.get("lost", {}).values(), *notes, *ballots.notes, *partial],
        overrides=overrides,
        arenas=_arenas(ballots, kept, header, overrides),
    )


def _arenas(
    ballots: Ballots, outcomes: Sequence[Outcome], header: Mapping[str, Any], overrides: Mapping[str, Any]
) -> tuple[Arena, ...]:
    settings = {**header.get("rating", {}), **overrides}
    return arenas_of(
        ballots,
        outcomes,
        anchor=_anchor(settings, header),
        ties=settings.get("ties", "half"),
        level=settings.get("level", 0.95),
    )


def _anchor(settings: Mapping[str, Any], header: Mapping[str, Any]) -> str:
    return str(settings.get("anchor") or header.get("anchor") or "baseline")


def _require_named_anchor(anchor: str | None, outcomes: Sequence[Outcome]) -> None:
    """An anchor that was asked for by name and stands in no task is a mistake, not a subset."""
    present = {outcome.strategy for outcome in outcomes}
    if anchor is not None and outcomes and anchor not in present:
        tasks = ", ".join(sorted({outcome.task_id for outcome in outcomes}))
        raise DataError(f"the anchor {anchor!r} is in no task (tasks: {tasks}){did_you_mean(anchor, present)}")


def rating_at(report: Report, level: float) -> RatingReport | None:
    """The same rating with its intervals at another level."""
    kept, _ = without_partial(comparable(report.outcomes)[0], report.header)
    overrides = {**report.overrides, "level": level}
    usage = usage_columns(kept, report.totals)
    return _rate(kept, report.comparisons, usage, report.header, overrides)[0]


def rating_of_shared_tasks(report: Report) -> tuple[RatingReport | None, tuple[str, ...]]:
    """The rating over the tasks in which every tier of every ladder has run, and their names.

    Tokens at which families are compared must be tokens for the same items: a task that only some tiers run
    makes those look dearer or cheaper than they are.
    """
    assert report.rating is not None
    tiers = {tier for ladder in report.rating.ladders for tier in ladder.tiers}
    kept, _ = without_partial(comparable(report.outcomes)[0], report.header)
    ran: dict[str, set[str]] = {}
    for outcome in kept:
        ran.setdefault(outcome.task_id, set()).add(outcome.strategy)
    shared = tuple(sorted(task for task, names in ran.items() if tiers <= names))
    if len(shared) in (0, len(ran)):
        return (report.rating if shared else None), shared
    outcomes = [outcome for outcome in kept if outcome.task_id in shared]
    usage = usage_columns(outcomes, report.totals)
    return _rate(outcomes, pair_outcomes(outcomes), usage, report.header, report.overrides)[0], shared


def _rate(
    outcomes: Sequence[Outcome],
    comparisons: Comparisons,
    usage: Usage,
    header: Mapping[str, Any],
    overrides: Mapping[str, Any],
) -> tuple[RatingReport | None, str | None]:
    settings = {**header.get("rating", {}), **overrides}
    anchor = _anchor(settings, header)
    ladders = header.get("ladders", ())
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
    return evaluate(judges_as_sample(comparisons), usage, chosen), None


def _climbed(ladders: Sequence[Sequence[str]], outcomes: Sequence[Outcome]) -> tuple[tuple[str, ...], ...]:
    """Each ladder's tiers that have outcomes and tokens. An oracle is none: nobody can climb to where it stands."""
    unknown = {outcome.strategy for outcome in outcomes if TOKENS_UNKNOWN in outcome.marks}
    tiers = {outcome.strategy for outcome in outcomes} - oracles(outcomes) - unknown
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
