"""The journal: one append-only shard a process, written the moment something happens.

A shard is JSON lines, each one event: ``{"open": attempt}`` when an attempt starts, ``{"close": attempt}``
when it ends, ``{"kept": {call_id: bool}}`` when a strategy has settled, ``{"outcome": outcome, "rerun": n}``,
``{"vote": vote, "rerun": n}`` and ``{"contest": facts}`` for pairs of answers, ``{"adaptive": {task: file}}``,
``{"expected": {task: {strategy: n}}}`` (a part of a suite adds ``whole``) and ``{"note": text}``. Where no disk
is shared two more kinds travel and are not written: ``{"apart": {shard: place}}`` and ``{"response": line of the
response store}``.

Each line is one ``write`` on an ``O_APPEND`` descriptor, so a killed process can lose at most the line it was
writing, and an attempt that was on the wire stays visible as opened and never closed. A shard is locked as long
as its process may write to it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_elo.errors import GatewayError
from pytest_elo.ledger.appending import write_all
from pytest_elo.ledger.locks import lock
from pytest_elo.records import Attempt, Outcome, Tag

__all__ = ["Event", "Journal"]

Event = Mapping[str, Any]
Payer = tuple[str, str, str, int]
Tiers = Mapping[str, Mapping[str, int]]

_encode = json.JSONEncoder(separators=(",", ":")).encode


class Journal:
    """Writes events to this process's shard and keeps those not yet shipped to the controller.

    Thread-safe. ``path`` may be ``None``: then events only travel. When the shard can no longer be written (a full
    disk), ``stop`` is told why, nothing more may be opened, and what ends still travels.
    """

    def __init__(self, path: Path | None, run_id: str, stop: Callable[[str], object] = lambda reason: None) -> None:
        self.run_id = run_id
        self._stop = stop
        self._lock = threading.Lock()
        self._pending: list[str] = []
        self.written = 0
        """Events so far."""
        self._unsettled: dict[str, Payer] = {}
        self._path = path
        self._descriptor: int | None = None
        self._trouble: str | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            lock(self._descriptor)

    def open(self, attempt: Attempt) -> None:
        """Raises ``GatewayError`` when the attempt cannot be put on record: then it must not be made."""
        if self._trouble is None:
            self._write({"open": attempt.to_dict()})
        if self._trouble is not None:
            raise GatewayError(self._trouble, kind="ledger")

    def close(self, attempt: Attempt) -> None:
        self._write({"close": attempt.to_dict()})
        if attempt.status == "ok":
            with self._lock:
                self._unsettled[attempt.call_id] = _payer(attempt)

    def settle(self, kept: Mapping[str, bool]) -> None:
        """Record which calls a strategy used (``True``) and which it paid for and discarded."""
        if kept:
            self._write({"kept": dict(kept)})
            with self._lock:
                for call_id in kept:
                    self._unsettled.pop(call_id, None)

    def keep_rest(self, tag: Tag) -> None:
        """Settle as used whatever the payer's calls no strategy has settled: a test's own direct calls."""
        with self._lock:
            rest = [call_id for call_id, payer in self._unsettled.items() if payer == _payer(tag)]
        self.settle(dict.fromkeys(rest, True))

    def history(self) -> str:
        """Every event of this process so far, as JSON lines."""
        if self._path is None:
            with self._lock:
                return "".join(self._pending)
        return self._path.read_text(encoding="ascii")

    def outcome(self, outcome: Outcome, rerun: int = 0) -> None:
        """Record an outcome; ``rerun`` counts the outcomes of the same trial that this one replaces."""
        event = {"outcome": outcome.to_dict()}
        self._write({**event, "rerun": rerun} if rerun else event)

    def vote(self, vote: Mapping[str, Any], rerun: int = 0) -> None:
        """Record a judge's vote on a pair of answers (a line of ``votes.jsonl``)."""
        self._write({"vote": vote, "rerun": rerun} if rerun else {"vote": vote})

    def contest(self, facts: Mapping[str, Any]) -> None:
        """Record what an arena item puts to its judges (a line of ``contests.jsonl``)."""
        self._write({"contest": facts})

    def adaptive(self, task_id: str, data: str) -> None:
        """Record that the pairs of an arena are chosen when all answers are there, and which file holds its prompts."""
        self._write({"adaptive": {task_id: data}})

    def expect(self, counts: Tiers, whole: Tiers | None = None) -> None:
        """Record how many outcomes the run is to have, by task and strategy; a shard's ``whole`` is all shards'."""
        self._write({"expected": counts} if whole is None else {"expected": counts, "whole": whole})

    def note(self, text: str) -> None:
        """A sentence the report must print, such as a warning about a task's data."""
        self._write({"note": text})

    def apart(self, shard: str, place: str) -> None:
        """Tell the controller that this process keeps its shard where it cannot see it."""
        self._write({"apart": {shard: place}}, travels_only=True)

    def response(self, line: str) -> None:
        """Ship a line of this host's response store to the controller's."""
        self._write({"response": line}, travels_only=True)

    def take(self, most: int | None = None) -> str:
        """The JSON lines of events since the last call: what the next report carries.

        ``most`` bounds the characters, but for a single event that is larger; the rest waits for the next call.
        """
        if not self._pending:
            return ""
        with self._lock:
            n = len(self._pending) if most is None else _fitting(self._pending, most)
            lines, self._pending = self._pending[:n], self._pending[n:]
        return "".join(lines)

    def shut(self) -> None:
        """Close the shard; later events are still kept for ``take``."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _write(self, event: Event, *, travels_only: bool = False) -> None:
        line = _encode(event) + "\n"
        with self._lock:
            self._pending.append(line)
            self.written += 1
            if self._descriptor is not None and not travels_only:
                try:
                    write_all(self._descriptor, ("\n" + line if self._trouble else line).encode("ascii"))
                except OSError as error:
                    self._fail(error, line)

    def _fail(self, error: OSError, line: str) -> None:
        if self._trouble is None:
            self._trouble = (
                f"{self._path} cannot be written ({error.strerror}), so nothing more is bought; make room and go on "
                "with --elo-resume"
            )
            self._stop(self._trouble)
        if line.startswith('{"open"'):  # it is not made
            self._pending.remove(line)
            self.written -= 1


def _fitting(lines: Sequence[str], most: int) -> int:
    size = 0
    for n, line in enumerate(lines):
        size += len(line)
        if size > most:
            return max(1, n)
    return len(lines)


def _payer(record: Attempt | Tag) -> Payer:
    return (record.task_id, record.item_id, record.strategy, record.repeat)
