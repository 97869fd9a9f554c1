"""Recorded calls: a real model's replies with their true tokens and latencies, replayed without a network.

A recording directory holds one JSONL file per task and ``manifest.json``. A line is one call with all its
attempts (failed retries too), found by the SHA-256 of the request and by how many identical requests the
item made before it. Lines hold parameters and a hash of the prompt, never its text, no headers and no keys,
and are sorted, so that a new recording diffs well.

While a suite is recorded each process appends to its own shard; ``merge`` folds shards into a directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.records import Tag

__all__ = ["MANIFEST", "Manifest", "Recorded", "Recordings", "merge", "prompt_sha256", "request_key"]

MANIFEST = "manifest.json"
_VERSION = 1
_SCOPES_KEPT = 4096
_NOT_IN_KEY = frozenset({"stream", "stream_options", "user", "metadata", "store", "service_tier"})
_PROMPT_KEYS = ("messages", "input", "prompt", "instructions", "system")

Mode = Literal["replay", "record", "cache"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a recording directory was recorded from; the header of the table says it in words."""

    model: str
    host: str
    date: str
    """ISO date of the recording."""
    model_file: str | None = None
    model_sha256: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Raises ``DataError`` when there is none or it is not one."""
        path = directory / MANIFEST
        try:
            values = json.loads(path.read_text("utf-8"))
            names = cls.__dataclass_fields__
            return cls(**{key: value for key, value in values.items() if key in names})
        except FileNotFoundError:
            raise DataError(f"{directory} holds no {MANIFEST}: record it with `pytest evals --elo-record`") from None
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is not a recording's manifest: {error}") from None

    def write(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        text = json.dumps({"v": _VERSION, **values, "versions": dict(self.versions)}, indent=2, ensure_ascii=False)
        _write_atomically(directory / MANIFEST, text + "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One recorded call. ``attempts`` are ledger rows without what belongs to the run that made them."""

    key: str
    occurrence: int
    task_id: str
    item_id: str
    role: str
    sample: int
    repeat: int
    condition: str
    parameters: Mapping[str, Any]
    prompt_sha256: str
    attempts: tuple[Mapping[str, Any], ...]
    body: Mapping[str, Any] | None
    """The reply, cut down to what is replayed; ``None`` for a call the model's gateway refused."""
    error: Mapping[str, Any] | None = None
    """``{"kind", "http_status"}`` of a call that ended in a refusal which is the model's own doing."""

    def to_json(self) -> str:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps(values, ensure_ascii=False, separators=(", ", ": "))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        known = {name: values[name] for name in cls.__dataclass_fields__}
        return cls(**{**known, "attempts": tuple(known["attempts"])})

    @property
    def place(self) -> tuple[str, int]:
        return self.key, self.occurrence


def request_key(api: str, body: Mapping[str, Any]) -> str:
    """SHA-256 of the request in canonical form: the API, then the body with sorted keys.

    How the answer is transported (``stream``) and who asks (``user``) are no part of it.
    """
    kept = {name: value for name, value in body.items() if name not in _NOT_IN_KEY}
    return _sha256([api, kept])


def prompt_sha256(body: Mapping[str, Any]) -> str:
    """SHA-256 of the prompt alone, the same under all parameters."""
    return _sha256({name: body[name] for name in _PROMPT_KEYS if name in body})


def _sha256(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Recordings:
    """The recordings of one run, in one of three modes.

    ``replay`` only looks up; ``record`` only writes; ``cache`` looks up and writes what it did not find.
    ``directory`` is the merged recording that is read; ``shards`` a directory of shards, in which this
    process writes its own and, in cache mode, reads everyone's that lie there at the start. Where
    ``condition`` is given, only lines recorded under the same condition are found.
    """

    def __init__(
        self, directory: Path | None, *, mode: Mode, shards: Path | None = None, condition: str | None = None
    ) -> None:
        if mode != "replay" and shards is None:
            raise ConfigError(f"recordings in mode {mode!r} need a directory for shards")
        self.mode = mode
        self.directory = directory
        self.manifest = Manifest.read(directory) if directory is not None and mode == "replay" else None
        self._condition = condition
        self._shard = None if shards is None else shards / f"recorded-{os.getpid()}-{os.urandom(3).hex()}.jsonl"
        self._file: int | None = None
        self._seen: OrderedDict[tuple[str, str, str, int], Counter[str]] = OrderedDict()
        self._lines: dict[tuple[str, int], Recorded] = {}
        if mode != "record":
            sources = [] if directory is None else _recording_files(directory)
            self._load([*sources, *(_shard_files(shards) if shards is not None else [])])

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def replays(self) -> bool:
        """Whether what is not found may not be asked of a model."""
        return self.mode == "replay"

    def occurrence(self, tag: Tag, key: str) -> int:
        """How many times this item, strategy and repeat made the same request before; counts this one."""
        scope = (tag.task_id, tag.item_id, tag.strategy, tag.repeat)
        counter = self._seen.get(scope)
        if counter is None:
            counter = self._seen[scope] = Counter()
            if len(self._seen) > _SCOPES_KEPT:
                self._seen.popitem(last=False)
        counter[key] += 1
        return counter[key] - 1

    def restart(self, tag: Tag) -> None:
        """Forget what an item asked so far, so that asking again finds the same recordings."""
        self._seen.pop((tag.task_id, tag.item_id, tag.strategy, tag.repeat), None)

    def find(self, key: str, occurrence: int) -> Recorded | None:
        return self._lines.get((key, occurrence))

    def add(self, recorded: Recorded) -> None:
        """Append a call to this process's shard in one write: a killed process tears one line at most."""
        if self._shard is None:
            return
        if self._file is None:
            self._shard.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._shard, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(self._file, (recorded.to_json() + "\n").encode("utf-8", "replace"))
        if self.mode == "cache":
            self._lines[recorded.place] = recorded

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _load(self, files: Iterable[Path]) -> None:
        for path in files:
            for recorded in _read_lines(path):
                if self._condition is None or recorded.condition == self._condition:
                    self._lines.setdefault(recorded.place, recorded)


def merge(shards: Path | Iterable[Path], target: Path) -> int:
    """Fold shards (a directory of them, or files) into the recording directory ``target``.

    A shard's line replaces the target's for the same request; among shards the line that sorts first wins,
    so the result depends neither on their order nor on how often they are merged. Returns the number of
    calls in ``target``. Raises ``DataError`` for a line that is no recording.
    """
    files = _shard_files(shards) if isinstance(shards, Path) else sorted(shards)
    kept = {recorded.place: recorded for path in _recording_files(target) for recorded in _read_lines(path)}
    fresh: dict[tuple[str, int], Recorded] = {}
    for recorded in sorted((line for path in files for line in _read_lines(path)), key=_merge_order):
        fresh.setdefault(recorded.place, recorded)
    kept.update(fresh)
    by_file: dict[str, list[Recorded]] = {}
    for recorded in kept.values():
        by_file.setdefault(_file_name(recorded.task_id), []).append(recorded)
    target.mkdir(parents=True, exist_ok=True)
    for path in _recording_files(target):
        if path.name not in by_file:
            path.unlink()
    for name, lines in by_file.items():
        text = "".join(line.to_json() + "\n" for line in sorted(lines, key=lambda line: line.place))
        _write_atomically(target / name, text)
    return len(kept)


def _merge_order(recorded: Recorded) -> tuple[str, str, str]:
    return recorded.task_id, recorded.item_id, recorded.to_json()


def _file_name(task_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", task_id).lstrip(".") + ".jsonl"


def _recording_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.jsonl")) if directory.is_dir() else []


def _shard_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("recorded-*.jsonl")) if directory.is_dir() else []


def _read_lines(path: Path) -> list[Recorded]:
    lines = path.read_bytes().split(b"\n")
    recorded: list[Recorded] = []
    # what follows the last line break is a line torn by a killed process: that call is not kept
    for number, line in enumerate(lines[:-1], start=1):
        try:
            recorded.append(Recorded.from_dict(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}:{number} is not a recorded call ({type(error).__name__}: {error}): record it "
                "again with `pytest evals --elo-record`"
            ) from None
    return recorded


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text, "utf-8")
    os.replace(temporary, path)
