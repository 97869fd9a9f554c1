"""What a reader of vote files is, and what all of them share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.errors import DataError
from pytest_elo.votes.records import Vote, Winner
from pytest_elo.votes.rows import Row
from pytest_elo.votes.style import style_of

__all__ = ["Reader", "answer_style", "has_fields", "item_of", "null", "text_of_turns", "winner_of"]


@dataclass(frozen=True, slots=True)
class Reader:
    """One format. ``claims`` tells its records from every other format's, mostly by their fields.

    ``votes`` turns a record into its votes; the second argument is the judge's name where the file has
    none. It raises :class:`DataError` with file and line for a label that the format does not define.
    """

    name: str
    claims: Callable[[Row], bool]
    votes: Callable[[Row, str], Iterable[Vote]]


def has_fields(*fields: str) -> Callable[[Row], bool]:
    """Claims the records that hold all of ``fields``."""
    wanted = frozenset(fields)
    return lambda row: wanted <= row.values.keys()


def winner_of(row: Row, field: str, labels: Mapping[str, Winner]) -> Winner | None:
    """The winner that ``labels`` gives for the field's text; ``None`` for a null. Nothing is guessed."""
    value = row.need(field)
    if null(value):
        return None
    label = value.strip() if isinstance(value, str) else value
    if not isinstance(label, str) or label not in labels:
        raise DataError(f"{row.where}: {field} {label!r} is none of {', '.join(labels)}")
    return labels[label]


def null(value: object) -> bool:
    """Whether a file says "no value": null, NaN, or an empty text."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and value.strip().lower() in ("", "nan", "null", "none"))


def item_of(row: Row, *fields: str) -> str:
    """The first of ``fields`` that names the item; a record without any is an item of its own."""
    for field in fields:
        value = row.values.get(field)
        if not null(value):
            return str(value)
    return f"{row.path.name}:{row.line}"


def answer_style(text: object) -> Mapping[str, float]:
    """The style of an answer where the file holds its text."""
    return style_of(text) if isinstance(text, str) and text else {}


def text_of_turns(turns: object) -> str | None:
    """The assistant's words in a conversation: OpenAI-like messages, content parts, or a JSON list."""
    if isinstance(turns, str):
        try:
            return text_of_turns(parse_json(turns))
        except ValueError:
            return turns
    if not isinstance(turns, list):
        return None
    said = [_content(turn) for turn in turns if not isinstance(turn, dict) or turn.get("role") == "assistant"]
    return "\n\n".join(filter(None, said))


def _content(turn: Any) -> str:
    content = turn.get("content") if isinstance(turn, dict) else turn
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
