"""Join run directories: the shards of one suite, or runs of different items under the same settings.

A pure function of the set of runs: any order, any grouping and any repetition give the same bytes. Rows are
merged in their order, one cell in memory at a time; equal rows count once, and what contradicts itself is an
error that names both places. The joined ``run.json`` lists the ``parts``, so a joined directory can be joined
further.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.errors import ConfigError, DataError, EloError
from pytest_elo.ledger.fold import outcome_key
from pytest_elo.ledger.lines import present
from pytest_elo.ledger.merge_header import Header, incomplete, joined_header
from pytest_elo.ledger.merge_rows import Row, rows_in_order
from pytest_elo.ledger.read import read_outcomes
from pytest_elo.ledger.rundir import RunDir, write_atomically
from pytest_elo.records import Outcome

__all__ = ["Joined", "join"]

UNIONS = ("votes.jsonl", "ballots.jsonl")
"""Files of lines that stand for themselves: the joined one holds each line once, sorted."""


@dataclass(slots=True)
class Joined:
    """What was written, and what is not there."""

    runs: int
    rows: int = 0
    outcomes: int = 0
    missing: list[str] = field(default_factory=list)
    """one sentence for each shard without a directory and each tier with fewer outcomes than expected"""


def join(directories: Sequence[Path], target: Path) -> Joined:
    """Write the join of run directories to ``target``, which must be new, or a join to replace.

    Raises ``ConfigError`` for directories that are none, ``DataError`` naming what contradicts or differs.
    """
    folders = _distinct(directories, target)
    headers = [(folder, RunDir(folder).checked_header()) for folder in folders]
    header = joined_header(headers)
    is_new = not target.exists()
    try:
        return _write(folders, headers, header, target)
    except EloError:
        if is_new:
            shutil.rmtree(target, ignore_errors=True)
        raise


def _write(
    folders: Sequence[Path], headers: Sequence[tuple[Path, Header]], header: dict[str, Any], target: Path
) -> Joined:
    run = RunDir(target)
    target.mkdir(parents=True, exist_ok=True)
    counts: Counter[tuple[str, str]] = Counter()
    write_atomically(run.outcomes, (outcome.to_json() + "\n" for outcome in _joined_outcomes(folders, counts)))
    run.join_arenas(folders)
    notes: list[str] = []
    try:
        rows = _write_rows(run.runs, _once(_merged(folders, target / "sorting", notes.append)))
    finally:
        shutil.rmtree(target / "sorting", ignore_errors=True)
    for name in UNIONS:
        _unite([folder / name for folder in folders], target / name)
    for folder in folders:
        _copy_responses(folder / "responses", run.responses)
    missing, partial = incomplete(header, counts)
    was_stopped = any(known.get("partial") for _, known in headers)
    header |= {"notes": sorted({*header["notes"], *notes})}
    header |= {"partial": partial} if partial and (missing or was_stopped) else {}
    run.write_header(header)
    missing += [f"{tier['task']}/{tier['strategy']} has {tier['outcomes']} of {tier['expected']}" for tier in partial]
    return Joined(len(header["parts"]), rows, counts.total(), missing)


def _distinct(directories: Iterable[Path], target: Path) -> list[Path]:
    folders: dict[Path, Path] = {}
    for directory in directories:
        if not present(directory / "outcomes.jsonl").is_file() or not present(directory / "runs.jsonl").is_file():
            raise ConfigError(f"{directory}: no runs.jsonl and outcomes.jsonl, so this is no finished run")
        folders.setdefault(directory.resolve(), directory)
    if target.resolve() in folders:
        raise ConfigError(f"{target} is to be joined and written at once; give another --out")
    is_taken = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if is_taken and "parts" not in RunDir(target).read_header():
        raise ConfigError(f"{target} exists and is no joined run; give another --out")
    return list(folders.values())


def _joined_outcomes(folders: Sequence[Path], counts: Counter[tuple[str, str]]) -> Iterator[Outcome]:
    """Outcomes in order, equal ones once; ``counts`` takes them by (task, strategy)."""
    conditions: dict[str, tuple[str, Path]] = {}
    streams = [_outcomes_in_order(folder) for folder in folders]
    merged = heapq.merge(*streams, key=lambda found: outcome_key(found[0]))
    for _, group in groupby(merged, key=lambda found: outcome_key(found[0])):
        (outcome, folder), *others = group
        condition, first = conditions.setdefault(outcome.task_id, (outcome.condition, folder))
        if condition != outcome.condition:
            raise DataError(
                f"task {outcome.task_id!r} has condition {condition} in {first} and {outcome.condition} in "
                f"{folder}: its data, prompts or grading rules differ, so the outcomes cannot be compared"
            )
        for other, where in others:
            if other != outcome:
                name = f"{outcome.task_id}/{outcome.item_id} under {outcome.strategy}, repeat {outcome.repeat}"
                raise DataError(f"two outcomes of {name}: one in {folder}, another in {where}; give one of the runs")
        counts[outcome.task_id, outcome.strategy] += 1
        yield outcome


def _outcomes_in_order(folder: Path) -> Iterator[tuple[Outcome, Path]]:
    path = RunDir(folder).outcomes
    keys = [outcome_key(outcome) for outcome in read_outcomes(path, lambda _: None)]
    outcomes: Iterable[Outcome] = read_outcomes(path, lambda _: None)
    if keys != sorted(keys):
        outcomes = sorted(outcomes, key=outcome_key)
    return ((outcome, folder) for outcome in outcomes)


def _merged(folders: Sequence[Path], scratch: Path, warn: Any) -> Iterator[Row]:
    streams = [
        rows_in_order(present(RunDir(folder).runs), folder, scratch / str(i), warn) for i, folder in enumerate(folders)
    ]
    return heapq.merge(*streams, key=lambda row: row.order)


def _once(rows: Iterable[Row]) -> Iterator[bytes]:
    """The lines of rows in order, equal ones once. Raises ``DataError`` for two of one name."""
    for _, cell in groupby(rows, key=lambda row: row.order[:4]):
        seen: dict[tuple[str, int], Row] = {}
        for row in cell:
            known = seen.setdefault(row.name, row)
            if known is row:
                yield row.line + b"\n"
            elif known.line != row.line and parse_json(known.line) != parse_json(row.line):
                raise DataError(
                    f"two rows of call {row.name[0]}, attempt {row.name[1]} ({'/'.join(map(str, row.order[:3]))}): one "
                    f"in {known.folder}, another in {row.folder}; one of the two files was changed"
                )


def _write_rows(path: Path, lines: Iterable[bytes]) -> int:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    n = 0
    with temporary.open("wb") as stream:
        for line in lines:
            stream.write(line)
            n += 1
    os.replace(temporary, path)
    return n


def _unite(files: Iterable[Path], target: Path) -> None:
    there = [path for path in files if path.is_file()]
    lines = {line for path in there for line in path.read_text(encoding="utf-8").split("\n") if line.strip()}
    if there:
        write_atomically(target, (line + "\n" for line in sorted(lines)))


def _copy_responses(source: Path, target: Path) -> None:
    """Response shards under the name of their content: the same one is there once."""
    for path in sorted(source.glob("recorded-*.jsonl")):
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()[:24]
        target.mkdir(parents=True, exist_ok=True)
        copy = target / f"recorded-{digest}.jsonl"
        if not copy.exists():
            shutil.copyfile(path, copy.with_suffix(".tmp"))
            os.replace(copy.with_suffix(".tmp"), copy)
