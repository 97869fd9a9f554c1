"""The ``run.json`` of joined runs: what must be equal, what adds up, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_elo._text import text_hash
from pytest_elo.errors import DataError

__all__ = ["Header", "incomplete", "joined_header"]

Header = Mapping[str, Any]
Tiers = dict[str, dict[str, int]]
PartKey = tuple[str, str, int, int]
"""Of a part: its run's id, when it was started, its shard and of how many (0 of 0: none)."""

OWN = frozenset({"run_id", "started", "resumed", "notes", "expected", "partial", "shard", "parts", "lost"})
"""What each run has of its own, and the join makes anew."""
EITHER = frozenset({"config", "access_hash"})
"""What may differ because machines do; the join takes the first in alphabetical order."""


def joined_header(headers: Sequence[tuple[Path, Header]]) -> dict[str, Any]:
    """The header. Raises ``DataError`` for settings that differ, and for two runs of one shard."""
    first_folder, first = headers[0]
    for folder, header in headers[1:]:
        _require_equal((first_folder, first), (folder, header))
    parts = _parts(headers)
    joined = {name: first[name] for name in first if name not in OWN | EITHER}
    joined |= {name: min(str(header.get(name, "")) for _, header in headers) for name in EITHER if name in first}
    lost = {name: note for _, header in headers for name, note in header.get("lost", {}).items()}
    joined |= {"lost": dict(sorted(lost.items()))} if lost else {}
    return joined | {
        "v": 1,
        "run_id": f"joined-{text_hash(' '.join(part['run_id'] for part in parts)).hexdigest()[:12]}",
        "started": min(part["started"] for part in parts),
        "notes": sorted({note for _, header in headers for note in header.get("notes", ())}),
        "expected": _expected(first, parts),
        "parts": parts,
    }


def incomplete(header: Header, counts: Mapping[tuple[str, str], int]) -> tuple[list[str], list[dict[str, Any]]]:
    """A sentence for each shard that no part is, and the tiers with fewer outcomes than expected."""
    partial = [
        {"task": task, "strategy": strategy, "outcomes": counts.get((task, strategy), 0), "expected": n}
        for task, strategies in sorted(header["expected"].items())
        for strategy, n in sorted(strategies.items())
        if counts.get((task, strategy), 0) < n
    ]
    return _missing_shards(header["parts"]), partial


def _require_equal(first: tuple[Path, Header], other: tuple[Path, Header]) -> None:
    for name in sorted((first[1].keys() | other[1].keys()) - OWN - EITHER):
        here, there = first[1].get(name), other[1].get(name)
        if here != there:
            key, here, there = _where(name, here, there)
            raise DataError(
                f"{key} is {here!r} in {first[0]} and {there!r} in {other[0]}; outcomes under different settings "
                "cannot stand in one run"
            )


def _where(name: str, here: object, there: object) -> tuple[str, object, object]:
    """The innermost key that differs: a whole table of settings is no answer to "what differs"."""
    while isinstance(here, dict) and isinstance(there, dict):
        key = next(key for key in sorted(here.keys() | there.keys()) if here.get(key) != there.get(key))
        name, here, there = f"{name}.{key}", here.get(key), there.get(key)
    return name, here, there


def _parts(headers: Sequence[tuple[Path, Header]]) -> list[dict[str, Any]]:
    found: dict[PartKey, dict[str, Any]] = {}
    folders: dict[tuple[int, int], tuple[PartKey, Path]] = {}
    for folder, header in headers:
        for part in header.get("parts") or [_part(folder, header)]:
            key = _part_key(part)
            known = found.setdefault(key, part)
            if known != part:
                raise DataError(f"{folder}: run {part['run_id']} is given twice in two states; give the newer one")
            shard = part["shard"]
            if shard is None:
                continue
            other, first = folders.setdefault((shard["index"], shard["of"]), (key, folder))
            if other != key:
                raise DataError(
                    f"shard {shard['index']}/{shard['of']} is in {first} and in {folder}, two different runs; give one"
                )
    return [found[key] for key in sorted(found)]


def _part_key(part: Mapping[str, Any]) -> PartKey:
    """A run is not known by its name alone: machines that name the directory alike give many runs one."""
    shard = part["shard"] or {"index": 0, "of": 0}
    return part["run_id"], part["started"], shard["index"], shard["of"]


def _part(folder: Path, header: Header) -> dict[str, Any]:
    return {
        "run_id": str(header.get("run_id") or folder.name),
        "started": str(header.get("started", "")),
        "shard": header.get("shard"),
        "expected": header.get("expected") or {},
    }


def _missing_shards(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    shards = [part["shard"] for part in parts if part["shard"] is not None]
    if not shards:
        return []
    sizes = {shard["of"] for shard in shards}
    if len(sizes) > 1:
        raise DataError(
            f"shards of {' and of '.join(map(str, sorted(sizes)))} parts; give those of one run of the suite"
        )
    (of,) = sizes
    there = {shard["index"] for shard in shards}
    return [f"shard {index}/{of} is missing" for index in range(1, of + 1) if index not in there]


def _expected(first: Header, parts: Sequence[Mapping[str, Any]]) -> Tiers:
    """What all parts together are to have; shards know it of the whole suite."""
    if any(part["shard"] is not None for part in parts):
        whole: Tiers = first.get("whole") or {}
        return whole
    sums: Tiers = {}
    for part in parts:
        for task, strategies in part["expected"].items():
            known = sums.setdefault(task, {})
            for strategy, n in strategies.items():
                known[strategy] = known.get(strategy, 0) + n
    return sums
