"""Stored baselines: one text file that git can keep, one line an item, so that a diff shows what changed.

The first line holds the facts, every further line an item::

    {"task": "gpqa", "item": "q7", "prompt": "5d41402abc4b", "grading": "...", "strategies": {"r3": [1, 2410]}}

A strategy's numbers are its score (a list with repeats), its tokens and, where prices are known, its USD:
numbers and hashes, never the text of a benchmark. Items stay apart because a test of two runs that is not
paired on items needs two to five times as many of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo._text import did_you_mean
from pytest_elo.errors import ConfigError, DataError
from pytest_elo.gates.snapshot import Cell, Facts, Snapshot
from pytest_elo.ledger.read import TEXT, Types, check_types

__all__ = ["SUFFIX", "baseline_path", "dump", "load", "stored_names"]

VERSION = 1
SUFFIX = ".jsonl"
FACTS: Types = {
    **dict.fromkeys(("endpoint", "started", "prices_date", "answers"), TEXT),
    "models": ("a list", list),
    "strategies": ("an object", dict),
    "unscored": ("an object", dict),
    "seed": ("a whole number or null", (int, type(None))),
}


def baseline_path(folder: Path, name: str) -> Path:
    """Where the baseline ``name`` stands. Raises ``ConfigError`` for a name that is no file name."""
    if not name or name.startswith(".") or any(sign in name for sign in "/\\"):
        raise ConfigError(f"{name!r} is no name for a baseline; use letters, digits, - and _")
    return folder / f"{name}{SUFFIX}"


def stored_names(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))


def dump(snapshot: Snapshot) -> str:
    """The file's text; the same snapshot gives the same bytes."""
    facts = snapshot.facts
    header = {
        "v": VERSION,
        "baseline": snapshot.name,
        "models": list(facts.models),
        "endpoint": facts.endpoint,
        "seed": facts.seed,
        "started": facts.started,
        **({"prices_date": facts.prices_date} if facts.prices_date else {}),
        "answers": facts.answers,
        "strategies": facts.strategies,
        **({"unscored": snapshot.unscored} if snapshot.unscored else {}),
    }
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (header, *_rows(snapshot)))


def _rows(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for (task, item, strategy), cell in sorted(snapshot.cells.items()):
        row = rows.setdefault((task, item), {"task": task, "item": item, "prompt": "", "grading": "", "strategies": {}})
        row["prompt"] = row["prompt"] or cell.prompt
        row["grading"] = row["grading"] or cell.grading
        scores = [_short(score) for score in cell.scores]
        row["strategies"][strategy] = [
            scores[0] if len(scores) == 1 else scores,
            _short(cell.tokens),
            *([] if cell.usd is None else [_short(cell.usd)]),
        ]
    yield from rows.values()


def _short(value: float) -> float:
    return int(value) if value == int(value) else value


def load(path: Path, name: str) -> Snapshot:
    """Read a baseline file; raises ``DataError`` with file and line, ``ConfigError`` where there is none."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        names = stored_names(path.parent)
        raise ConfigError(
            f"no baseline {name!r} in {path.parent}{did_you_mean(name, names)}; "
            "make one from a finished run with: pytest-elo baseline save"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    records = [_record(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not records or records[0].get("v") != VERSION or "baseline" not in records[0]:
        raise DataError(
            f"{path}, line 1: no baseline of pytest-elo (v {VERSION}); write it with: pytest-elo baseline save"
        )
    cells: dict[tuple[str, str, str], Cell] = {}
    for number, record in enumerate(records[1:], start=2):
        try:
            cells.update(_cells(record))
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
            raise DataError(f"{path}, line {number}: no item of a baseline; write the file anew") from None
    check_types(records[0], FACTS, f"{path}, line 1")
    return Snapshot(name, _facts(records[0]), cells, records[0].get("unscored", {}))


def _record(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        record = parse_json(line)
    except ValueError:
        marker = " (a merge conflict?)" if line.startswith(("<<<<<<<", "=======", ">>>>>>>")) else ""
        raise DataError(f"{path}, line {number}: not JSON{marker}; mend it or save the baseline anew") from None
    if not isinstance(record, dict):
        raise DataError(f"{path}, line {number}: one JSON object a line is expected")
    return record


def _cells(record: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, str], Cell]]:
    for strategy, (score, tokens, *usd) in record["strategies"].items():
        scores = tuple(float(value) for value in (score if isinstance(score, list) else [score]))
        costs = [float(value) for value in (tokens, *usd)]
        if not scores or not all(0 <= value <= 1 for value in scores) or len(usd) > 1:
            raise ValueError
        if not all(0 <= value < math.inf for value in costs):
            raise ValueError
        yield (
            (str(record["task"]), str(record["item"]), strategy),
            Cell(
                scores,
                costs[0],
                str(record.get("prompt", "")),
                str(record.get("grading", "")),
                costs[1] if usd else None,
            ),
        )


def _facts(header: Mapping[str, Any]) -> Facts:
    return Facts(
        models=tuple(map(str, header.get("models", ()))),
        endpoint=header.get("endpoint", ""),
        seed=header.get("seed"),
        strategies=header.get("strategies", {}),
        started=header.get("started", ""),
        prices_date=header.get("prices_date", ""),
        answers=header.get("answers", ""),
    )
