"""Our own ``votes.jsonl``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pytest_elo.votes.readers.base import Reader, has_fields
from pytest_elo.votes.records import Vote
from pytest_elo.votes.rows import Row

__all__ = ["READER"]


def _votes(row: Row, judge: str) -> Iterable[Vote]:
    yield replace(Vote.from_dict(row.values, row.where), source=row.where)


READER = Reader("pytest-elo", has_fields("task_id", "item_id", "a", "b", "winner", "judge"), _votes)
