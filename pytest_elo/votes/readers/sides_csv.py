"""Tables of two sides and a winner: ``left,right,winner`` (LLMFAO, Evalica) and ``x,y,winner``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pytest_elo.votes.readers.base import Reader, has_fields, item_of, null, winner_of
from pytest_elo.votes.records import Vote, Winner
from pytest_elo.votes.rows import Row

__all__ = ["READER", "XY_READER"]


def _reader_of(first: str, second: str) -> Callable[[Row, str], Iterable[Vote]]:
    labels: dict[str, Winner] = {first: "a", second: "b", "tie": "tie"}

    def votes(row: Row, judge: str) -> Iterable[Vote]:
        winner = winner_of(row, "winner", labels)
        worker = row.values.get("worker")
        yield Vote(
            task_id="arena",
            item_id=item_of(row, "prompt", "question_id"),
            a=str(row.need(first)),
            b=str(row.need(second)),
            winner=winner,
            reason=None if winner else "null",
            judge=judge if null(worker) else str(worker),
            source=row.where,
        )

    return votes


READER = Reader("left/right table", has_fields("left", "right", "winner"), _reader_of("left", "right"))
XY_READER = Reader("x/y table", has_fields("x", "y", "winner"), _reader_of("x", "y"))
