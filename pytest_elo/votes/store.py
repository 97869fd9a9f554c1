"""``votes.jsonl``: appended to by several writers at once, readable after any crash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_elo._parse import parse_json
from pytest_elo.errors import DataError
from pytest_elo.ledger.appending import append_lines
from pytest_elo.ledger.rundir import VOTES
from pytest_elo.votes.records import Vote

__all__ = ["VOTES", "Stored", "append_votes", "read_votes"]


@dataclass(frozen=True, slots=True)
class Stored:
    """The votes of a file in the order they were cast, and the lines a crash tore (``file:line``)."""

    votes: Sequence[Vote]
    torn: Sequence[str]


def append_votes(path: Path, votes: Iterable[Vote]) -> None:
    """Append and sync to disk before returning; a vote that was acknowledged survives a crash."""
    append_lines(path, (vote.to_json() for vote in votes))


def read_votes(path: Path) -> Stored:
    """All whole lines. Raises :class:`DataError` for a whole line that is no vote, or an unreadable file."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    votes: list[Vote] = []
    torn: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            values = parse_json(line)
        except ValueError:
            torn.append(where)
            continue
        if not isinstance(values, dict):
            raise DataError(f"{where}: expected an object, found {type(values).__name__}")
        votes.append(Vote.from_dict(values, where))
    return Stored(tuple(votes), tuple(torn))
