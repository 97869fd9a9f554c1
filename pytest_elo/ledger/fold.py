"""Fold journal events, from any number of shards and reports and in any order, into ledger rows.

Events repeat (a shard is swept after its reports arrived) and arrive out of order; the fold is
idempotent and commutative: a closed attempt beats an opened one, rows are unique by (call_id, attempt); a
scored outcome beats one that is none of the model's doing, and among equals the last rerun's counts.

Rows are held packed (``packed``) and made again, one at a time, by who goes through them.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Generic, TypeVar, overload

from pytest_elo._parse import parse_json
from pytest_elo.ledger.aside import Aside, Kept
from pytest_elo.ledger.packed import Packed, packed_attempts, packed_name, packed_outcomes
from pytest_elo.records import MODEL_STATUSES, Attempt, Outcome

__all__ = ["ContestKey", "Ledger", "OutcomeKey", "outcome_key"]

OutcomeKey = tuple[str, str, str, int]
ContestKey = tuple[str, str, int]
"""(task, item, repeat) of an arena item, whose answers are judged in pairs."""
VoteKey = tuple[str, str, str, str, str, int, int]
Rank = tuple[bool, int, str]
Name = str | bytes
Place = Name | tuple[Name, int]
"""Of an attempt: its call, and its number where that is not 0."""
T = TypeVar("T")


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
    _attempts: dict[Place, bytes] = field(default_factory=dict)
    _kept: dict[Name, bool] = field(default_factory=dict)
    _outcomes: dict[tuple[str, str, int], dict[str, Kept]] = field(default_factory=dict)
    """by (task, strategy, repeat) and item"""
    _reruns: dict[OutcomeKey, int] = field(default_factory=dict)
    _votes: dict[VoteKey, Rank] = field(default_factory=dict)
    """the rank's last part is the vote itself"""
    _contests: dict[ContestKey, Kept] = field(default_factory=dict)
    _aside: Aside = field(default_factory=Aside)
    _order: list[Place] | None = None
    _packed_attempts: Packed[Attempt] = field(default_factory=packed_attempts)
    _packed_outcomes: Packed[Outcome] = field(default_factory=packed_outcomes)

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
        if "close" in event:
            self._close(event["close"])
        elif "open" in event:
            self._open(event["open"])
        elif "kept" in event:
            for call_id, kept in event["kept"].items():
                self._kept[packed_name(call_id)] = kept
        elif "outcome" in event:
            self._settle(event["outcome"], int(event.get("rerun", 0)))
        elif "vote" in event:
            self._vote(event["vote"], int(event.get("rerun", 0)))
        elif "contest" in event:
            facts = event["contest"]
            self._contests[facts["task_id"], facts["item_id"], facts["repeat"]] = self._aside.put(marshal.dumps(facts))
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

    def _open(self, values: Mapping[str, Any]) -> None:
        place = _place(values)
        if place not in self._attempts:
            self._put(place, values)

    def _close(self, values: Mapping[str, Any]) -> None:
        place = _place(values)
        known = self._attempts.get(place)
        if known is None:
            self._put(place, values)
            return
        # the same attempt is closed twice when it is replayed twice: the first time counts
        first = self._packed_attempts.unpack(known)
        if first["status"] == "open" or values["ts"] < first["ts"]:
            self._put(place, values)

    def _put(self, place: Place, values: Mapping[str, Any]) -> None:
        packed = self._packed_attempts.pack(values)
        self._order = None
        self._attempts[place] = packed

    def _settle(self, values: Mapping[str, Any], rerun: int) -> None:
        packed = self._packed_outcomes.pack(values)
        task, item, strategy, repeat = values["task_id"], values["item_id"], values["strategy"], values.get("repeat", 0)
        tier = self._outcomes.setdefault((task, strategy, repeat), {})
        known, key = tier.get(item), (task, item, strategy, repeat)
        if known is not None:
            rank = self._rank(self._aside.get(known), self._reruns.get(key, 0))
            if self._rank(packed, rerun) <= rank:
                return
        tier[item] = self._aside.put(packed)
        if rerun:
            self._reruns[key] = rerun
        else:
            self._reruns.pop(key, None)

    def _rank(self, packed: bytes, rerun: int) -> Rank:
        outcome = self._packed_outcomes.record(packed)
        return (outcome.status in MODEL_STATUSES, rerun, outcome.to_json())

    def _vote(self, vote: Mapping[str, Any], rerun: int) -> None:
        names: list[str] = [vote[name] for name in ("task_id", "item_id", "a", "b", "judge")]
        key = (*names, vote.get("turn", 1), vote.get("repeat", 0))
        rank = (vote["winner"] is not None, rerun, json.dumps(vote))
        known = self._votes.get(key)
        if known is None or known < rank:
            self._votes[key] = rank

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

    def attempts(self) -> Sequence[Attempt]:
        """Every row, in an order that depends on the rows alone; discards are ``kept=False``."""
        if self._order is None:
            unpack = self._packed_attempts.unpack
            self._order = sorted(self._attempts, key=lambda place: _row_order(unpack(self._attempts[place])))
        return _Sequence(self._order, self._attempt)

    def _attempt(self, place: Place) -> Attempt:
        return Attempt(**self._values(place))

    def _values(self, place: Place) -> dict[str, Any]:
        values = self._packed_attempts.unpack(self._attempts[place])
        values["kept"] = self._was_kept(place, values)
        return values

    def _was_kept(self, place: Place, values: Mapping[str, Any]) -> bool:
        if values["status"] != "ok":
            return False  # a failed try of a call whose later try was used is still a discard
        call = place[0] if isinstance(place, tuple) else place
        return self._kept.get(call, bool(values["kept"]))

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """The fields of all ``attempts``, for who needs no records, in no order."""
        return map(self._values, self._attempts)

    def attempt_lines(self) -> Iterator[str]:
        """The lines of ``runs.jsonl``: those of ``attempts``, without making them."""
        self.attempts()
        return (self._packed_attempts.line(self._values(place)) + "\n" for place in self._order or ())

    def outcomes(self) -> Sequence[Outcome]:
        return _Sequence(self.outcome_keys(), self._outcome)

    def outcome_keys(self) -> list[OutcomeKey]:
        """Of all outcomes, in their order."""
        return sorted(
            (task, item, strategy, repeat) for (task, strategy, repeat), tier in self._outcomes.items() for item in tier
        )

    def outcomes_scored_by(self, name: str, *, task: str) -> list[Outcome]:
        """All outcomes of the tasks in which some have a score of this name, and of ``task``."""
        tasks = {common["task_id"] for common in self._packed_outcomes.where(name)} | {task}
        found = [self._outcome(key) for key in self.outcome_keys() if key[0] in tasks]
        scored = {outcome.task_id for outcome in found if name in outcome.scores} | {task}
        return [outcome for outcome in found if outcome.task_id in scored]

    def outcome_lines(self) -> Iterator[str]:
        """The lines of ``outcomes.jsonl``."""
        packed = self._packed_outcomes
        return (packed.line(packed.unpack(self._outcome_at(key))) + "\n" for key in self.outcome_keys())

    def _outcome(self, key: OutcomeKey) -> Outcome:
        return self._packed_outcomes.record(self._outcome_at(key))

    def _outcome_at(self, key: OutcomeKey) -> bytes:
        task, item, strategy, repeat = key
        return self._aside.get(self._outcomes[task, strategy, repeat][item])

    def votes(self) -> list[Mapping[str, Any]]:
        """The judges' votes: one for each pair, order and judge, one with a winner before one without."""
        return [parse_json(self._votes[key][2]) for key in sorted(self._votes)]

    def contests(self) -> list[Mapping[str, Any]]:
        """What each arena item put to its judges."""
        return [marshal.loads(self._aside.get(self._contests[key])) for key in sorted(self._contests)]


class _Sequence(Sequence[T], Generic[T]):
    """Rows that are made when they are asked for, so that going through all of them holds one at a time."""

    def __init__(self, keys: Sequence[Any], make: Callable[[Any], T]) -> None:
        self._keys = keys
        self._make = make

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return _Sequence(self._keys[index], self._make)
        return self._make(self._keys[index])

    def __iter__(self) -> Iterator[T]:
        return map(self._make, self._keys)


def _place(values: Mapping[str, Any]) -> Place:
    call, number = packed_name(values["call_id"]), values.get("attempt", 0)
    return (call, number) if number else call


_row_order = itemgetter("task_id", "item_id", "strategy", "repeat", "ts", "sample", "call_id", "attempt")
