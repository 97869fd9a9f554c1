"""Files of records (JSON, JSON lines, CSV, Parquet) as objects with the line each one starts on."""

from __future__ import annotations

import csv
import importlib
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_elo._parse import parse_json, parse_json_at
from pytest_elo.errors import ConfigError, DataError

__all__ = ["Row", "read_rows"]


@dataclass(frozen=True, slots=True)
class Row:
    """One record and where it stands (``file:line``; for Parquet the row's number)."""

    values: Mapping[str, Any]
    path: Path
    line: int

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    def need(self, field: str) -> Any:
        """The field's value. Raises :class:`DataError` where it is missing."""
        if field not in self.values:
            raise DataError(f"{self.where}: field {field!r} is missing")
        return self.values[field]

    def whole(self, field: str, default: int) -> int:
        """A whole number, ``default`` where there is none. Raises :class:`DataError` for anything else."""
        value = self.values.get(field)
        if value in (None, "", 0):
            return default
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not number.is_integer():
            raise DataError(f"{self.where}: {field} is {value!r}; expected a whole number")
        return int(number)


def read_rows(path: Path) -> Sequence[Row]:
    """All records of ``path``, by its suffix; ``.json`` may hold an array, one object, or JSON lines.

    Raises :class:`DataError` naming file and line for anything that is not a record.
    """
    if path.suffix == ".parquet":
        return _parquet(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start}); a Parquet file must end in .parquet") from error
    if path.suffix in (".csv", ".tsv"):
        return _csv(path, text)
    if text.lstrip().startswith("["):
        return _json_array(path, text)
    return _json_objects(path, text)


def _csv(path: Path, text: str) -> list[Row]:
    csv.field_size_limit(1 << 30)
    delimiter = "\t" if path.suffix == ".tsv" else ","
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[Row] = []
    start = 2
    try:
        for values in reader:
            if None in values or None in values.values():
                raise DataError(f"{path}:{start}: {len(reader.fieldnames or [])} columns expected")
            rows.append(Row(values, path, start))
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}:{start}: not CSV ({error})") from None
    return rows


def _json_array(path: Path, text: str) -> list[Row]:
    rows: list[Row] = []
    at, line = text.index("[") + 1, 1
    counted = 0
    while True:
        at = _skip(text, at, ", \t\r\n")
        if at >= len(text):
            raise DataError(f"{path}: the array is cut off after {len(rows)} records")
        line, counted = line + text.count("\n", counted, at), at
        if text[at] == "]":
            return rows
        try:
            values, at = parse_json_at(text, at)
        except ValueError as error:
            raise DataError(f"{path}:{line}: not JSON ({error})") from error
        rows.append(_object_row(values, path, line))


def _json_objects(path: Path, text: str) -> list[Row]:
    try:
        whole = parse_json(text)
    except ValueError:
        return [
            _object_row(_line(path, number, line), path, number)
            for number, line in enumerate(text.split("\n"), start=1)
            if line.strip()
        ]
    return [_object_row(whole, path, 1)]


def _line(path: Path, number: int, line: str) -> Any:
    try:
        return parse_json(line)
    except ValueError as error:
        raise DataError(f"{path}:{number}: not JSON ({error})") from error


def _object_row(values: Any, path: Path, line: int) -> Row:
    if not isinstance(values, dict):
        raise DataError(f"{path}:{line}: expected an object, found {type(values).__name__}")
    return Row(values, path, line)


def _parquet(path: Path) -> list[Row]:
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError(f"{path}: reading Parquet needs the extra: pip install 'pytest-elo[parquet]'") from error
    try:
        records = parquet.read_table(path).to_pylist()
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a Parquet file ({error})") from error
    return [Row(values, path, number) for number, values in enumerate(records, start=1)]


def _skip(text: str, at: int, characters: str) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at
