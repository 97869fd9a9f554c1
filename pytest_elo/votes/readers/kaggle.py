"""The Kaggle LMSYS CSV: the winner is the one of three columns that holds 1."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_elo.errors import DataError
from pytest_elo.votes.readers.base import Reader, answer_style, has_fields, item_of, text_of_turns
from pytest_elo.votes.records import Vote, Winner
from pytest_elo.votes.rows import Row

__all__ = ["READER"]

_COLUMNS: dict[str, Winner] = {"winner_model_a": "a", "winner_model_b": "b", "winner_tie": "tie"}


def _votes(row: Row, judge: str) -> Iterable[Vote]:
    hot = {column: str(row.need(column)).strip() for column in _COLUMNS}
    if unknown := {value for value in hot.values() if value not in ("0", "1", "0.0", "1.0")}:
        raise DataError(f"{row.where}: winner column holds {min(unknown)!r}, expected 0 or 1")
    won = [column for column, value in hot.items() if float(value) == 1.0]
    if len(won) != 1:
        raise DataError(f"{row.where}: {len(won)} of {', '.join(_COLUMNS)} are 1, expected exactly one")
    yield Vote(
        task_id="arena",
        item_id=item_of(row, "id"),
        a=str(row.need("model_a")),
        b=str(row.need("model_b")),
        winner=_COLUMNS[won[0]],
        judge=judge,
        style_a=answer_style(text_of_turns(row.values.get("response_a"))),
        style_b=answer_style(text_of_turns(row.values.get("response_b"))),
        source=row.where,
    )


READER = Reader("Kaggle LMSYS", has_fields("model_a", "model_b", *_COLUMNS), _votes)
