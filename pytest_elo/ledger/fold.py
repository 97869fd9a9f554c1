"""Fold journal events, from any number of shards and reports and in any order, into ledger rows.

Events repeat (a shard is swept after its reports arrived) and arrive out of order; the fold is
idempotent and commutative: a closed attempt beats an opened one, rows are unique by (call_id, attempt); a
scored outcome beats one that is none of the model's doing, and among equals the last rerun's counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.records import MODEL_STATUSES, Attempt, Outcome

__all__ = ["ContestKey", "Ledger", "OutcomeKey", "outcome_key"]

_REPEATED = frozenset(
    [
        "task_id",
        "strategy",
        "model",
        "run_id",
        "role",
        "status",
        "finish_reason",
        "response_model",
        "parameters",
        "source",
        "condition",
        "scores",
        "marks",
    ]
)
"""Fields of few values over a whole run."""

OutcomeKey = tuple[str, str, str, int]
ContestKey = tuple[str, str, int]
"""(task, item, repeat) of an arena item, whose answers are judged in pairs."""
VoteKey = tuple[str, str, str, str, str, int, int]
Rank = tuple[bool, int, str]


def outcome_key(outcome: Outcome) -> OutcomeKey:
    """(task, item, strategy, repeat): at most one outcome of a run stands for each."""
    return (outcome.task_id, outcome.item_id, outcome.strategy, outcome.repeat)


@dataclass(slots=True)
class Ledger:
    """What a run has bought and achieved so far."""

    lines: int = 0
    """Events that were folded, repeated ones included."""
    torn: set[str] = field(default_factory=set)
    """Lines that could not be read, each once however often its shard was swept."""
    notes: set[str] = field(default_factory=set)
    expected: dict[str, dict[str, int]] = field(default_factory=dict)
    """How many outcomes the run is to have, by task and strategy."""
    adaptive: dict[str, str] = field(default_factory=dict)
    """Arena tasks whose pairs are chosen when all answers are there, with the files of their prompts."""
    whole: dict[str, dict[str, int]] | None = None
    """Of a shard: the same over all shards; ``None`` where the run is no part of another."""
    apart: dict[str, str] = field(default_factory=dict)
    """Shards that stand on another disk: name to host and folder."""
    _responses: list[str] = field(default_factory=list)
    _attempts: dict[tuple[str, int], Attempt] = field(default_factory=dict)
    _kept: dict[str, bool] = field(default_factory=dict)
    _outcomes: dict[OutcomeKey, Outcome] = field(default_factory=dict)
    _ranks: dict[OutcomeKey, Rank] = field(default_factory=dict)
    _votes: dict[VoteKey, tuple[Rank, Mapping[str, Any]]] = field(default_factory=dict)
    _contests: dict[ContestKey, Mapping[str, Any]] = field(default_factory=dict)
    _rows: list[Attempt] | None = None
    _known: dict[str, Any] = field(default_factory=dict)
    """Values that rows have in common, by how they are written."""

    def add_lines(self, text: str) -> None:
        """Fold JSON lines; a line that is not JSON (torn by a kill) is counted, never guessed at.

        A network file system may leave holes of NUL bytes where writes were lost; what stands beside one may be whole.
        """
        for line in text.split("\n"):
            if not line:
                continue
            self.lines += 1
            if "\0" in line:
                self.torn.add(line)
            for piece in filter(None, line.split("\0")):
                try:
                    self.add(parse_json(piece))
                except (ValueError, TypeError, KeyError, AttributeError):
                    self.torn.add(line)

    @property
    def damage(self) -> str | None:
        """What to say of torn lines; ``None`` without any."""
        if not self.torn:
            return None
        lines = "1 line of the journals is" if len(self.torn) == 1 else f"{len(self.torn)} lines of the journals are"
        return f"{lines} torn: what only they told is in no sum and no rating"

    def add(self, event: dict[str, Any]) -> None:
        self._rows = None
        if "close" in event:
            self._close(Attempt.from_dict(self._shared(event["close"])))
        elif "open" in event:
            attempt = Attempt.from_dict(self._shared(event["open"]))
            self._attempts.setdefault((attempt.call_id, attempt.attempt), attempt)
        elif "kept" in event:
            self._kept.update(event["kept"])
        elif "outcome" in event:
            self._settle(Outcome.from_dict(self._shared(event["outcome"])), int(event.get("rerun", 0)))
        elif "vote" in event:
            self._vote(event["vote"], int(event.get("rerun", 0)))
        elif "contest" in event:
            facts = event["contest"]
            self._contests[facts["task_id"], facts["item_id"], facts["repeat"]] = facts
        elif "adaptive" in event:
            self.adaptive.update(event["adaptive"])
        elif "expected" in event:
            self.expect(event["expected"])
            self.whole = event.get("whole", self.whole)
        elif "response" in event:
            self._responses.append(str(event["response"]))
        elif "apart" in event:
            self.apart.update(event["apart"])
        elif "note" in event:
            self.notes.add(str(event["note"]))
        else:
            raise KeyError("no known event")

    def _shared(self, values: dict[str, Any]) -> dict[str, Any]:
        """``values`` with one object for what many rows say alike: two thirds of a row's memory otherwise."""
        for name in _REPEATED & values.keys():
            value = values[name]
            values[name] = self._known.setdefault(repr(value), value)
        return values

    def _close(self, attempt: Attempt) -> None:
        place = (attempt.call_id, attempt.attempt)
        known = self._attempts.get(place)
        # the same attempt is closed twice when it is replayed twice: the first time counts
        if known is None or known.status == "open" or attempt.ts < known.ts:
            self._attempts[place] = attempt

    def _settle(self, outcome: Outcome, rerun: int) -> None:
        key = outcome_key(outcome)
        known = self._outcomes.get(key)
        if known is not None:
            rank = self._ranks.get(key) or _rank(known, 0)
            if _rank(outcome, rerun) <= rank:
                return
        self._outcomes[key] = outcome
        if known is not None or rerun:
            self._ranks[key] = _rank(outcome, rerun)

    def _vote(self, vote: Mapping[str, Any], rerun: int) -> None:
        names: list[str] = [vote[name] for name in ("task_id", "item_id", "a", "b", "judge")]
        key = (*names, vote.get("turn", 1), vote.get("repeat", 0))
        rank = (vote["winner"] is not None, rerun, json.dumps(vote))
        known = self._votes.get(key)
        if known is None or known[0] < rank:
            self._votes[key] = rank, vote

    def expect(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        """Take the number of outcomes a process is to bring about; all processes see the same ones."""
        for task, strategies in counts.items():
            known = self.expected.setdefault(task, {})
            for strategy, count in strategies.items():
                known[strategy] = max(known.get(strategy, 0), count)

    def take_responses(self) -> list[str]:
        """Lines for the response store that have arrived since the last call."""
        lines, self._responses = self._responses, []
        return lines

    def add_attempts(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            self.add({"close": attempt.to_dict()})

    def attempts(self) -> list[Attempt]:
        """Every row, in an order that depends on the rows alone; discards are ``kept=False``."""
        if self._rows is None:
            self._rows = sorted((self._settled(row) for row in self._attempts.values()), key=_row_order)
        return list(self._rows)

    def _settled(self, row: Attempt) -> Attempt:
        kept = self._was_kept(row)
        return row if row.kept is kept else replace(row, kept=kept)

    def _was_kept(self, row: Attempt) -> bool:
        if row.status != "ok":
            return False  # a failed try of a call whose later try was used is still a discard
        return self._kept.get(row.call_id, bool(row.kept))

    def outcomes(self) -> list[Outcome]:
        return [self._outcomes[key] for key in sorted(self._outcomes)]

    def votes(self) -> list[Mapping[str, Any]]:
        """The judges' votes: one for each pair, order and judge, one with a winner before one without."""
        return [self._votes[key][1] for key in sorted(self._votes)]

    def contests(self) -> list[Mapping[str, Any]]:
        """What each arena item put to its judges."""
        return [self._contests[key] for key in sorted(self._contests)]


def _rank(outcome: Outcome, rerun: int) -> Rank:
    return (outcome.status in MODEL_STATUSES, rerun, outcome.to_json())


def _row_order(row: Attempt) -> tuple[Any, ...]:
    return (row.task_id, row.item_id, row.strategy, row.repeat, row.ts, row.sample, row.call_id, row.attempt)
