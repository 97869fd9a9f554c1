"""A vote: one judge's preference between two policies on one item, in one order."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from pytest_elo.errors import DataError
from pytest_elo.ledger.read import TEXT, TEXT_OR_NONE, Types, check_types

__all__ = ["Vote", "VoteKey", "Winner", "iso_time"]

Winner = Literal["a", "b", "tie", "both_bad", "graded"]
Kind = Literal["model", "person"]
VoteKey = tuple[str, str, str, str, str, int, int]

_SHARES: dict[str, float] = {"a": 1.0, "b": 0.0, "tie": 0.5, "both_bad": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One line of ``votes.jsonl``. ``a`` is the policy in the first slot, ``b`` the one in the second.

    ``winner`` is ``None`` where a vote was asked for and none came; ``reason`` then says why
    (``unparsable``, ``error timeout``, ``null``, ``undone``, ``excluded ...``). Both ``tie`` and
    ``both_bad`` are half a win each.
    """

    task_id: str
    item_id: str
    a: str
    b: str
    winner: Winner | None
    judge: str
    kind: Kind = "person"
    reason: str | None = None
    graded_share: float | None = None
    """With ``winner="graded"``: a's share in [0, 1], from a judge that tells how sure it is."""
    both_orders: bool = False
    """The vote counts only beside the same judge's vote with the slots swapped."""
    placed: bool = True
    """``a`` really stood in the first slot; false where a file does not tell the slots."""
    panel: Sequence[str] = ()
    """The judges whose majority decides, where the judge is one of several."""
    turn: int = 1
    repeat: int = 0
    ts: str = ""
    """ISO 8601, UTC; empty where unknown."""
    style_a: Mapping[str, float] = field(default_factory=dict)
    """``chars``, ``tokens``, ``headers``, ``lists``, ``bold`` of a's answer, as far as known."""
    style_b: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    """``file:line`` of an imported vote."""
    marks: Sequence[str] = ()
    """What a reader must know of the pair: ``verdict_like_text:<policy>``."""
    v: int = 1

    @property
    def share(self) -> float | None:
        """The share won by ``a``; ``None`` without a verdict."""
        if self.winner is None:
            return None
        return self.graded_share if self.winner == "graded" else _SHARES[self.winner]

    @property
    def key(self) -> VoteKey:
        """What may be voted on once: (task, item, first, second, judge, turn, repeat).

        The unordered pair and the order are both in (first, second).
        """
        return (self.task_id, self.item_id, self.a, self.b, self.judge, self.turn, self.repeat)

    @property
    def pair(self) -> tuple[str, str]:
        """Both policies in alphabetical order."""
        return (self.a, self.b) if self.a <= self.b else (self.b, self.a)

    def to_dict(self) -> dict[str, Any]:
        """Fields at their default are left out."""
        return {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if f.name in _ALWAYS or getattr(self, f.name) not in _default(f)
        }

    def to_json(self) -> str:
        """One ASCII line."""
        return json.dumps(self.to_dict(), separators=(", ", ": "))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str) -> Vote:
        """A vote from one line's object; unknown keys (a newer schema's) are ignored.

        Raises :class:`DataError` naming ``where`` for a missing field or an unknown winner.
        """
        check_types(values, TYPES, where)
        for key in ("style_a", "style_b"):
            if not all(_is_number(value) for value in values.get(key, {}).values()):
                raise DataError(f"{where}: {key} holds what is no number")
        for key in ("panel", "marks"):
            if not all(isinstance(value, str) for value in values.get(key, ())):
                raise DataError(f"{where}: {key} holds what is no text")
        known = {f.name for f in dataclasses.fields(cls)}
        try:
            vote = cls(**{key: value for key, value in values.items() if key in known})
        except TypeError as error:
            missing = str(error).partition("argument")[2].lstrip("s: ") or str(error)
            raise DataError(f"{where}: not a vote, missing {missing}") from error
        if vote.winner is not None and vote.winner not in get_args(Winner):
            raise DataError(f"{where}: winner {vote.winner!r} is none of {', '.join(get_args(Winner))}, null")
        if (vote.winner == "graded") != (vote.graded_share is not None):
            raise DataError(f"{where}: winner 'graded' and graded_share belong together")
        if vote.graded_share is not None and not 0 <= vote.graded_share <= 1:
            raise DataError(f"{where}: graded_share is {vote.graded_share!r}; a share is a number from 0 to 1")
        return vote


TYPES: Types = {
    **dict.fromkeys(("task_id", "item_id", "a", "b", "judge", "kind", "ts", "source"), TEXT),
    **dict.fromkeys(("winner", "reason"), TEXT_OR_NONE),
    **dict.fromkeys(("turn", "repeat"), ("a whole number", int)),
    **dict.fromkeys(("both_orders", "placed"), ("true or false", bool)),
    **dict.fromkeys(("panel", "marks"), ("a list", list)),
    **dict.fromkeys(("style_a", "style_b"), ("an object", dict)),
    "graded_share": ("a number or null", (int, float, type(None))),
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12


_ALWAYS = {"task_id", "item_id", "a", "b", "winner", "judge", "kind", "v"}


def _default(f: dataclasses.Field[Any]) -> tuple[Any, ...]:
    if f.default_factory is not dataclasses.MISSING:
        return (f.default_factory(),)
    return (f.default,)


def iso_time(value: object) -> str:
    """Seconds since the epoch or an ISO 8601 text, as ISO 8601 in UTC to the microsecond; else empty.

    All times have one form, so that newer votes compare greater as text.
    """
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            moment = datetime.fromtimestamp(value, UTC)
        elif isinstance(value, datetime):
            moment = value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC)
        else:
            return ""
    except (ValueError, OverflowError, OSError):
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
