"""Arena tasks in a report: comparisons from votes, and what must be known of those who voted."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_elo.ledger.rundir import RunDir
from pytest_elo.records import Comparison, Outcome

if TYPE_CHECKING:  # what votes need is imported where there are some: most runs have none
    from pytest_elo.votes.bias import BiasBlock
    from pytest_elo.votes.contests import Contested
    from pytest_elo.votes.leaderboard import Leaderboard
    from pytest_elo.votes.records import Vote
    from pytest_elo.votes.settle import Result

__all__ = ["Arena", "Ballots", "arena_documents", "arenas_of", "read_ballot_box", "vote_comparisons"]

NOBODY = "nobody has voted yet"


@dataclass(frozen=True, slots=True)
class Ballots:
    """All votes of a run, one a key, and what was put to the vote; both may be empty."""

    votes: Sequence[Vote] = ()
    contests: Sequence[Contested] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """One arena task."""

    task_id: str
    results: Mapping[str, int]
    """Results by status; pairs without any vote count as ``open``."""
    board: Leaderboard | None = field(repr=False)
    """The task rated by itself, raw and with style controlled; ``None`` while no vote decides anything."""
    bias: Sequence[BiasBlock]
    """One block a model judge, and one for all people."""
    judges: frozenset[str]
    """Model judges that voted."""
    notes: Sequence[str]
    """Pairs that are not settled, what else is missing, and how many more prompts would do."""


def read_ballot_box(path: Path) -> Ballots:
    """The votes and contests of a run directory. Raises ``DataError`` with file and line."""
    run = RunDir(path)
    contests: Sequence[Contested] = ()
    if run.contests.exists():
        from pytest_elo.votes.contests import read_contests

        contests = read_contests(run.contests)
    if not run.votes.exists():
        return Ballots(contests=contests)
    from pytest_elo.votes.settle import distinct
    from pytest_elo.votes.store import read_votes

    stored = read_votes(run.votes)
    found = distinct(stored.votes)
    notes = [f"{where}: a vote torn by a crash was left out" for where in stored.torn]
    notes += [f"conflicting votes: {conflict}" for conflict in found.conflicts]
    # Votes are appended as they come; in one order they give one report.
    return Ballots(sorted(found.votes, key=lambda vote: repr(vote.key)), contests, notes)


def vote_comparisons(ballots: Ballots, outcomes: Sequence[Outcome]) -> list[Comparison]:
    """The comparisons that the votes make between policies that have ``outcomes``; each pair of a prompt weighs 1."""
    if not ballots.votes:
        return []
    from pytest_elo.votes.settle import comparisons_of, settle

    results = settle(_own_votes(ballots.votes, _policies(outcomes)))
    return list(comparisons_of(results, weight="item"))


def arenas_of(
    ballots: Ballots, outcomes: Sequence[Outcome], *, anchor: str, ties: str, level: float
) -> tuple[Arena, ...]:
    """One record a task with contests or votes. ``outcomes`` are those of complete tiers."""
    policies = _policies(outcomes)
    tasks = {contest.task_id for contest in ballots.contests} | {vote.task_id for vote in ballots.votes}
    how = {"anchor": anchor, "ties": ties, "level": level}
    return tuple(_arena(task, ballots, outcomes, policies, how) for task in sorted(tasks & policies.keys()))


def arena_documents(arenas: Iterable[Arena]) -> list[dict[str, Any]]:
    """What ``elo.json`` says of the arenas; derived numbers and warnings included."""
    from pytest_elo.votes.leaderboard_text import bias_document, board_document

    return [
        {
            "task": arena.task_id,
            "results": dict(arena.results),
            "board": board_document(arena.board) if arena.board is not None else None,
            "bias": [bias_document(block) for block in arena.bias],
            "notes": list(arena.notes),
        }
        for arena in arenas
    ]


def _policies(outcomes: Sequence[Outcome]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for outcome in outcomes:
        found[outcome.task_id].add(outcome.strategy)
    return found


def _own_votes(votes: Iterable[Vote], policies: Mapping[str, set[str]]) -> list[Vote]:
    return [vote for vote in votes if policies.get(vote.task_id, set()).issuperset(vote.pair)]


def _arena(
    task: str,
    ballots: Ballots,
    outcomes: Sequence[Outcome],
    policies: Mapping[str, set[str]],
    how: Mapping[str, Any],
) -> Arena:
    from pytest_elo.votes.leaderboard import bias_blocks, leaderboard
    from pytest_elo.votes.settle import settle, unsettled_lines

    cast = [vote for vote in ballots.votes if vote.task_id == task]
    votes = _own_votes(cast, policies)
    results = settle(votes)
    own = [outcome for outcome in outcomes if outcome.task_id == task]
    models = {outcome.strategy: outcome.model for outcome in own}
    counts = Counter[str](result.status for result in results)
    missing = _open(task, ballots.contests, policies[task], results)
    counts.update({"open": len(missing)} if missing else {})
    decided = {name for result in results if result.share is not None for name in (result.a, result.b)}
    board = leaderboard(votes, weight="item", models=models, **how) if how["anchor"] in decided else None
    notes = [*(board.notes if board is not None else unsettled_lines(results))]
    if board is None:
        notes.append(f"{task} is not rated: {_why(votes, how['anchor'])}")
    notes += _notes(cast, votes, results, own, missing)
    return Arena(
        task_id=task,
        results=dict(sorted(counts.items())),
        board=None if board is None else dataclasses.replace(board, notes=()),
        bias=bias_blocks(votes, models),
        judges=frozenset(vote.judge for vote in votes if vote.kind == "model" and vote.winner is not None),
        notes=notes,
    )


def _why(votes: Sequence[Vote], anchor: str) -> str:
    if not votes:
        return f"{NOBODY}; let people vote with: pytest-elo vote <this directory>"
    return f"no vote decides a pair with the anchor {anchor!r}"


def _open(
    task: str, contests: Iterable[Contested], policies: set[str], results: Sequence[Result]
) -> list[tuple[str, str, str]]:
    """Pairs that were to be compared and of which nobody has said anything; an adaptive plan leaves most out."""
    voted = {(result.item_id, frozenset((result.a, result.b))) for result in results}
    return [
        (contest.item_id, a, b)
        for contest in contests
        if contest.task_id == task and contest.plan != "adaptive"
        for a, b in contest.pairs
        if policies.issuperset((a, b)) and (contest.item_id, frozenset((a, b))) not in voted
    ]


def _notes(
    cast: Sequence[Vote],
    votes: Sequence[Vote],
    results: Sequence[Result],
    outcomes: Sequence[Outcome],
    missing: Sequence[tuple[str, str, str]],
) -> Iterator[str]:
    from pytest_elo.rating.style import FEWEST_JUDGES
    from pytest_elo.tasks.arena import constant_answers

    if missing and votes:
        item, a, b = missing[0]
        yield f"{len(missing)} pairs have no vote at all, such as {a} against {b} on {item}"
    if len(cast) > len(votes):
        yield f"{len(cast) - len(votes)} votes are on policies without complete outcomes here and count for nothing"
    judges = {result.judge for result in results if result.share is not None}
    if 1 < len(judges) < FEWEST_JUDGES:
        yield (
            f"{len(judges)} judges are taken as the panel itself: intervals are over prompts, and over judges too "
            f"from {FEWEST_JUDGES} judges on"
        )
    yield from constant_answers(outcomes)
