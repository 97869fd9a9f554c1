"""FastChat ``llm_judge`` pair files: two games a record, the second with the slots swapped."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_elo.votes.readers.base import Reader, has_fields, item_of, winner_of
from pytest_elo.votes.records import Vote, Winner, iso_time
from pytest_elo.votes.rows import Row

__all__ = ["READER"]

_GAME_1: dict[str, Winner | None] = {"model_1": "a", "model_2": "b", "tie": "tie", "error": None}
_GAME_2: dict[str, Winner | None] = {"model_1": "b", "model_2": "a", "tie": "tie", "error": None}


def _votes(row: Row, judge: str) -> Iterable[Vote]:
    model_1, model_2 = str(row.need("model_1")), str(row.need("model_2"))
    yield _vote(row, judge, "g1_winner", _GAME_1, model_1, model_2)
    yield _vote(row, judge, "g2_winner", _GAME_2, model_2, model_1)


def _vote(row: Row, judge: str, field: str, labels: dict[str, Winner | None], a: str, b: str) -> Vote:
    failed = row.need(field) == "error"
    winner = None if failed else winner_of(row, field, {k: v for k, v in labels.items() if v})
    named = row.values.get("judge")
    return Vote(
        task_id="arena",
        item_id=item_of(row, "question_id"),
        a=a,
        b=b,
        winner=winner,
        reason="error" if failed else (None if winner else "null"),
        judge=str(named[0] if isinstance(named, list) and named else named or judge),
        kind="model",
        both_orders=True,
        turn=row.whole("turn", 1),
        ts=iso_time(row.values.get("tstamp")),
        source=row.where,
    )


READER = Reader("FastChat pairs", has_fields("model_1", "model_2", "g1_winner", "g2_winner"), _votes)
