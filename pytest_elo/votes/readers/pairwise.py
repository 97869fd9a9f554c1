"""The article's ``pairwise.json``: ``{task: [[winner, loser], ...]}``. It knows no ties and no items."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_elo.errors import DataError
from pytest_elo.votes.readers.base import Reader
from pytest_elo.votes.records import Vote
from pytest_elo.votes.rows import Row

__all__ = ["READER"]


def _claims(row: Row) -> bool:
    """Whether every value of the object is a list of lists, as in no other format."""
    values = row.values.values()
    return bool(row.values) and all(
        isinstance(value, list) and all(isinstance(pair, list) for pair in value) for value in values
    )


def _votes(row: Row, judge: str) -> Iterable[Vote]:
    for task, pairs in row.values.items():
        for number, pair in enumerate(pairs, start=1):
            where = f"{row.path}: {task}[{number}]"
            if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
                raise DataError(f"{where}: {pair!r} is not [winner, loser]")
            yield Vote(
                task_id=task,
                item_id=str(number),
                a=pair[0],
                b=pair[1],
                winner="a",
                judge=judge,
                placed=False,
                source=where,
            )


READER = Reader("pairwise.json", _claims, _votes)
