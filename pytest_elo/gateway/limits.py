"""One adaptive limit of requests in flight per (host, model), shared by all workers of a run.

The state is a small memory-mapped file per (host, model) in a directory all workers see. Each process owns
one slot in it (its process id and its requests in flight) and writes only there, so admission takes no
lock: add oneself, look at the sum, step back if it is too much. Only a change of the shared limit (once per
rate-limit signal or per ``limit`` successes) takes a file lock. Without a directory the same code runs on
anonymous memory, for one process.

Increase slowly, decrease by half: a 429 halves the limit, but only if its request was sent after the last
halving, so that the 64 answers of one burst count as one signal and not as 64. Every ``limit`` successes
add a tenth (at least one). A ``Retry-After`` pauses all workers, since the gateway limits the key and not
the process.
"""

from __future__ import annotations

import mmap
import os
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from pytest_elo._text import text_hash

fcntl: ModuleType | None

try:
    import fcntl
except ImportError:  # no shared limit on this platform: each process keeps its own
    fcntl = None

__all__ = ["AdaptiveLimit", "SharedLimits", "is_alive"]

_LIMIT, _PAUSED_FROM, _PAUSE_UNTIL, _LAST_SHRINK, _SLOTS_CLAIMED, _FIRST_SLOT = range(6)
"""Words of eight bytes: the limit and three Unix times as doubles, two whole numbers. A slot is a process id above
32 bits of requests in flight. What is written word by word is never seen half written, as a ``struct`` is."""
_N_SLOTS = 256
_SIZE = 8 * (_FIRST_SLOT + _N_SLOTS)
_GROWTH = 0.1
_SHORTEST_WAIT_S = 0.01
_LONGEST_WAIT_S = 0.25
_SKEW_S = 1.0
"""How far clocks may be apart; a time that lies further ahead was written before the clock went back."""


class SharedLimits:
    """The limits of one run; ``of(host, model)`` is the same limit in every process given the directory."""

    def __init__(self, concurrency: int, directory: Path | None = None) -> None:
        self._concurrency = concurrency
        self._directory = directory
        self._limits: dict[tuple[str, str], AdaptiveLimit] = {}

    def of(self, host: str, model: str) -> AdaptiveLimit:
        key = (host, model)
        if key not in self._limits:
            self._limits[key] = AdaptiveLimit(self._concurrency, self._path(host, model))
        return self._limits[key]

    def _path(self, host: str, model: str) -> Path | None:
        if self._directory is None:
            return None
        digest = text_hash(f"{host}\n{model}").hexdigest()[:16]
        return self._directory / f"limit-{digest}"

    def close(self) -> None:
        for limit in self._limits.values():
            limit.close()
        self._limits.clear()


class AdaptiveLimit:
    """Admission of requests to one (host, model).

    ``concurrency`` is the highest the limit ever gets and where it starts. All times are Unix times.
    """

    def __init__(self, concurrency: int, path: Path | None = None) -> None:
        self._most = max(concurrency, 1)
        self._file: int | None = None
        if path is None or fcntl is None:
            self._memory = mmap.mmap(-1, _SIZE)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            if os.fstat(self._file).st_size < _SIZE:
                os.truncate(self._file, _SIZE)
            self._memory = mmap.mmap(self._file, _SIZE)
        self._doubles = memoryview(self._memory).cast("d")
        self._words = memoryview(self._memory).cast("q")
        self._thread_lock = threading.Lock()
        self._successes = 0
        self._process = self._in_flight = self._slot = 0
        with self._locked():
            if self._doubles[_LIMIT] == 0:
                self._doubles[_LIMIT] = self._most
            self._claim_slot()

    @property
    def limit(self) -> int:
        """Requests that may be in flight now, over all processes."""
        return max(int(self._doubles[_LIMIT]), 1)

    @property
    def in_flight(self) -> int:
        """Requests in flight now, over all processes."""
        return sum(count for _, count in self._slots())

    def admit(self, now: float) -> float:
        """0 when the request may go (then ``release`` must follow), else seconds after which to ask again."""
        pause_until = self._doubles[_PAUSE_UNTIL]
        if self._doubles[_PAUSED_FROM] - _SKEW_S <= now < pause_until:
            # spread the return, or everyone comes back in the same millisecond
            return pause_until - now + random.uniform(0, 0.05)
        self._count(1)
        total, limit = self.in_flight, self.limit
        if total <= limit:
            return 0.0
        self._count(-1)
        self._forget_dead()
        waiting = min(total / limit * _SHORTEST_WAIT_S, _LONGEST_WAIT_S)
        return random.uniform(0.5, 1.5) * waiting

    def release(self) -> None:
        self._count(-1)

    def succeeded(self) -> None:
        """An answer came: after ``limit`` of them the limit grows."""
        limit = self._doubles[_LIMIT]
        if limit >= self._most:
            return
        self._successes += 1
        # each process sees its share of the answers, so growth stays one step per ``limit`` over all
        if self._successes >= max(limit, 1.0):
            self._successes = 0
            with self._locked():
                limit = self._doubles[_LIMIT]
                self._doubles[_LIMIT] = min(limit + max(1.0, limit * _GROWTH), float(self._most))

    def rate_limited(self, now: float, retry_after_s: float | None, *, sent: float) -> None:
        """A 429 came for a request sent at ``sent``: halve the limit, pause everyone as the gateway asked."""
        with self._locked():
            head = self._doubles
            if retry_after_s is not None:
                is_stale = now < head[_PAUSED_FROM] - _SKEW_S
                head[_PAUSE_UNTIL] = max(0.0 if is_stale else head[_PAUSE_UNTIL], now + retry_after_s)
                head[_PAUSED_FROM] = now
            if sent > head[_LAST_SHRINK] or now < head[_LAST_SHRINK] - _SKEW_S:
                in_use = min(head[_LIMIT], float(max(self.in_flight, 1)))
                head[_LIMIT], head[_LAST_SHRINK] = max(in_use / 2, 1.0), now
        self._successes = 0

    def close(self) -> None:
        self._write_slot(self._slot, 0, 0)
        for view in (self._doubles, self._words):
            view.release()
        self._memory.close()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _count(self, step: int) -> None:
        with self._thread_lock:
            if self._process != os.getpid():  # this is a fork: the slot belongs to the parent
                with self._locked():
                    self._claim_slot()
            self._in_flight = max(self._in_flight + step, 0)
            self._write_slot(self._slot, self._process, self._in_flight)

    def _slots(self) -> list[tuple[int, int]]:
        """(process id, requests in flight) of every slot that was ever claimed."""
        slots = self._words[_FIRST_SLOT : _FIRST_SLOT + self._words[_SLOTS_CLAIMED]]
        return [divmod(word, 1 << 32) for word in slots]

    def _write_slot(self, index: int, process: int, count: int) -> None:
        self._words[_FIRST_SLOT + index] = process << 32 | count

    def _claim_slot(self) -> None:
        self._forget_dead()
        slots = self._slots()
        free = [index for index, (process, _) in enumerate(slots) if process == 0]
        self._slot = free[0] if free else len(slots)
        if self._slot >= _N_SLOTS:
            raise RuntimeError(f"more than {_N_SLOTS} processes share one limit")
        self._process, self._in_flight = os.getpid(), 0
        self._write_slot(self._slot, self._process, 0)
        if not free:
            self._words[_SLOTS_CLAIMED] = len(slots) + 1

    def _forget_dead(self) -> None:
        """Free the slots of processes that no longer exist: their requests died with them."""
        for index, (process, _) in enumerate(self._slots()):
            if process not in (0, os.getpid()) and not is_alive(process):
                self._write_slot(index, 0, 0)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._file is None or fcntl is None:
            yield
            return
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


def is_alive(process: int) -> bool:
    """Whether a process still runs, or may. One that was killed keeps its id until its parent asks for its end."""
    if sys.platform == "win32":  # there is no asking: what stands for 0 among its signals interrupts the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        # the name in brackets may hold anything, brackets too; the state is the letter behind the last one
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):  # no /proc on this platform
        return True
