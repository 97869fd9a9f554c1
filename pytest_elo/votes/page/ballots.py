"""What people vote on: ``ballots.jsonl``, one pair of answers a line."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_elo._parse import parse_json
from pytest_elo._text import text_hash
from pytest_elo.errors import DataError
from pytest_elo.ledger.read import TEXT, Types, check_types
from pytest_elo.ledger.rundir import CONTESTS
from pytest_elo.tasks.arena.judging import Pair, failure_of
from pytest_elo.votes.contests import pairs_of_run

__all__ = ["BALLOTS", "Ballot", "ballots_of", "read_ballots", "write_ballots"]

BALLOTS = "ballots.jsonl"
TYPES: Types = {
    **dict.fromkeys(("task_id", "item_id", "prompt", "a", "b", "answer_a", "answer_b"), TEXT),
    "repeat": ("a whole number", int),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """Two answers of two policies to one prompt."""

    task_id: str
    item_id: str
    prompt: str
    a: str
    b: str
    answer_a: str
    answer_b: str
    repeat: int = 0

    @property
    def ballot_id(self) -> str:
        """Names the pair and tells nothing about the policies."""
        parts = [self.task_id, self.item_id, str(self.repeat), *sorted((self.a, self.b))]
        return text_hash("\0".join(parts)).hexdigest()[:16]


def ballots_of(pairs: Iterable[Pair]) -> tuple[Ballot, ...]:
    """A ballot for each pair that a person can decide: both answers are there and differ."""
    return tuple(
        Ballot(
            task_id=pair.task_id,
            item_id=pair.item_id,
            prompt=pair.prompt,
            a=pair.a.policy,
            b=pair.b.policy,
            answer_a=pair.a.text,
            answer_b=pair.b.text,
            repeat=pair.repeat,
        )
        for pair in pairs
        if not (failure_of(pair.a) or failure_of(pair.b)) and pair.a.text.strip() != pair.b.text.strip()
    )


def write_ballots(directory: Path, ballots: Iterable[Ballot]) -> None:
    """Replace ``ballots.jsonl`` as a whole; a reader sees the old file or the new one."""
    lines = "".join(json.dumps(dataclasses.asdict(ballot)) + "\n" for ballot in ballots)
    scratch = directory / f"{BALLOTS}.{os.getpid()}.tmp"
    scratch.write_text(lines, encoding="ascii")
    scratch.replace(directory / BALLOTS)


def read_ballots(directory: Path) -> Sequence[Ballot]:
    """All ballots, each pair once: those of ``ballots.jsonl``, or the pairs of a run that has an arena.

    Raises :class:`DataError` naming file and line.
    """
    path = directory / BALLOTS
    contests = directory / CONTESTS
    if contests.exists() and not path.exists():
        return _of_a_run(directory)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); give the directory of a run with an arena task"
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start})") from None
    found: dict[str, Ballot] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            ballot = _ballot(line, f"{path}:{number}")
            found.setdefault(ballot.ballot_id, ballot)
    if not found:
        raise DataError(f"{path}: holds no pair to vote on")
    return tuple(found.values())


def _of_a_run(directory: Path) -> Sequence[Ballot]:
    ballots = ballots_of(pairs_of_run(directory))
    if not ballots:
        raise DataError(f"{directory}: no two answers to one prompt differ, so there is nothing to vote on")
    return ballots


def _ballot(line: str, where: str) -> Ballot:
    try:
        values = parse_json(line)
        check_types(values, TYPES, where)
        ballot = Ballot(**{f.name: values[f.name] for f in dataclasses.fields(Ballot) if f.name in values})
    except (ValueError, TypeError) as error:
        raise DataError(f"{where}: not a ballot ({error})") from None
    if ballot.a == ballot.b:
        raise DataError(f"{where}: policy {ballot.a!r} stands against itself")
    return ballot
