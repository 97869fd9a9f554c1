"""A CSV file read once for checks and then row by row on demand, so that its size does not matter.

Only byte offsets stay in memory. Rows are records, not lines: quoted cells may hold line breaks.
"""

from __future__ import annotations

import csv
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pytest_elo._text import did_you_mean
from pytest_elo.errors import DataError

__all__ = ["CsvIndex", "Row", "open_data", "scan", "stamp_from", "stamp_of", "unreadable"]

_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Row:
    """One record: its first line (1-based), where that starts in the file, and the wanted cells by column.

    The cells are the file's own text; they are left out of ``repr`` because question sets ask not to be
    printed.
    """

    line: int
    offset: int
    cells: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Row(line={self.line}, offset={self.offset})"


class _Lines:
    """Physical lines of an open file as text, knowing where the next one starts."""

    def __init__(self, file: BinaryIO, path: Path, *, offset: int = 0, line: int = 0) -> None:
        file.seek(offset)
        self._file = file
        self._path = path
        self.offset = offset
        self.line = line

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        raw = self._file.readline()
        if not raw:
            raise StopIteration
        self.line += 1
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self._path}:{self.line}: not UTF-8 (byte 0x{raw[error.start]:02x}); save the file as UTF-8"
            ) from None
        text = text.removeprefix(_BOM) if self.offset == 0 else text
        self.offset += len(raw)
        return text


def _records(lines: _Lines, path: Path) -> Iterator[tuple[int, int, Sequence[str]]]:
    """(first line, offset, cells) of every record that is not a blank line."""
    reader = csv.reader(lines, strict=True)
    while True:
        line, offset = lines.line + 1, lines.offset
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DataError(
                f"{path}:{line}: not readable as CSV ({error}); check the quotes of the row on this line"
            ) from None
        if cells is None:
            return
        if cells:
            yield line, offset, cells


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where the wanted columns stand."""

    n: int
    at: Mapping[str, int]

    def row(self, path: Path, line: int, offset: int, cells: Sequence[str]) -> Row:
        if len(cells) > self.n:
            raise DataError(f"{path}:{line}: {len(cells)} cells but {self.n} columns; quote cells that hold a comma")
        return Row(line, offset, {name: cells[i] if i < len(cells) else "" for name, i in self.at.items()})


def _columns(path: Path, header: Sequence[str], required: Sequence[str], optional: Sequence[str]) -> _Columns:
    names = [name.strip() for name in header]
    missing = [name for name in required if name not in names]
    if missing:
        unnamed = ", ".join(map(repr, missing))
        hint = did_you_mean(missing[0], names)
        raise DataError(f"{path}:1: the header has no {unnamed}; columns are matched by exact name{hint}")
    twice = [name for name in required if names.count(name) > 1]
    if twice:
        raise DataError(f"{path}:1: the header has {', '.join(map(repr, twice))} twice; rename one of each")
    return _Columns(len(names), {name: names.index(name) for name in (*required, *optional) if name in names})


@dataclass(frozen=True, slots=True)
class CsvIndex:
    """Random access to the records of a file that :func:`scan` has read."""

    path: Path
    columns: _Columns
    offsets: array[int]
    lines: array[int]
    stamp: tuple[int, int]

    def row(self, i: int) -> Row:
        """Record ``i`` in file order. Raises ``DataError`` when the file was changed since it was scanned."""
        with open_data(self.path) as file:
            if stamp_of(self.path) != self.stamp:
                raise DataError(f"{self.path}: changed while the run was using it; start the run again")
            lines = _Lines(file, self.path, offset=self.offsets[i], line=self.lines[i] - 1)
            line, offset, cells = next(_records(lines, self.path))
        return self.columns.row(self.path, line, offset, cells)


def scan(path: Path, *, required: Sequence[str], optional: Sequence[str] = ()) -> tuple[CsvIndex, Iterator[Row]]:
    """The index of ``path`` and its records in order; the index is complete once the records are consumed.

    Raises ``DataError`` (one line, no cell text) when the file is missing, empty, not UTF-8, not CSV, lacks
    a required column, or has a record with more cells than the header.
    """
    stamp = stamp_of(path)
    with open_data(path) as file:
        header = next(_records(_Lines(file, path), path), None)
    if header is None:
        raise DataError(f"{path}: empty; the first line must name the columns")
    index = CsvIndex(path, _columns(path, header[2], required, optional), array("Q"), array("Q"), stamp)
    return index, _rows(index)


def _rows(index: CsvIndex) -> Iterator[Row]:
    with open_data(index.path) as file:
        records = _records(_Lines(file, index.path), index.path)
        next(records)
        for line, offset, cells in records:
            index.offsets.append(offset)
            index.lines.append(line)
            yield index.columns.row(index.path, line, offset, cells)


def open_data(path: Path) -> BinaryIO:
    """Raises ``DataError`` for a file that cannot be opened."""
    try:
        return path.open("rb")
    except OSError as error:
        raise unreadable(path, error) from None


def stamp_of(path: Path) -> tuple[int, int]:
    """Size and time of a file: equal as long as nobody has written to it."""
    try:
        return stamp_from(path.stat())
    except OSError as error:
        raise unreadable(path, error) from None


def stamp_from(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_size, stat.st_mtime_ns


def unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: cannot be read ({error.strerror}); check the path")
