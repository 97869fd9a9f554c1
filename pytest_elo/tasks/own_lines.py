"""Own tasks as JSON lines, for files too large to hold: checked in one pass, then read line by line on demand.

Each line is an item with the keys of the YAML form. A first line without ``id`` and ``prompt`` is what all items
share (``system``, ``max_tokens``, ``examples``). Only offsets and ids stay in memory.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from pytest_elo._lines import line_at
from pytest_elo._parse import refuse_deep
from pytest_elo._text import safe_id
from pytest_elo.errors import DataError
from pytest_elo.tasks.csv_index import open_data, stamp_from, stamp_of, unreadable
from pytest_elo.tasks.own_item import OwnItem, Shared, build_item, examples_of
from pytest_elo.tasks.rubric import Rubric
from pytest_elo.tasks.yaml_file import Entry

__all__ = ["OwnLines", "read_lines"]

SHARED_KEYS: Final = ("system", "max_tokens", "examples")
_BOM: Final = b"\xef\xbb\xbf"
_PLAIN_KEYS: Final = frozenset(("id", "prompt", "numeric", "exact", "contains"))
_PLAIN_DIGITS: Final = 60
"""Of a whole number that the numeric check takes without a look."""


class _Integer(str):
    """A number as written; ``str`` alone would be text."""

    __slots__ = ()


class _Float(str):
    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLines(Mapping[str, OwnItem]):
    """The items of a file by id; each is read when it is asked for.

    A lookup raises ``DataError`` when the file was changed since.
    """

    path: Path
    shared: Shared
    stamp: tuple[int, int]
    place_of: dict[str, int] = field(default_factory=dict)
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    lines: array[int] = field(default_factory=lambda: array("Q"))

    def __getitem__(self, item_id: str) -> OwnItem:
        i = self.place_of[item_id]
        try:
            line, stat = line_at(self.path, self.offsets[i])
        except OSError as error:
            raise unreadable(self.path, error) from None
        if stamp_from(stat) != self.stamp:
            raise DataError(f"{self.path}: changed while the run was using it; start the run again")
        return build_item(
            _entry(_decoded(line, self.path, self.lines[i]), self.path, self.lines[i]), i + 1, self.shared
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.place_of)

    def __len__(self) -> int:
        return len(self.place_of)


@dataclass(slots=True)
class Survey:
    """What one pass over the file tells of its items."""

    items: OwnLines
    digest: Any = field(default_factory=hashlib.sha256)
    first_of_sort: dict[tuple[str, bool], str] = field(default_factory=dict)
    self_judged: int = 0
    """Rubrics that name no judge."""

    def add(self, record: Any, raw: bytes, offset: int, line: int) -> None:
        items = self.items
        if _is_plain(record):
            item_id, sort, rule = safe_id(record["id"].strip()), (_check_of(record), False), None
        else:
            item = build_item(_entry(record, items.path, line), len(items) + 1, items.shared)
            item_id, sort, rule = item.item_id, item.sort, [item.grading.rule, item.verify and item.verify.rule]
            self.self_judged += isinstance(item.grading, Rubric) and not item.grading.judge
        first = items.place_of.setdefault(item_id, len(items))
        if first != len(items.offsets):
            raise DataError(
                f"{items.path}:{line}: item {len(items.offsets) + 1}: id {item_id!r} stands on line "
                f"{items.lines[first]} already; give every item its own"
            )
        items.offsets.append(offset)
        items.lines.append(line)
        self.first_of_sort.setdefault(sort, item_id)
        self.digest.update(raw.strip())
        self.digest.update(b"\n" if rule is None else json.dumps(rule).encode() + b"\n")


def read_lines(path: Path, shared: Shared) -> Survey:
    """Check every line of ``path``; ``shared`` holds what the file does not say.

    Raises ``DataError`` (one line with file, line, item and key) as for the YAML form.
    """
    stamp = stamp_of(path)
    survey: Survey | None = None
    for line, offset, raw in _raw_lines(path):
        record = _decoded(raw, path, line)
        if survey is None:
            is_header = isinstance(record, dict) and "id" not in record and "prompt" not in record
            shared = _header(_entry(record, path, line), shared) if is_header else shared
            survey = Survey(OwnLines(path=path, shared=shared, stamp=stamp))
            survey.digest.update(json.dumps([shared.system, shared.max_tokens, shared.examples]).encode())
            if is_header:
                continue
        survey.add(record, raw, offset, line)
    if survey is None or not survey.items:
        raise DataError(f"{path}: empty; write one item a line")
    return survey


def _raw_lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """(number, offset, bytes) of every line that is not blank."""
    offset = 0
    with open_data(path) as file:
        for number, raw in enumerate(file, start=1):
            if raw.strip():
                yield number, offset, raw
            offset += len(raw)


def _header(entry: Entry, shared: Shared) -> Shared:
    fields = entry.owned_by("the first line, which is no item,").known_fields(SHARED_KEYS)
    examples = examples_of(fields["examples"]) if "examples" in fields else ()
    return Shared(max_tokens=shared.max_tokens, system=shared.system, examples=examples).overridden_by(fields)


def _is_plain(record: Any) -> bool:
    """Whether an item is of the commonest forms, which no builder would refuse: a few tests instead of a build."""
    if type(record) is not dict or len(record) != 3 or not record.keys() <= _PLAIN_KEYS:
        return False
    if type(record.get("id")) is not str or type(record.get("prompt")) is not str:
        return False
    if not record["id"].strip() or not record["prompt"].strip():
        return False
    if "numeric" in record:
        return type(record["numeric"]) is _Integer and len(record["numeric"]) <= _PLAIN_DIGITS
    text = record.get("exact", record.get("contains"))
    return type(text) is str and bool(text.strip())


def _check_of(record: Mapping[str, object]) -> str:
    return next(key for key in record if key not in ("id", "prompt")).capitalize()


def _decoded(raw: bytes, path: Path, line: int) -> object:
    try:
        value: object = _DECODER.decode(raw.removeprefix(_BOM if line == 1 else b"").decode("utf-8").strip())
        refuse_deep(value)
        return value
    except UnicodeDecodeError as error:
        raise DataError(f"{path}:{line}: not UTF-8 (byte 0x{raw[error.start]:02x}); save the file as UTF-8") from None
    except (ValueError, RecursionError) as error:
        why = " ".join(str(error).split())[:100]
        raise DataError(f"{path}:{line}: not JSON ({why}); write one item a line") from None


def _mapping(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
        raise ValueError(f"key {twice!r} stands here twice")
    return found


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_mapping, parse_int=_Integer, parse_float=_Float, parse_constant=_no_number
)


def _entry(value: object, path: Path, line: int) -> Entry:
    mark = yaml.Mark(str(path), 0, line - 1, 0, None, 0)
    return Entry(path, _node(value, mark))


def _node(value: object, mark: yaml.Mark) -> yaml.Node:
    """A JSON value as the node that the same value in a YAML file has."""
    if isinstance(value, dict):
        pairs = [(_scalar("str", key, mark), _node(member, mark)) for key, member in value.items()]
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, mark, mark)
    if isinstance(value, list):
        return yaml.SequenceNode("tag:yaml.org,2002:seq", [_node(member, mark) for member in value], mark, mark)
    if value is None:
        return _scalar("null", "null", mark)
    if isinstance(value, bool):
        return _scalar("bool", str(value).lower(), mark)
    kind = "int" if isinstance(value, _Integer) else "float" if isinstance(value, _Float) else "str"
    return _scalar(kind, str(value), mark)


def _scalar(kind: str, text: str, mark: yaml.Mark) -> yaml.Node:
    return yaml.ScalarNode(f"tag:yaml.org,2002:{kind}", text, mark, mark)
