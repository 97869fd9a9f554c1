"""The rows of one ``runs.jsonl`` in the order of all ledgers, as the lines they are."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.ledger.lines import blocks
from pytest_elo.ledger.read import attempt_of, values_of

__all__ = ["Row", "rows_in_order"]

Order = tuple[str, str, str, int, str, int, str, int]
ORDER = ("task_id", "item_id", "strategy", "repeat", "ts", "sample", "call_id", "attempt")

CHUNK = 40_000
"""Rows that are sorted in memory at once where a file is not in order."""


@dataclass(frozen=True, slots=True)
class Row:
    order: Order
    line: bytes
    folder: Path

    @property
    def name(self) -> tuple[str, int]:
        """What makes an attempt the same attempt."""
        return self.order[6], self.order[7]


def rows_in_order(path: Path, folder: Path, scratch: Path, warn: Callable[[str], None]) -> Iterator[Row]:
    """Rows sorted by ``ORDER``. A file that is not (another program's) is sorted by way of ``scratch``.

    Raises ``DataError`` as ``read_attempts`` does.
    """
    if _is_in_order(path, warn):
        return _rows(path, folder, lambda _: None)
    scratch.mkdir(parents=True, exist_ok=True)
    return heapq.merge(*_sorted_chunks(path, folder, scratch), key=lambda row: row.order)


def _is_in_order(path: Path, warn: Callable[[str], None]) -> bool:
    last: Order | None = None
    for order, _ in _ordered(path, warn):
        if last is not None and order < last:
            return False
        last = order
    return True


def _rows(path: Path, folder: Path, warn: Callable[[str], None]) -> Iterator[Row]:
    return (Row(order, line, folder) for order, line in _ordered(path, warn))


def _sorted_chunks(path: Path, folder: Path, scratch: Path) -> list[Iterator[Row]]:
    rest = _rows(path, folder, lambda _: None)
    chunks: list[Iterator[Row]] = []
    while chunk := sorted(islice(rest, CHUNK), key=lambda row: row.order):
        file = scratch / f"{len(chunks)}.jsonl"
        with file.open("wb") as stream:
            stream.writelines(json.dumps(row.order).encode() + b"\t" + row.line + b"\n" for row in chunk)
        chunks.append(_chunk(file, folder))
    return chunks


def _chunk(file: Path, folder: Path) -> Iterator[Row]:
    with file.open("rb") as stream:
        for line in stream:
            order, _, row = line.rstrip(b"\n").partition(b"\t")
            yield Row(tuple(parse_json(order)), row, folder)


def _ordered(path: Path, warn: Callable[[str], None]) -> Iterator[tuple[Order, bytes]]:
    decode = _decoder()
    for number, block in blocks(path):
        orders = decode(block) if decode is not None and block.endswith(b"\n") else None
        if orders is not None:
            lines = (line for line in block.split(b"\n") if line.strip())
            yield from zip(orders, lines, strict=True)
        else:
            yield from _plainly(path, number, block, warn)


def _plainly(path: Path, number: int, block: bytes, warn: Callable[[str], None]) -> Iterator[tuple[Order, bytes]]:
    lines = block.split(b"\n")
    for where, values in values_of(path, number, block, warn):
        row = attempt_of(values, where)
        order = tuple(getattr(row, name) for name in ORDER)
        yield order, lines[int(where.rpartition(" ")[2]) - number]


@lru_cache(maxsize=1)
def _decoder() -> Callable[[bytes], list[Order] | None] | None:
    try:
        import msgspec
    except ImportError:
        return None
    kinds: dict[str, Any] = dict.fromkeys(ORDER, str) | dict.fromkeys(("repeat", "sample", "attempt"), int)
    fields: list[Any] = [(name, kinds[name], *((0,) if kinds[name] is int else ())) for name in ORDER]
    row = msgspec.defstruct("Order", [*fields, ("total_tokens", int)], kw_only=True, gc=False)
    return partial(_decode, msgspec.json.Decoder(row).decode_lines, msgspec.structs.astuple, msgspec.MsgspecError)


def _decode(lines: Any, values: Any, error: type[Exception], block: bytes) -> list[Order] | None:
    try:
        orders = [values(row)[: len(ORDER)] for row in lines(block)]
    except (error, UnicodeDecodeError, RecursionError):
        return None
    return orders if len(orders) == block.count(b"\n") else None  # msgspec takes two rows on one line, JSON does not
