"""Read a run directory's ``runs.jsonl`` and ``outcomes.jsonl``; strict, with file and line in every error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pytest_elo.errors import DataError
from pytest_elo.records import Attempt, Outcome

__all__ = ["read_attempts", "read_outcomes"]

REQUIRED = ("task_id", "strategy", "total_tokens")
TOKENS = ("prompt_tokens", "completion_tokens", "total_tokens")

Record = TypeVar("Record")


def read_attempts(path: Path, warn: Callable[[str], None]) -> Iterator[Attempt]:
    """Yield the rows of ``runs.jsonl``, ours or one written by the source articles' runner.

    A torn last line (a killed writer) is passed to ``warn``; any other bad line raises ``DataError``:
    a row that cannot be read is a wrong denominator.
    """
    for number, values in _lines(path, warn):
        where = f"{path}, line {number}"
        missing = [key for key in REQUIRED if values.get(key) is None]
        if missing:
            raise DataError(
                f"{where}: no {' and no '.join(missing)}; every attempt needs task_id, strategy and total_tokens. "
                "Add what is missing; a row cannot be skipped without changing the denominator"
            )
        for key in TOKENS:
            value = values.get(key, 0)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise DataError(f"{where}: {key} is {value!r}; token counts are whole numbers of at least 0")
        values.setdefault("call_id", f"line-{number}")
        values.setdefault("item_id", str(values["task_id"]))
        values.setdefault("model", "")
        values.setdefault("ts", "")
        values.setdefault("total_tokens_high", values["total_tokens"])
        yield _record(Attempt.from_dict, values, where)


def read_outcomes(path: Path, warn: Callable[[str], None]) -> Iterator[Outcome]:
    """Yield the lines of ``outcomes.jsonl``; raises ``DataError`` with file and line."""
    for number, values in _lines(path, warn):
        where = f"{path}, line {number}"
        outcome = _record(Outcome.from_dict, values, where)
        score = outcome.score
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
            raise DataError(f"{where}: score is {outcome.score!r}; a score is a number from 0 to 1")
        yield outcome


def _record(build: Callable[[dict[str, Any]], Record], values: dict[str, Any], where: str) -> Record:
    try:
        return build(values)
    except TypeError as error:
        raise DataError(f"{where}: {str(error).split('__init__() ')[-1]}; is this a file of pytest-elo?") from None


def _lines(path: Path, warn: Callable[[str], None]) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        stream = path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    with stream:
        for number, raw in enumerate(stream, start=1):
            if not raw.strip():
                continue
            try:
                values = json.loads(raw)
            except (ValueError, RecursionError):
                if not raw.endswith(b"\n"):
                    warn(f"{path}, line {number}: the last line is torn (its writer was killed) and was left out")
                    return
                raise DataError(f"{path}, line {number}: not JSON; mend or remove the line knowingly") from None
            if not isinstance(values, dict):
                raise DataError(f"{path}, line {number}: one JSON object a line is expected")
            yield number, values
