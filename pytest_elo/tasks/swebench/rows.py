"""Datasets to instances: JSON, JSONL, parquet files, folders of single rows, or a Hugging Face name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.errors import ConfigError, DataError
from pytest_elo.tasks.swebench.instance import Instance, instance_from_row

__all__ = ["find_data", "instance_ids", "load_instances"]

Row = tuple[str, Mapping[str, Any]]

HUB_OWNER = "SWE-bench"
"""Whose data sets are meant by a name without an owner, such as ``SWE-bench_Verified``."""


def find_data(named: str, path: Path) -> str | Path | None:
    """What data means that is no file: a folder of rows, or a data set on the Hugging Face hub.

    ``named`` is what was written, ``path`` where that would be on this machine. ``None``: neither.
    """
    if path.is_dir():
        return path
    if re.fullmatch(r"SWE-bench(_\w+)?", named):
        return f"{HUB_OWNER}/{named}"
    is_hub_name = re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", named) is not None
    return named if is_hub_name and not Path(named).suffix else None


def load_instances(
    source: str | Path, *, split: str = "test", only: Sequence[str] = (), test_command: str = ""
) -> tuple[Instance, ...]:
    """Read all instances of a source, or those named in ``only``, in the source's order.

    Args:
        source: a ``.json`` (list of rows, one row, or rows by id), ``.jsonl`` or ``.parquet`` file, a folder
            of such files, or the name of a Hugging Face dataset (``owner/name``; needs ``datasets``).
        split: the dataset's split; used with Hugging Face names only.
        test_command: in place of each row's own; the test files of its test patch are appended.

    Raises:
        DataError: naming file, line and column.
        ConfigError: a reader's package is missing, or an id in ``only`` is in no row.
    """
    wanted = set(only)
    instances: dict[str, Instance] = {}
    for where, row in _rows(source, split):
        if wanted and row.get("instance_id") not in wanted:
            continue
        instance = instance_from_row(row, where, test_command)
        if instance.instance_id in instances:
            raise DataError(f"{where}: instance {instance.instance_id!r} is there twice; keep one of the rows")
        instances[instance.instance_id] = instance
    if missing := sorted(wanted - set(instances)):
        raise ConfigError(f"{source}: no instance {', '.join(missing)}; check the ids or the dataset")
    if not instances:
        raise DataError(f"{source}: holds no instance")
    return tuple(instances.values())


def instance_ids(source: str | Path, *, split: str = "test") -> frozenset[str]:
    """The ids of all rows of a source, usable or not. Raises as ``load_instances``."""
    return frozenset(str(row.get("instance_id")) for _, row in _rows(source, split))


def _rows(source: str | Path, split: str) -> Iterator[Row]:
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in (".json", ".jsonl", ".parquet"))
        for file in files:
            yield from _file_rows(file)
    elif path.suffix in (".json", ".jsonl", ".parquet"):
        yield from _file_rows(path)
    elif str(source).count("/") == 1:
        yield from _hub_rows(str(source), split)
    else:
        raise ConfigError(f"{source}: not a .json, .jsonl or .parquet file, a folder of them, or owner/name on the hub")


def _file_rows(path: Path) -> Iterator[Row]:
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
        return
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield _row(line, f"{path}:{number}")
        return
    yield from _json_rows(_loads(text, str(path)), path)


def _json_rows(value: Any, path: Path) -> Iterator[Row]:
    if isinstance(value, dict) and "instance_id" in value:
        yield str(path), value
        return
    rows: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError(f"{path}: row {number} is not an object; expected a list of SWE-bench rows")
        yield f"{path}: row {number}", row


def _row(line: str, where: str) -> Row:
    value = _loads(line, where)
    if not isinstance(value, dict):
        raise DataError(f"{where}: not an object; expected one SWE-bench row a line")
    return where, value


def _loads(text: str, where: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise DataError(f"{where}: not valid JSON ({error})") from None


def _parquet_rows(path: Path) -> Iterator[Row]:
    try:
        import pyarrow.parquet as parquet  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise ConfigError(f"{path}: reading parquet needs pyarrow; run: pip install 'pytest-elo[parquet]'") from None
    try:
        rows = parquet.read_table(path).to_pylist()
    except Exception as error:  # pyarrow's errors share no public base class
        raise DataError(f"{path}: not a parquet file ({error})") from None
    for number, row in enumerate(rows, 1):
        yield f"{path}: row {number}", row


def _hub_rows(name: str, split: str) -> Iterator[Row]:
    try:
        import datasets  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise ConfigError(
            f"{name}: no such file here; a Hugging Face data set needs: pip install 'pytest-elo[datasets]'"
        ) from None
    try:
        rows = datasets.load_dataset(name, split=split)
    except Exception as error:  # the library raises whatever its transports and readers raise
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"{name} [{split}]: cannot be loaded ({said}); check name, split and network") from None
    for number, row in enumerate(rows, 1):
        yield f"{name} [{split}]: row {number}", row
