"""PandaLM test sets: three annotators a record; the two models stand in ``cmp_key`` (``first_second``)."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_elo.errors import DataError
from pytest_elo.votes.readers.base import Reader, answer_style, has_fields, item_of, null
from pytest_elo.votes.records import Vote, Winner
from pytest_elo.votes.rows import Row

__all__ = ["READER"]

_LABELS: dict[str, Winner] = {"1": "a", "2": "b", "0": "tie"}


def _votes(row: Row, judge: str) -> Iterable[Vote]:
    models = str(row.need("cmp_key")).split("_")
    if len(models) != 2:
        raise DataError(f"{row.where}: cmp_key {row.values['cmp_key']!r} does not name two models")
    annotators = sorted(field for field in row.values if field.startswith("annotator"))
    for annotator in annotators:
        winner = _winner(row, annotator)
        yield Vote(
            task_id="arena",
            item_id=item_of(row, "idx"),
            a=models[0],
            b=models[1],
            winner=winner,
            reason=None if winner else "null",
            judge=annotator,
            placed=False,
            style_a=answer_style(row.values.get("response1")),
            style_b=answer_style(row.values.get("response2")),
            source=row.where,
        )


def _winner(row: Row, annotator: str) -> Winner | None:
    value = row.values[annotator]
    if null(value):
        return None
    if isinstance(value, bool) or str(value) not in _LABELS:
        raise DataError(f"{row.where}: {annotator} {value!r} is none of 1, 2, 0")
    return _LABELS[str(value)]


READER = Reader("PandaLM", has_fields("cmp_key", "annotator1"), _votes)
