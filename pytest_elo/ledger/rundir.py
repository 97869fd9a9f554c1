"""The run directory: its files, the lock of its controller, sweeping shards, recovering a killed run."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from pytest_elo._parse import parse_json
from pytest_elo.errors import ConfigError
from pytest_elo.ledger.appending import append_new_lines
from pytest_elo.ledger.fold import Ledger
from pytest_elo.ledger.header import check_header
from pytest_elo.ledger.lines import present
from pytest_elo.ledger.locks import lock
from pytest_elo.ledger.partial import expected_by, partial_tiers
from pytest_elo.records import Attempt, Outcome

__all__ = ["CONTESTS", "VOTES", "RunDir", "new_run_id", "recover", "rescue", "write_atomically"]

VOTES, CONTESTS = "votes.jsonl", "contests.jsonl"


def new_run_id() -> str:
    """UTC time to the second and four random hex digits: sortable, unique enough for one directory."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime()) + "-" + secrets.token_hex(2)


def write_atomically(path: Path, text: str | Iterable[str]) -> None:
    """Write UTF-8 text, whole or in pieces, so that a reader sees the old file or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", errors="replace", newline="\n") as stream:
            stream.writelines([text] if isinstance(text, str) else text)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class RunDir:
    """Paths of one run, and the only writer of its result files while the lock is held."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stop_path = str(path / "stop")
        self._lock: IO[bytes] | None = None
        self._stopped: str | None = None

    @property
    def runs(self) -> Path:
        return self.path / "runs.jsonl"

    @property
    def outcomes(self) -> Path:
        return self.path / "outcomes.jsonl"

    @property
    def header(self) -> Path:
        return self.path / "run.json"

    @property
    def votes(self) -> Path:
        return self.path / VOTES

    @property
    def contests(self) -> Path:
        return self.path / CONTESTS

    @property
    def shards(self) -> Path:
        return self.path / "shards"

    @property
    def responses(self) -> Path:
        return self.path / "responses"

    @property
    def stop_file(self) -> Path:
        return self.path / "stop"

    @property
    def budget(self) -> Path:
        return self.path / "budget.bin"

    @property
    def lost(self) -> Path:
        """Grows by a byte for every process of the run that died."""
        return self.path / "lost"

    @property
    def has_rows(self) -> bool:
        """Whether a run has been written here."""
        return present(self.runs).exists()

    def mark(self, nonce: str) -> None:
        """Leave a nonce by which another process recognises this very directory."""
        write_atomically(self.path / "here", nonce)

    def holds(self, nonce: str) -> bool:
        try:
            return bool(nonce) and (self.path / "here").read_text(encoding="utf-8") == nonce
        except (OSError, UnicodeDecodeError):
            return False

    def write_preflight(self, found: str) -> None:
        """Leave what the preflight has found for the other processes of the run."""
        write_atomically(self.path / "preflight.json", found)

    def read_preflight(self) -> str:
        """Raises ``ConfigError`` where this process does not see the controller's directory."""
        try:
            return (self.path / "preflight.json").read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{self.path}: this worker cannot read what the preflight found ({error.strerror}); a worker that "
                "does not share the controller's disk is given by --tx ssh=..., socket=... or popen//python=..."
            ) from None

    def keep_responses(self, lines: Iterable[str]) -> None:
        """Append replies that workers without this disk have shipped to the response store."""
        data = "".join(line + "\n" for line in lines).encode("utf-8", "replace")
        if data:
            self.responses.mkdir(parents=True, exist_ok=True)
            with (self.responses / "recorded-shipped.jsonl").open("ab") as stream:
                stream.write(data)

    def note_lost(self) -> None:
        with contextlib.suppress(OSError), self.lost.open("ab") as stream:
            stream.write(b".")

    def stop(self, reason: str) -> None:
        """Ask every process of the run to stop before its next item; the first reason is kept.

        Where not even that can be written (a full disk), this process stops.
        """
        try:
            with self.stop_file.open("x", encoding="utf-8") as stream:
                stream.write(reason)
        except FileExistsError:
            return
        except OSError:
            self._stopped = self._stopped or reason

    def stop_now(self) -> None:
        """Ask them not to wait for calls in flight either."""
        with contextlib.suppress(OSError):
            (self.path / "stop-now").touch()

    def must_end(self) -> bool:
        """Whether calls in flight are not waited for."""
        return (self.path / "stop-now").exists()

    @property
    def stop_reason(self) -> str | None:
        """Why the run was asked to stop; ``None`` when it was not."""
        if not os.access(self._stop_path, os.F_OK):  # asked before every call, and nearly always with this answer
            return self._stopped
        return self.stop_file.read_text(encoding="utf-8") or self._stopped or "the run is stopping"

    def create(self) -> None:
        """Make the directory and take the controller's lock.

        Raises ``ConfigError`` when the directory cannot be written or another live run owns it.
        """
        try:
            self.shards.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self.path / "controller.lock")
        except OSError as error:
            raise ConfigError(
                f"{self.path}: the run directory cannot be written ({error.strerror}); choose another with --elo-dir"
            ) from None
        if self._lock is None:
            raise ConfigError(f"{self.path}: another run is writing here; give each run its own --elo-dir")
        self._clear()

    def point_latest(self) -> None:
        """Let ``latest`` beside this run point here."""
        _point_latest(self.path)

    def write_header(self, facts: dict[str, Any]) -> None:
        write_atomically(self.header, json.dumps(facts, indent=2, sort_keys=True) + "\n")

    def read_header(self) -> dict[str, Any]:
        """What ``run.json`` holds, empty where it is not to be read; not yet checked."""
        with contextlib.suppress(OSError, ValueError):
            facts = parse_json(self.header.read_text(encoding="utf-8"))
            if isinstance(facts, dict):
                return facts
        return {}

    def checked_header(self) -> Mapping[str, Any]:
        """As :meth:`read_header`; raises ``DataError`` naming a key that holds what no run writes there."""
        return check_header(self.read_header(), self.header)

    def sweep(self, ledger: Ledger, *, known: Collection[str] = ()) -> None:
        """Fold what every shard holds into ``ledger``, but for shards whose events have all arrived (``known``)."""
        ledger.torn.clear()  # a line that was still being written at the last sweep is whole now
        for shard in sorted(self.shards.glob("*.jsonl")):
            if shard.name in known:
                continue
            with contextlib.suppress(OSError), shard.open("rb") as stream:
                for line in stream:
                    ledger.add_lines(line.decode("utf-8", errors="replace"))

    def has_live_shards(self) -> bool:
        """Whether a process may still write to its shard."""
        for shard in self.shards.glob("*.jsonl"):
            with contextlib.suppress(OSError):
                stream = _locked(shard)
                if stream is None:
                    return True
                stream.close()
        return False

    def read(self, ledger: Ledger) -> None:
        """Fold what the result files hold into ``ledger``: the run as it was left."""
        from pytest_elo.ledger.read import read_attempts, read_outcomes

        if present(self.runs).exists():
            ledger.add_attempts(read_attempts(self.runs, warn=lambda _: None))
        if present(self.outcomes).exists():
            for outcome in read_outcomes(self.outcomes, warn=lambda _: None):
                ledger.add({"outcome": outcome.to_dict()})
        self._read_arenas(ledger)
        ledger.expect(expected_by(self.read_header()))

    def write_rows(self, attempts: Iterable[Attempt], outcomes: Iterable[Outcome]) -> None:
        write_atomically(self.runs, (row.to_json() + "\n" for row in attempts))
        write_atomically(self.outcomes, (outcome.to_json() + "\n" for outcome in outcomes))

    def write(self, ledger: Ledger) -> None:
        """Write the result files. Votes are only ever appended: people may be voting at the same time."""
        write_atomically(self.runs, ledger.attempt_lines())
        write_atomically(self.outcomes, ledger.outcome_lines())
        self._write_arenas(ledger)

    def join_arenas(self, runs: Iterable[Path]) -> None:
        """Bring together what other runs put to the vote, and all votes on it, of judges and of people."""
        ledger, people = Ledger(), []
        for run in map(RunDir, runs):
            run._read_arenas(ledger)
            people += [_line(vote) for vote in _objects(run.votes) if vote.get("kind") != "model"]
        self._write_arenas(ledger)
        append_new_lines(self.votes, people)

    def _read_arenas(self, ledger: Ledger) -> None:
        for facts in _objects(self.contests):
            ledger.add({"contest": facts})
        for vote in _objects(self.votes):
            if vote.get("kind") == "model":  # what people have cast is theirs to keep, and stays in the file
                ledger.add({"vote": vote})

    def _write_arenas(self, ledger: Ledger) -> None:
        if contests := ledger.contests():
            write_atomically(self.contests, "".join(_line(facts) + "\n" for facts in contests))
        append_new_lines(self.votes, map(_line, ledger.votes()))

    def finish(self) -> None:
        """Drop the shards (``runs.jsonl`` holds their rows now) and the lock."""
        for shard in self.shards.glob("*.jsonl"):
            shard.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.shards.rmdir()
        self._clear()
        self.release()

    def _clear(self) -> None:
        for name in ("here", "preflight.json", "stop", "stop-now", "lost", "budget.bin"):
            (self.path / name).unlink(missing_ok=True)

    def remove_empty(self) -> None:
        """Remove the directory of a run that never began, and only if it holds nothing."""
        for name in ("controller.lock", "run.json"):
            (self.path / name).unlink(missing_ok=True)
        latest = self.path.parent / "latest"
        with contextlib.suppress(OSError):
            self.path.rmdir()
            if latest.is_symlink() and not latest.exists():
                latest.unlink()

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def rescue(run: RunDir, ledger: Ledger) -> Path | None:
    """Write the rows and outcomes of a run whose directory takes no more to the system's temporary folder.

    Returns where, or ``None`` when there is no room either.
    """
    try:
        place = RunDir(Path(tempfile.gettempdir(), f"pytest-elo-{run.path.name}"))
        place.path.mkdir(mode=0o700, exist_ok=True)
        place.write(ledger)
        place.write_header(run.read_header() | {"expected": ledger.expected, "partial": partial_tiers(ledger)})
    except OSError:
        return None
    return place.path


def recover(base: Path) -> Iterator[str]:
    """Finish the ledgers of killed runs under ``base``; yields one sentence for each.

    A run whose controller still holds its lock is alive and left alone.
    """
    for shards in sorted(base.glob("*/shards")):
        if shards.parent.is_symlink():  # latest: the same run by another name
            continue
        run = RunDir(shards.parent)
        lock = None
        with contextlib.suppress(OSError):
            lock = _locked(run.path / "controller.lock")
        if lock is None:
            continue
        with lock:
            yield _recover_one(run)


def _recover_one(run: RunDir) -> str:
    ledger = Ledger()
    run.read(ledger)
    run.sweep(ledger)
    attempts = ledger.attempts()
    run.write(ledger)
    facts = run.read_header()
    whole = {} if ledger.whole is None else {"whole": ledger.whole}
    found = {shard.name for shard in run.shards.glob("*.jsonl")}
    lost = {shard: note for shard, note in facts.get("lost", {}).items() if shard not in found}
    facts = {name: value for name, value in facts.items() if name != "lost"} | ({"lost": lost} if lost else {})
    notes = {"notes": sorted({*facts.get("notes", ()), ledger.damage})} if ledger.damage else {}
    run.write_header(facts | {"expected": ledger.expected, "partial": partial_tiers(ledger)} | whole | notes)
    run.finish()
    unknown = sum(row.status == "open" for row in attempts)
    tail = f", {unknown} of them never answered" if unknown else ""
    tail += f"; {ledger.damage}" if ledger.damage else ""
    return f"recovered {len(attempts)} attempts of the killed run {run.path.name}{tail}"


def _line(values: Mapping[str, Any]) -> str:
    return json.dumps(values, separators=(", ", ": "))


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file that may not be there."""
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_bytes().split(b"\n"):
            with contextlib.suppress(ValueError):
                values = parse_json(line)
                if isinstance(values, dict):
                    yield values


def _locked(path: Path) -> IO[bytes] | None:
    """An exclusively locked file, or ``None`` when another process holds it."""
    stream = path.open("ab")
    if lock(stream.fileno()):
        return stream
    stream.close()
    return None


def _point_latest(path: Path) -> None:
    link = path.parent / "latest"
    temporary = path.parent / f".latest.{os.getpid()}"
    with contextlib.suppress(OSError):  # file systems without symlinks do without the convenience
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(path.name)
        os.replace(temporary, link)
