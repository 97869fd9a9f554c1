"""Importing vote files: find the format, map every label, keep the newest of duplicates, count the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pytest_elo._parse import parse_json
from pytest_elo.errors import DataError
from pytest_elo.votes.readers import READERS, Reader, native
from pytest_elo.votes.records import Vote
from pytest_elo.votes.rows import Row, read_rows
from pytest_elo.votes.settle import Conflict, distinct
from pytest_elo.votes.store import read_votes

__all__ = ["FileSummary", "Import", "import_votes"]


@dataclass(frozen=True, slots=True)
class FileSummary:
    """What one file held."""

    path: Path
    format: str
    records: int
    winners: Counter[str]
    """Votes by winner; ``null`` counts those without one."""
    self_pairs: int
    """Records of a policy against itself; they tell nothing and were left out."""
    torn: Sequence[str] = ()
    """Lines of our own file that a crash cut off (``file:line``)."""

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {winner}" for winner, count in sorted(self.winners.items()))
        skipped = f"; {self.self_pairs} of a policy against itself left out" if self.self_pairs else ""
        torn = f"; torn by a crash: {', '.join(self.torn)}" if self.torn else ""
        return f"{self.path}: {self.format}, {self.records} records, {counts or 'no votes'}{skipped}{torn}"


@dataclass(frozen=True, slots=True)
class Import:
    """Distinct votes of all files, with everything that was not taken over."""

    votes: Sequence[Vote]
    files: Sequence[FileSummary]
    duplicates: int
    conflicts: Sequence[Conflict]

    def lines(self) -> list[str]:
        """The printed summary: a line a file, then duplicates and every conflict."""
        lines = [str(summary) for summary in self.files]
        if self.duplicates:
            lines.append(f"{self.duplicates} votes were cast again; the newest counts")
        lines += [f"conflict: {conflict}" for conflict in self.conflicts]
        return lines


def import_votes(
    paths: Iterable[str | Path],
    *,
    judge: str | None = None,
    judge_kind: Literal["model", "person"] = "person",
    task_id: str | None = None,
) -> Import:
    """Read files of any known format.

    ``judge`` names the judge where a file does not (by default the file's name without its suffix) and
    ``judge_kind`` says what it is.
    ``task_id`` replaces the default task ``arena``. Raises :class:`DataError` naming file and line for an
    unknown format, an unknown label or a broken record.
    """
    votes: list[Vote] = []
    files: list[FileSummary] = []
    for path in map(Path, paths):
        name = judge or path.stem
        read, summary = _read(path, name)
        votes += [replace(vote, kind=judge_kind) if vote.judge == name else vote for vote in read]
        files.append(summary)
    if task_id is not None:
        votes = [_in_task(vote, task_id) for vote in votes]
    kept = distinct(votes)
    return Import(kept.votes, tuple(files), kept.duplicates, kept.conflicts)


def _read(path: Path, judge: str) -> tuple[list[Vote], FileSummary]:
    if _is_ours(path):
        stored = read_votes(path)
        return _summarised(path, "pytest-elo", len(stored.votes), stored.votes, stored.torn)
    rows = read_rows(path)
    if not rows:
        raise DataError(f"{path}: holds no records")
    reader = _reader_for(rows[0])
    votes = [vote for row in rows for vote in reader.votes(row, judge)]
    return _summarised(path, reader.name, len(rows), votes)


def _is_ours(path: Path) -> bool:
    """Whether the first line is one of our votes; then a torn line is known for what it is."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    with path.open("rb") as file:
        first = file.readline()
    try:
        values = parse_json(first)
    except ValueError:
        return False
    return isinstance(values, dict) and native.READER.claims(Row(values, path, 1))


def _summarised(
    path: Path, format_name: str, records: int, votes: Sequence[Vote], torn: Sequence[str] = ()
) -> tuple[list[Vote], FileSummary]:
    proper = [vote for vote in votes if vote.a != vote.b]
    winners = Counter[str](vote.winner or "null" for vote in proper)
    return proper, FileSummary(path, format_name, records, winners, len(votes) - len(proper), torn)


def _reader_for(row: Row) -> Reader:
    for reader in READERS:
        if reader.claims(row):
            return reader
    known = ", ".join(reader.name for reader in READERS)
    fields = ", ".join(list(row.values)[:8])
    raise DataError(f"{row.where}: fields {fields} belong to no known vote format ({known})")


def _in_task(vote: Vote, task_id: str) -> Vote:
    return replace(vote, task_id=task_id) if vote.task_id == "arena" else vote
