"""Read a run directory's ``runs.jsonl`` and ``outcomes.jsonl``; strict, with file and line in every error."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from sys import intern
from typing import Any, TypeVar

from pytest_elo._parse import parse_json
from pytest_elo.errors import DataError
from pytest_elo.ledger.lines import blocks, present
from pytest_elo.records import Attempt, Outcome

__all__ = [
    "TEXT",
    "TEXT_OR_NONE",
    "TOKENS_AT_MOST",
    "Types",
    "attempt_of",
    "check_types",
    "read_attempts",
    "read_outcomes",
    "values_of",
]

REQUIRED = ("task_id", "strategy", "total_tokens")
TOKENS = ("prompt_tokens", "completion_tokens", "total_tokens", "total_tokens_high")
NUMBERS = ("attempt", "repeat", "sample")

Types = Mapping[str, tuple[str, Any]]
"""What each key holds, in words and as ``isinstance`` takes it."""
TEXT, TEXT_OR_NONE = ("a text", str), ("a text or null", (str, type(None)))
ATTEMPT_TYPES: Types = {
    **dict.fromkeys(("task_id", "item_id", "strategy", "model", "ts", "call_id", "status", "role"), TEXT),
    **dict.fromkeys(("finish_reason", "error_kind", "estimated", "response_model"), TEXT_OR_NONE),
    "parameters": ("an object", dict),
}
OUTCOME_TYPES: Types = {
    **dict.fromkeys(("task_id", "item_id", "strategy", "model", "status", "condition"), TEXT),
    **dict.fromkeys(("answer", "expected", "detail", "output", "finish_reason"), TEXT_OR_NONE),
    **dict.fromkeys(("prompt_sha256", "grading_sha256", "response_sha256"), TEXT_OR_NONE),
    **dict.fromkeys(("marks", "call_ids"), ("a list", list)),
    "scores": ("an object", dict),
    "repeat": ("a whole number", int),
}

_ALIKE = ("task_id", "strategy", "model", "role", "status", "finish_reason", "response_model", "condition")
"""Texts that many rows have in common: decoded from JSON, each row would hold its own."""

TOKENS_AT_MOST = 10**12
"""Of one attempt: more is a slip, and sums of ten million rows stay below 2**63."""

Record = TypeVar("Record")


def read_attempts(path: Path, warn: Callable[[str], None]) -> Iterator[Attempt]:
    """Yield the rows of ``runs.jsonl`` (or ``.gz``, ``.zst``), ours or written by the source articles' runner.

    A torn last line (a killed writer) is passed to ``warn``; any other bad line raises ``DataError``:
    a row that cannot be read is a wrong denominator.
    """
    for where, values in _lines(path, warn):
        yield attempt_of(values, where)


def attempt_of(values: dict[str, Any], where: str) -> Attempt:
    """One row; raises ``DataError`` that begins with ``where``."""
    missing = [key for key in REQUIRED if values.get(key) is None]
    if missing:
        raise DataError(
            f"{where}: no {' and no '.join(missing)}; every attempt needs task_id, strategy and total_tokens. "
            "Add what is missing; a row cannot be skipped without changing the denominator"
        )
    for key in ("task_id", "item_id", "strategy"):  # other programs number their tasks
        if isinstance(values.get(key), int):
            values[key] = str(values[key])
    values.setdefault("call_id", where.rpartition(", ")[2].replace(" ", "-"))
    values.setdefault("item_id", values["task_id"])
    values.setdefault("model", "")
    values.setdefault("ts", "")
    values.setdefault("total_tokens_high", values["total_tokens"])
    values.setdefault("status", "ok")
    check_types(values, ATTEMPT_TYPES, where)
    if values.get("latency_s") is None:
        values["latency_s"] = 0.0
    for key in (*TOKENS, *NUMBERS):
        value = values.get(key, 0)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= TOKENS_AT_MOST:
            raise DataError(f"{where}: {key} is {value!r}; a whole number from 0 to 10**12 is expected")
    cached = values.get("cached_tokens")
    if cached is not None and (not isinstance(cached, int) or not 0 <= cached <= TOKENS_AT_MOST):
        raise DataError(f"{where}: cached_tokens is {cached!r}; a whole number or null is expected")
    latency = values["latency_s"]
    if isinstance(latency, bool) or not isinstance(latency, int | float) or not 0 <= latency <= 1e9:
        raise DataError(f"{where}: latency_s is {latency!r}; seconds are a number of at least 0")
    return _record(Attempt.from_dict, values, where)


def read_outcomes(
    path: Path, warn: Callable[[str], None], *, without: Collection[str] = (), passing_over: Collection[str] = ()
) -> Iterator[Outcome]:
    """Yield the lines of ``outcomes.jsonl``; raises ``DataError`` with file and line.

    Fields ``without`` which the caller does are left at their defaults. Lines that plainly have one of the statuses
    ``passing_over`` are not looked at; others may have them still.
    """
    # no text in JSON holds a quotation mark that is not escaped, so this stands nowhere but where it says the status
    passed = [f'"status": "{status}"'.encode() for status in passing_over]
    for where, values in _lines(path, warn, passed):
        check_types(values, OUTCOME_TYPES, where)
        for key in without:
            values.pop(key, None)
        if not values.get("marks"):
            values["marks"] = ()
        if values.get("answer") == values.get("expected"):
            values["answer"] = values.get("expected")
        outcome = _record(Outcome.from_dict, values, where)
        score = outcome.score
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
            raise DataError(f"{where}: score is {outcome.score!r}; a score is a number from 0 to 1")
        yield outcome


def check_types(values: Mapping[str, Any], types: Types, where: str) -> None:
    """Raises ``DataError`` that begins with ``where`` for a value of another type; keys may be missing."""
    for key, (wanted, kinds) in types.items():
        if key in values and not isinstance(values[key], kinds):
            raise DataError(f"{where}: {key} is {str(values[key])[:80]!r}; {wanted} is expected")


def _record(build: Callable[[dict[str, Any]], Record], values: dict[str, Any], where: str) -> Record:
    for key in _ALIKE:
        if type(value := values.get(key)) is str:
            values[key] = intern(value)
    try:
        return build(values)
    except TypeError as error:
        raise DataError(f"{where}: {str(error).split('__init__() ')[-1]}; is this a file of pytest-elo?") from None


def _lines(
    path: Path, warn: Callable[[str], None], passed: Sequence[bytes] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    path = present(path)
    for number, block in blocks(path):
        yield from values_of(path, number, block, warn, passed)


def values_of(
    path: Path, first: int, block: bytes, warn: Callable[[str], None], passed: Sequence[bytes] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, object) of each line of a block whose first line has the number ``first``, but for those ``passed``."""
    lines = block.split(b"\n")
    for number, raw in enumerate(lines, start=first):
        if not raw.strip() or any(mark in raw for mark in passed):
            continue
        where = f"{path}, line {number}"
        try:
            values = parse_json(raw)
        except ValueError:
            if number == first + len(lines) - 1:
                warn(f"{where}: the last line is torn (its writer was killed) and was left out")
                return
            raise DataError(f"{where}: not JSON; mend or remove the line knowingly") from None
        if not isinstance(values, dict):
            raise DataError(f"{where}: one JSON object a line is expected")
        yield where, values
