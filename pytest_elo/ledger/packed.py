"""Records as small byte strings: what a run holds of each of its rows until its files are written.

What rows have in common (their *template*) is held once; of each row only what is its own is held, marshalled, the
hexadecimal names in it as the bytes they stand for. An attempt takes about 140 bytes in place of 900.
"""

from __future__ import annotations

import dataclasses
import json
import marshal
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, Generic, TypeVar

from pytest_elo.records import Attempt, Outcome

__all__ = ["Packed", "packed_attempts", "packed_name", "packed_outcomes"]

Record = TypeVar("Record", bound=Attempt | Outcome)

_HEX_LENGTHS = (32, 64)
_encode = json.JSONEncoder(separators=(", ", ": ")).encode


class Packed(Generic[Record]):
    """Packs records of one class and gives them back, equal in all their fields.

    Args:
        record: the class.
        own: fields that differ from row to row; all others are the template.
        by_name: a mapping field of which the keys belong to the template and the values to the row.
    """

    def __init__(self, record: type[Record], *own: str, by_name: str) -> None:
        names = [field.name for field in dataclasses.fields(record)]
        self._record = record
        self._names = dict.fromkeys(names)
        self._by_name = by_name
        self._own = own
        self._common = tuple(name for name in names if name not in (*own, by_name))
        self._own_of, self._common_of = itemgetter(*own), itemgetter(*self._common)
        self._numbers: dict[bytes, int] = {}
        self._templates: list[tuple[dict[str, Any], tuple[str, ...]]] = []

    def pack(self, values: Mapping[str, Any]) -> bytes:
        """``values`` as a JSON object has them. Raises ``TypeError`` where they make no record."""
        if values.keys() != self._names.keys():
            values = self._record.from_dict(values).to_dict()
        common: tuple[Any, ...] = self._common_of(values)
        named: Mapping[str, Any] = values[self._by_name]
        template = marshal.dumps((common, tuple(named)), 2)
        number = self._numbers.get(template)
        if number is None:
            number = len(self._templates)
            self._templates.append((dict(zip(self._common, common, strict=True)), tuple(named)))
            self._numbers[template] = number  # last: an interrupt in between leaves a template that nobody uses
        return marshal.dumps((number, *map(_small, self._own_of(values)), *named.values()))

    def unpack(self, packed: bytes) -> dict[str, Any]:
        """The values again, in an order of their own."""
        number, *rest = marshal.loads(packed)
        common, names = self._templates[number]
        values = dict(common)
        for name, value in zip(self._own, rest, strict=False):
            values[name] = value if type(value) is not bytes and type(value) is not list else _whole(value)
        values[self._by_name] = dict(zip(names, rest[len(self._own) :], strict=True))
        return values

    def record(self, packed: bytes) -> Record:
        return self._record(**self.unpack(packed))

    def line(self, values: Mapping[str, Any]) -> str:
        """What ``to_json`` says of the record of these values."""
        return _encode({name: values[name] for name in self._names})

    def where(self, key: str) -> Iterator[Mapping[str, Any]]:
        """The common fields of all rows in whose mapping field ``key`` stands."""
        return (common for common, names in self._templates if key in names)


def packed_attempts() -> Packed[Attempt]:
    return Packed(
        Attempt, "ts", "item_id", "call_id", "attempt", "sample", "latency_s", "prompt_tokens", "completion_tokens",
        "total_tokens", "total_tokens_high", "cached_tokens", "reasoning_tokens", by_name="parameters",
    )  # fmt: skip


def packed_outcomes() -> Packed[Outcome]:
    return Packed(
        Outcome, "item_id", "score", "answer", "expected", "detail", "output", "call_ids", "prompt_sha256",
        "grading_sha256", "response_sha256", by_name="scores",
    )  # fmt: skip


def packed_name(text: str) -> str | bytes:
    """A hexadecimal name as its bytes, any other as it is: equal names stay equal, different ones different."""
    if len(text) in _HEX_LENGTHS:
        try:
            data = bytes.fromhex(text)
        except ValueError:
            return text
        if data.hex() == text:
            return data
    return text


def _small(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return packed_name(value) if len(value) in _HEX_LENGTHS else value
    if kind is list or kind is tuple:
        return list(map(_small, value))
    return value


def _whole(value: Any) -> Any:
    if type(value) is bytes:
        return value.hex()
    return list(map(_whole, value)) if type(value) is list else value
