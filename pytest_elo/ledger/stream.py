"""A ledger of any size in one pass: rows become sums a block at a time, and a few rows are kept to be shown.

With ``msgspec`` installed a block is decoded at once into what the sums need. A block that does not fit goes
through the plain reader, which has the same rules for these fields and says file and line. A large plain file is
read in parts, the first by this process and the others by one process a core.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_elo._gc import without_gc
from pytest_elo.errors import EloError
from pytest_elo.ledger.fast import decoder
from pytest_elo.ledger.lines import COMPRESSED, blocks, present
from pytest_elo.ledger.read import attempt_of, values_of
from pytest_elo.ledger.sums import Columns, Sums, columns_of
from pytest_elo.records import Attempt

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Watch", "read_sums"]

PART = 128 << 20
"""Bytes that are worth a process of their own: starting one takes as long as reading a quarter of that."""

Place = tuple[str, str, str, int]
Batch = tuple[Columns, Callable[[Sequence[int]], list[Attempt]]]


@dataclass(slots=True)
class Watch:
    """Which trials' attempts are wanted themselves, and at most how many in all; found in ``rows``."""

    places: Collection[Place]
    limit: int
    rows: list[Attempt] = field(default_factory=list)
    _wanted: list[bool] = field(default_factory=list)

    def see(self, sums: Sums, slots: NDArray[Any], whole: Callable[[Sequence[int]], list[Attempt]]) -> None:
        """Keep what is wanted of a batch whose rows went to ``slots``; ``whole`` gives the rows by position."""
        room = self.limit - len(self.rows)
        if room <= 0 or not self.places:
            return
        for key in sums.keys[len(self._wanted) :]:
            self._wanted.append(key[:4] in self.places)
        found = [i for i, slot in enumerate(slots.tolist()) if self._wanted[slot]][:room]
        if found:
            self.rows.extend(whole(found))


def read_sums(path: Path, warn: Callable[[str], None], watch: Watch | None = None) -> Sums:
    """The sufficient statistics of ``runs.jsonl`` (``.gz`` and ``.zst`` too).

    Raises ``DataError`` with file and line as ``read_attempts`` does; a torn last line goes to ``warn``.
    """
    path = present(path)
    parts = _parts(path)
    if len(parts) > 1:
        several = _read_parts(path, parts, watch)
        if several is not None:
            return several
    return _read(path, 0, None, warn, watch)


def _read(path: Path, start: int, end: int | None, warn: Callable[[str], None], watch: Watch | None) -> Sums:
    sums = Sums()
    with without_gc():
        for columns, whole in _batches(path, start, end, warn):
            slots = sums.add(columns)
            if watch is not None:
                watch.see(sums, slots, whole)
    return sums


def _batches(path: Path, start: int, end: int | None, warn: Callable[[str], None]) -> Iterator[Batch]:
    decode = decoder()
    for number, block in blocks(path, start, end):
        columns = decode(block) if decode is not None and block.endswith(b"\n") else None
        if columns is not None:
            yield columns, partial(_whole, path, number, block)
        else:
            found = [attempt_of(values, where) for where, values in values_of(path, number, block, warn)]
            yield columns_of(found), partial(_chosen, found)


def _chosen(rows: Sequence[Attempt], positions: Sequence[int]) -> list[Attempt]:
    return [rows[i] for i in positions]


def _whole(path: Path, number: int, block: bytes, positions: Sequence[int]) -> list[Attempt]:
    lines = [line for line in block.split(b"\n") if line.strip()]
    chosen = b"".join(lines[i] + b"\n" for i in positions)
    return [attempt_of(values, where) for where, values in values_of(path, number, chosen, lambda _: None)]


def _parts(path: Path) -> list[tuple[int, int]]:
    """Byte ranges that begin with a line, one a process; a compressed file is one."""
    if path.suffix in COMPRESSED or not path.is_file():
        return [(0, 0)]
    size = path.stat().st_size
    n = min(os.cpu_count() or 1, size // PART)
    if n < 2:
        return [(0, size)]
    cuts = [0]
    with path.open("rb") as stream:
        for i in range(1, n):
            stream.seek(max(cuts[-1], i * size // n))
            stream.readline()
            cuts.append(stream.tell())
    return [(start, end) for start, end in zip(cuts, [*cuts[1:], size], strict=True) if end > start]


def _read_parts(path: Path, parts: Sequence[tuple[int, int]], watch: Watch | None) -> Sums | None:
    """All parts at once; ``None`` where anything is odd, so that one process reads and says it with its line."""
    from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
    from multiprocessing import get_context

    wanted = None if watch is None else (watch.places, watch.limit)
    try:
        with ProcessPoolExecutor(len(parts) - 1, mp_context=get_context("spawn")) as pool:
            others = [pool.submit(_read_part, path, part, wanted) for part in parts[1:]]
            found = [_read_part(path, parts[0], wanted), *(other.result() for other in others)]
    except (OSError, BrokenExecutor):
        return None  # no room for another process: one alone takes longer and needs less
    sums = Sums()
    rows: list[Attempt] = []
    for answer in found:
        if answer is None:
            return None
        sums.merge(answer[0])
        rows.extend(answer[1])
    if watch is not None:
        watch.rows.extend(rows[: watch.limit])
    return sums


def _read_part(
    path: Path, part: tuple[int, int], wanted: tuple[Collection[Place], int] | None
) -> tuple[Sums, list[Attempt]] | None:
    odd: list[str] = []
    watch = None if wanted is None else Watch(*wanted)
    try:
        sums = _read(path, *part, odd.append, watch)
    except EloError:
        return None
    return None if odd else (sums, watch.rows if watch is not None else [])
