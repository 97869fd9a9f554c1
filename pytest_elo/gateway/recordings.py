"""Recorded calls: a real model's replies with their true tokens and latencies, replayed without a network.

A recording directory holds one JSONL file per task and ``manifest.json``. A line is one call with all its
attempts (failed retries too), found by the SHA-256 of the request and by how many identical requests the
item made before it. Lines hold parameters and a hash of the prompt, never its text, no headers and no keys,
and are sorted, so that a new recording diffs well.

While a suite runs each process appends what it buys to its own shard in the run's response store; ``merge``
folds shards into a recording directory. What a killed or stopped run has bought is found again by the same
item under the same strategy and goes back onto the ledger as the purchase that it was, not as a second one.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from pytest_elo._parse import parse_json
from pytest_elo._text import text_hash
from pytest_elo.errors import ConfigError, DataError
from pytest_elo.gateway.recorded import Lines, Recorded, Spot, read_at, read_lines, read_places
from pytest_elo.ledger.appending import write_all
from pytest_elo.ledger.rundir import write_atomically
from pytest_elo.records import Tag

__all__ = ["MANIFEST", "Manifest", "Recordings", "merge", "prompt_sha256", "request_key"]

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
            values = parse_json(path.read_text("utf-8"))
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
        write_atomically(directory / MANIFEST, text + "\n")


_canonical = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode


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
    return text_hash(_canonical(value)).hexdigest()


Scope = tuple[str, str, str, int]


def _scope(tag: Tag) -> Scope:
    return (tag.task_id, tag.item_id, tag.strategy, tag.repeat)


class Recordings:
    """The recordings of one run, in one of three modes.

    ``replay`` only looks up; ``record`` writes what is bought; ``cache`` looks up first. ``directory`` is the
    merged recording that is read, ``stores`` are response stores of other runs that a cache may use, newest
    first; ``shards`` is this run's own response store, in which this process writes its shard. What lies there
    at the start was bought by this run: it is found in every mode that buys, by the item and strategy that
    bought it and by no other. ``lost`` is a file that grows when a process of the run dies: whoever takes over
    its items finds what it bought. ``ship`` is handed every line that is kept, where others cannot read it.

    A cache answers only requests of the same condition. Where ``condition`` is given, only lines recorded
    under it are found at all.
    """

    def __init__(
        self,
        directory: Path | None,
        *,
        mode: Mode,
        shards: Path | None = None,
        condition: str | None = None,
        stores: Sequence[Path] = (),
        lost: Path | None = None,
        ship: Callable[[str], None] | None = None,
    ) -> None:
        if mode != "replay" and shards is None:
            raise ConfigError(f"recordings in mode {mode!r} need a directory for shards")
        self.mode = mode
        self.directory = directory
        self.manifest = Manifest.read(directory) if directory is not None and mode == "replay" else None
        self._condition = condition
        self._store = shards
        self._ship = ship
        self._lost = None if lost is None else str(lost)
        self._known_lost = self._count_lost()
        self._shard = None if shards is None else shards / f"recorded-{os.getpid()}-{os.urandom(3).hex()}.jsonl"
        self._file: int | None = None
        self._seen: OrderedDict[Scope, Counter[str]] = OrderedDict()
        self._restarts: Counter[Scope] = Counter()
        self.torn: set[str] = set()
        """Places of lines in response stores that cannot be read: those calls are not found again."""
        self._closes_line = False
        self._adding = threading.Lock()
        self._lines, self._bought = Lines(), Lines()
        if mode != "record" and directory is not None:
            self._load(_recording_files(directory))
        if mode == "cache":
            for store in (*stores, shards):
                self._load(_shard_files(store) if store is not None else [], self.torn)
        if shards is not None and mode != "replay":
            self._load_bought(_shard_files(shards))

    def __len__(self) -> int:
        return len(self._lines) + len(self._bought)

    @property
    def replays(self) -> bool:
        """Whether what is not found may not be asked of a model."""
        return self.mode == "replay"

    def occurrence(self, tag: Tag, key: str) -> int:
        """How many times this item, strategy and repeat made the same request before; counts this one."""
        scope = _scope(tag)
        counter = self._seen.get(scope)
        if counter is None:
            counter = self._seen[scope] = Counter()
            if len(self._seen) > _SCOPES_KEPT:
                self._seen.popitem(last=False)
        counter[key] += 1
        return counter[key] - 1

    def restart(self, tag: Tag) -> None:
        """Forget what an item asked so far, so that asking again finds the same recordings."""
        self._seen.pop(_scope(tag), None)
        self._restarts[_scope(tag)] += 1

    def call_id(self, tag: Tag, recorded: Recorded, run_id: str) -> str:
        """Who the call is on the ledger: the one that bought it, or the same name however often it is replayed.

        A worker that takes over from one that died replays what that one replayed already: one row, not two.
        """
        if recorded.purchase is not None:
            return str(recorded.purchase["call_id"])
        scope = _scope(tag)
        named = f"{run_id}/{scope}/{self._restarts.get(scope, 0)}/{recorded.key}/{recorded.occurrence}"
        return text_hash(named).hexdigest()[:32]

    def find(self, tag: Tag, key: str, occurrence: int) -> Recorded | None:
        """What this run has bought for ``tag`` already, else what recordings hold under its condition."""
        found = self._find(tag, key, occurrence)
        if found is None and self._has_lost_more():
            found = self._find(tag, key, occurrence)
        return found

    def _find(self, tag: Tag, key: str, occurrence: int) -> Recorded | None:
        if self._bought:
            bought = self._bought.find((*_scope(tag), key, occurrence))
            if bought is not None and bought.condition == tag.condition:
                return bought
        if self.mode == "record":
            return None
        found = self._lines.find(self._place(key, occurrence, tag.condition))
        return found if found is None or found.purchase is None else replace(found, purchase=None)

    def _has_lost_more(self) -> bool:
        """Whether a process died since the last look; then what it bought has been read."""
        lost = self._count_lost()
        if lost == self._known_lost or self._store is None:
            return False
        self._known_lost = lost
        files = [path for path in _shard_files(self._store) if path != self._shard]
        self._load_bought(files)
        if self.mode == "cache":
            self._load(files, self.torn)
        return True

    def _count_lost(self) -> int:
        if self._lost is None:
            return 0
        try:
            return os.stat(self._lost).st_size
        except OSError:
            return 0

    def add(self, recorded: Recorded) -> None:
        """Append a call to this process's shard in one write: a killed process tears one line at most."""
        if self._shard is None:
            return
        if self._file is None:
            self._shard.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._shard, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        line = recorded.to_json()
        data = (line + "\n").encode("utf-8", "replace")
        # on a full disk the reply is not kept; the journal finds out with the row and stops the run
        with self._adding:
            try:
                write_all(self._file, b"\n" + data if self._closes_line else data)
                self._closes_line = False
                if self.mode == "cache":
                    spot = Spot(self._shard, os.fstat(self._file).st_size - len(data))
                    self._lines.add(self._place(*recorded.place, recorded.condition), spot)
            except OSError:
                self._closes_line = True
        if self._ship is not None:
            self._ship(line)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _place(self, key: str, occurrence: int, condition: str) -> tuple[object, ...]:
        # a replay is told by its manifest what it replays; a cache stands in for the live model
        return (key, occurrence, condition if self.mode == "cache" else "")

    def _load(self, files: Iterable[Path], torn: set[str] | None = None) -> None:
        for path in files:
            if self.mode == "replay" and self._condition is None:
                for spot, place in read_places(path):
                    self._lines.add(self._place(*place, ""), spot)
                continue
            for spot, recorded in read_lines(path, torn):
                if self._condition is None or recorded.condition == self._condition:
                    self._lines.add(self._place(*recorded.place, recorded.condition), spot)

    def _load_bought(self, files: Iterable[Path]) -> None:
        for path in files:
            for spot, recorded in read_lines(path, self.torn):
                is_mine = self._condition is None or recorded.condition == self._condition
                if recorded.purchase is not None and is_mine:
                    scope = (recorded.task_id, recorded.item_id, recorded.purchase["strategy"], recorded.repeat)
                    self._bought.add((*scope, *recorded.place), spot)


def merge(shards: Path | Iterable[Path], target: Path) -> tuple[int, int]:
    """Fold shards (a directory of them, or files) into the recording directory ``target``.

    A shard's line replaces the target's for the same request; among shards the line that sorts first wins,
    so the result depends neither on their order nor on how often they are merged. Returns the number of
    calls in ``target`` and of lines of shards that are torn. Raises ``DataError`` for a line that is no recording.
    """
    files = _shard_files(shards) if isinstance(shards, Path) else sorted(shards)
    torn: set[str] = set()
    chosen = _old(target) | _fresh(files, torn)
    by_file: dict[str, list[tuple[str, int]]] = {}
    for place, (name, _) in chosen.items():
        by_file.setdefault(name, []).append(place)
    target.mkdir(parents=True, exist_ok=True)
    # all are written before any is put in place: a line may move from one file of the target to another
    written = {
        name: _written_beside(target / name, (read_at(chosen[place][1]) for place in sorted(places)))
        for name, places in by_file.items()
    }
    for path in _recording_files(target):
        if path.name not in by_file:
            path.unlink()
    for name, temporary in written.items():
        os.replace(temporary, target / name)
    return len(chosen), len(torn)


Chosen = dict[tuple[str, int], tuple[str, Spot]]
"""By place: the file of the target that a line goes to, and where it stands."""


def _old(target: Path) -> Chosen:
    lines = (line for path in _recording_files(target) for line in read_lines(path))
    return {recorded.place: (_file_name(recorded.task_id), spot) for spot, recorded in lines}


def _fresh(files: Iterable[Path], torn: set[str]) -> Chosen:
    chosen: Chosen = {}
    for spot, recorded in (line for path in files for line in read_lines(path, torn)):
        rival = chosen.get(recorded.place)
        if rival is None or _merge_order(recorded) < _merge_order(read_at(rival[1])):
            chosen[recorded.place] = _file_name(recorded.task_id), spot
    return chosen


def _merge_order(recorded: Recorded) -> tuple[str, str, str]:
    return recorded.task_id, recorded.item_id, replace(recorded, purchase=None).to_json()


def _written_beside(path: Path, lines: Iterable[Recorded]) -> Path:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8", errors="replace") as stream:
        stream.writelines(replace(line, purchase=None).to_json() + "\n" for line in lines)
    return temporary


def _file_name(task_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", task_id).lstrip(".") + ".jsonl"


def _recording_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.jsonl")) if directory.is_dir() else []


def _shard_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("recorded-*.jsonl")) if directory.is_dir() else []
