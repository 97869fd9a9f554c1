"""Chatbot Arena releases (33k, 55k, 140k), MT-bench human judgments, and FastChat's cleaned logs.

``model_a`` is the answer on the left. The 140k release spells "both bad" with an underscore, counts
tokens and Markdown in ``conv_metadata`` and names the voter by ``evaluation_session_id``. MT-bench's
model judge is a list, its verdict stands for both orders ("tie (inconsistent)" where they disagreed).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_elo.errors import DataError
from pytest_elo.votes.readers.base import (
    Reader,
    answer_style,
    has_fields,
    item_of,
    null,
    text_of_turns,
    winner_of,
)
from pytest_elo.votes.records import Vote, Winner, iso_time
from pytest_elo.votes.rows import Row

__all__ = ["LABELS", "READER"]

LABELS: dict[str, Winner] = {
    "model_a": "a",
    "model_b": "b",
    "tie": "tie",
    "tie (bothbad)": "both_bad",
    "both_bad": "both_bad",
    "tie (inconsistent)": "tie",
}


def _votes(row: Row, judge: str) -> Iterable[Vote]:
    winner = winner_of(row, "winner", LABELS)
    voters = [row.values.get(field) for field in ("judge", "evaluation_session_id")]
    voter = next((v for v in voters if not null(v) and v != []), judge)
    yield Vote(
        task_id="arena",
        item_id=item_of(row, "question_id", "id"),
        a=str(row.need("model_a")),
        b=str(row.need("model_b")),
        winner=winner,
        reason=None if winner else "null",
        judge=str(voter[0] if isinstance(voter, list) else voter),
        kind="model" if isinstance(voter, list) else "person",
        placed=not isinstance(voter, list),
        turn=row.whole("turn", 1),
        ts=iso_time(row.values.get("tstamp") or row.values.get("timestamp")),
        style_a=_style(row, "a"),
        style_b=_style(row, "b"),
        source=row.where,
    )


def _style(row: Row, side: str) -> Mapping[str, float]:
    style = dict(answer_style(text_of_turns(row.values.get(f"conversation_{side}"))))
    counted = row.values.get("conv_metadata")
    if isinstance(counted, dict):
        for name, field in (
            ("tokens", f"sum_assistant_{side}_tokens"),
            ("headers", f"header_count_{side}"),
            ("lists", f"list_count_{side}"),
            ("bold", f"bold_count_{side}"),
        ):
            if not null(counted.get(field)):
                style[name] = _total(counted[field], f"{row.where}: conv_metadata.{field}")
    return style


def _total(count: Any, where: str) -> float:
    """A count, or the sum of a count by kind (``{"h1": 2, "h2": 0}``)."""
    kinds = count.values() if isinstance(count, dict) else [count]
    try:
        total = float(sum(value for value in kinds if value is not None))
    except (TypeError, ValueError, OverflowError):
        total = math.nan
    if not math.isfinite(total):
        raise DataError(f"{where} is {count!r}; expected a count")
    return total


READER = Reader("LMSYS arena", has_fields("model_a", "model_b", "winner"), _votes)
