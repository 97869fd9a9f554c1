"""A run as Parquet, a batch at a time: where a warehouse (DuckDB, Spark, BigQuery) takes over."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, get_type_hints

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.ledger.lines import present
from pytest_elo.ledger.read import read_attempts, read_outcomes
from pytest_elo.ledger.rundir import RunDir
from pytest_elo.records import Attempt, Outcome

__all__ = ["export"]

BATCH = 20_000
"""Rows of a Parquet row group."""


def export(run_dir: Path, folder: Path) -> Iterator[tuple[Path, int]]:
    """Write ``runs.parquet`` and ``outcomes.parquet`` into ``folder``; yields each with its number of rows.

    Columns are the fields of ``Attempt`` and ``Outcome``; what is no text, number or boolean stands as JSON text.
    Raises ``ConfigError`` without pyarrow, ``DataError`` as the readers do.
    """
    run = RunDir(run_dir)
    if not present(run.runs).is_file():
        raise DataError(f"{run_dir}: no run directory, it has no runs.jsonl")
    folder.mkdir(parents=True, exist_ok=True)
    notes: list[str] = []
    yield _write(folder / "runs.parquet", Attempt, read_attempts(run.runs, notes.append))
    yield _write(folder / "outcomes.parquet", Outcome, read_outcomes(run.outcomes, notes.append))


def _write(path: Path, kind: type, records: Iterable[Any]) -> tuple[Path, int]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise ConfigError("Parquet needs: pip install 'pytest-elo[parquet]'") from None
    types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
    hints = get_type_hints(kind)
    columns = {field.name: _plain_type(hints[field.name]) for field in dataclasses.fields(kind)}
    schema = arrow.schema([(name, types[plain or str]) for name, plain in columns.items()])
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    rest, n = iter(records), 0
    with parquet.ParquetWriter(temporary, schema, compression="zstd") as writer:
        while batch := list(islice(rest, BATCH)):
            values = {name: [_value(getattr(row, name), plain) for row in batch] for name, plain in columns.items()}
            writer.write_table(arrow.table(values, schema=schema))
            n += len(batch)
    os.replace(temporary, path)
    return path, n


def _plain_type(hint: Any) -> type | None:
    """The type of a column; ``None`` for what stands as JSON text."""
    kinds = [kind for kind in (str, bool, int, float) if hint in (kind, kind | None)]
    return kinds[0] if kinds else None


def _value(value: Any, plain: type | None) -> Any:
    if plain is None:
        return json.dumps(value, ensure_ascii=False)
    return value if value is None or isinstance(value, plain) else plain(value)
