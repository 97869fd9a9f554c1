"""A recorded call as a line of a file, and files of them: what is looked up is found by where it stands.

A recording of any size costs a process a few dozen bytes a line: the line itself is read when it is asked for.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from pytest_elo._forms import Form, known, listed, mapping, maybe, number, text, whole, with_all
from pytest_elo._lines import line_at
from pytest_elo._parse import parse_json
from pytest_elo._text import shorten
from pytest_elo.errors import DataError

__all__ = ["Lines", "Recorded", "Spot", "read_at", "read_lines", "read_places"]

_OFFSET_BITS = 48
_BEGIN = re.compile(rb'\{"key": "([0-9a-f]{64})", "occurrence": (\d{1,9}), "task_id": "')


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One recorded call. ``attempts`` are ledger rows without what belongs to the run that made them."""

    key: str
    occurrence: int
    task_id: str
    item_id: str
    role: str
    sample: int
    repeat: int
    condition: str
    parameters: Mapping[str, Any]
    prompt_sha256: str
    attempts: tuple[Mapping[str, Any], ...]
    body: Mapping[str, Any] | None
    """The reply, cut down to what is replayed; ``None`` for a call the model's gateway refused."""
    error: Mapping[str, Any] | None = None
    """``{"kind", "http_status"}`` of a call that ended in a refusal which is the model's own doing."""
    purchase: Mapping[str, Any] | None = None
    """``{"call_id", "strategy", "source", "ts": [...]}`` of the call that bought it; only in response stores."""

    def to_json(self) -> str:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.purchase is None:
            del values["purchase"]
        return json.dumps(values, ensure_ascii=False, separators=(", ", ": "))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Raises ``KeyError`` for what is missing, ``TypeError`` for a field that holds something else."""
        for name, form in _FORMS.items():
            if not form(values[name] if name != "purchase" else values.get(name)):
                raise TypeError(f"{name} is {shorten(repr(values[name]), 60)}")
        known = {name: values[name] for name in cls.__dataclass_fields__ if name != "purchase"}
        return cls(**{**known, "attempts": tuple(known["attempts"]), "purchase": values.get("purchase")})

    @property
    def place(self) -> tuple[str, int]:
        return self.key, self.occurrence


_ROW = known(
    **dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens", "total_tokens_high"), whole),
    **dict.fromkeys(("cached_tokens", "reasoning_tokens", "http_status"), maybe(whole)),
    **dict.fromkeys(("finish_reason", "error_kind", "estimated", "response_model"), maybe(text)),
    status=text, latency_s=number, parameters=mapping,
)  # fmt: skip
_FORMS: Mapping[str, Form] = {
    **dict.fromkeys(("key", "task_id", "item_id", "role", "condition", "prompt_sha256"), text),
    **dict.fromkeys(("occurrence", "sample", "repeat"), whole),
    "parameters": mapping,
    "attempts": listed(_ROW),
    "body": maybe(mapping),
    "error": maybe(mapping),
    "purchase": maybe(with_all(strategy=text)),
}


class Spot(NamedTuple):
    """Where a line stands."""

    path: Path
    offset: int


def read_lines(path: Path, torn: set[str] | None = None) -> Iterator[tuple[Spot, Recorded]]:
    """Every line of a file with its spot. Raises ``DataError`` for one that is no recorded call.

    What follows the last line break is a line torn by a killed process: that call is not kept. Where the file is a
    shard, places of lines that are not JSON go to ``torn``: a full disk cuts lines short, and a network file system
    leaves holes of NUL bytes.
    """
    for n, offset, line in _numbered(path):
        where = f"{path}:{n}"
        if torn is None:
            yield Spot(path, offset), _parsed(line, where)
            continue
        if b"\0" in line:
            torn.add(where)
        whole_part = line.strip(b"\0\n")
        if not whole_part:
            continue
        try:
            values = parse_json(whole_part)
        except ValueError:
            torn.add(where)
            continue
        yield Spot(path, offset), _recorded(values, where)


def read_places(path: Path) -> Iterator[tuple[Spot, tuple[str, int]]]:
    """Every line's spot and place.

    A line that begins as we write it is not decoded: a mistake further on is found by who reads it.
    """
    for n, offset, line in _numbered(path):
        begin = _BEGIN.match(line)
        if begin is not None and line.endswith(b"}\n"):
            yield Spot(path, offset), (begin[1].decode(), int(begin[2]))
        else:
            yield Spot(path, offset), _parsed(line, f"{path}:{n}").place


def _numbered(path: Path) -> Iterator[tuple[int, int, bytes]]:
    offset = 0
    with path.open("rb") as stream:
        for n, line in enumerate(stream, start=1):
            if line.endswith(b"\n"):
                yield n, offset, line
            offset += len(line)


def _parsed(line: bytes, where: str) -> Recorded:
    try:
        values = parse_json(line)
    except ValueError as error:
        raise _no_recording(where, error) from None
    return _recorded(values, where)


def _recorded(values: Any, where: str) -> Recorded:
    try:
        return Recorded.from_dict(values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _no_recording(where, error) from None


def _no_recording(where: str, error: Exception) -> DataError:
    return DataError(
        f"{where} is not a recorded call ({type(error).__name__}: {error}): record it "
        "again with `pytest evals --elo-record`"
    )


def read_at(spot: Spot) -> Recorded:
    """The call at ``spot``. Raises ``DataError`` where the file holds none there any more."""
    try:
        line, _ = line_at(spot.path, spot.offset)
    except OSError as error:
        raise DataError(f"{spot.path}: cannot be read any more ({error.strerror})") from None
    return _parsed(line.strip(b"\0"), f"{spot.path}, byte {spot.offset}")


class Lines:
    """Which line answers which question: a question is a tuple, and of two lines for one the first counts.

    Only where lines stand is held, so files may grow while they are in use, but not be written anew.
    """

    def __init__(self) -> None:
        self._spots: dict[bytes, int] = {}
        self._numbers: dict[Path, int] = {}
        self._paths: list[Path] = []

    def __len__(self) -> int:
        return len(self._spots)

    def add(self, question: tuple[object, ...], spot: Spot) -> None:
        number = self._numbers.setdefault(spot.path, len(self._paths))
        if number == len(self._paths):
            self._paths.append(spot.path)
        self._spots.setdefault(_digest(question), number << _OFFSET_BITS | spot.offset)

    def find(self, question: tuple[object, ...]) -> Recorded | None:
        """The call of the line that answers. Raises ``DataError`` where the file holds none there any more."""
        found = self._spots.get(_digest(question))
        if found is None:
            return None
        return read_at(Spot(self._paths[found >> _OFFSET_BITS], found & (1 << _OFFSET_BITS) - 1))


def _digest(question: tuple[object, ...]) -> bytes:
    return hashlib.blake2b(repr(question).encode("utf-8", "surrogatepass"), digest_size=12).digest()
