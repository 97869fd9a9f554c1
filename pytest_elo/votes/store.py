"""``votes.jsonl``: appended to by several writers at once, readable after any crash."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_elo.errors import DataError
from pytest_elo.votes.records import Vote

__all__ = ["VOTES", "Stored", "append_votes", "read_votes"]

VOTES = "votes.jsonl"
"""The file's name in a run directory."""

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    @contextmanager
    def _locked(descriptor: int) -> Iterator[None]:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
        try:
            yield
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    @contextmanager
    def _locked(descriptor: int) -> Iterator[None]:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


@dataclass(frozen=True, slots=True)
class Stored:
    """The votes of a file in the order they were cast, and the lines a crash tore (``file:line``)."""

    votes: Sequence[Vote]
    torn: Sequence[str]


def append_votes(path: Path, votes: Iterable[Vote]) -> None:
    """Append and sync to disk before returning; a vote that was acknowledged survives a crash.

    A line torn by an earlier crash is closed first, so that it can never swallow a new vote.
    """
    lines = "".join(vote.to_json() + "\n" for vote in votes).encode("ascii")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        with _locked(descriptor):
            _write(descriptor, (b"" if _ends_in_newline(descriptor) else b"\n") + lines)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
            values = json.loads(line)
        except ValueError:
            torn.append(where)
            continue
        if not isinstance(values, dict):
            raise DataError(f"{where}: expected an object, found {type(values).__name__}")
        votes.append(Vote.from_dict(values, where))
    return Stored(tuple(votes), tuple(torn))


def _ends_in_newline(descriptor: int) -> bool:
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if size == 0:
        return True
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) == b"\n"


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
