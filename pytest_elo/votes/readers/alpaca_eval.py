"""AlpacaEval annotations: ``preference`` runs from 1 (first answer) to 2 (second answer).

1.5 and the older 0 are draws, null is a judge that failed. The numbering of the two answers is not the
order in which the judge saw them, so nothing can be said about slots.
"""

from __future__ import annotations

from collections.abc import Iterable

from pytest_elo._text import text_hash
from pytest_elo.errors import DataError
from pytest_elo.votes.readers.base import Reader, answer_style, has_fields, null
from pytest_elo.votes.records import Vote, Winner
from pytest_elo.votes.rows import Row

__all__ = ["READER"]

_EXACT: dict[float, Winner] = {1.0: "a", 2.0: "b", 1.5: "tie", 0.0: "tie"}


def _votes(row: Row, judge: str) -> Iterable[Vote]:
    winner, graded = _preference(row)
    instruction = str(row.values.get("instruction") or f"{row.path.name}:{row.line}")
    yield Vote(
        task_id="arena",
        item_id=text_hash(instruction).hexdigest()[:16],
        a=str(row.need("generator_1")),
        b=str(row.need("generator_2")),
        winner=winner,
        graded_share=graded,
        reason=None if winner else "null",
        judge=str(row.values.get("annotator") or judge),
        kind="model",
        placed=False,
        style_a=answer_style(row.values.get("output_1")),
        style_b=answer_style(row.values.get("output_2")),
        source=row.where,
    )


def _preference(row: Row) -> tuple[Winner | None, float | None]:
    value = row.need("preference")
    if null(value):
        return None, None
    if isinstance(value, bool) or not isinstance(value, int | float) or not (value == 0 or 1 <= value <= 2):
        raise DataError(f"{row.where}: preference {value!r} is not 0, null or from 1 to 2")
    if value in _EXACT:
        return _EXACT[float(value)], None
    return "graded", 2.0 - value


READER = Reader("AlpacaEval", has_fields("generator_1", "generator_2", "preference"), _votes)
