"""Lines appended by several writers at once, readable after any crash."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["append_lines", "append_new_lines", "write_all"]

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    @contextmanager
    def _locked(descriptor: int) -> Iterator[None]:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
        try:
            yield
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    @contextmanager
    def _locked(descriptor: int) -> Iterator[None]:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of ``data``, however few bytes the file system takes at once."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def append_lines(path: Path, lines: Iterable[str]) -> None:
    """Append ASCII lines and sync to disk before returning: what was acknowledged survives a crash.

    A line torn by an earlier crash is closed first, so that it can never swallow a new one.
    """
    with _opened(path) as descriptor:
        _append(descriptor, lines)


def append_new_lines(path: Path, lines: Iterable[str]) -> None:
    """The same for those that the file does not hold yet; without any, the file is not touched."""
    lines = list(lines)
    if not lines:
        return
    with _opened(path) as descriptor:
        known = set(path.read_bytes().split(b"\n"))
        fresh = [line for line in lines if line.encode("ascii") not in known]
        if fresh:
            _append(descriptor, fresh)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        with _locked(descriptor):
            yield descriptor
    finally:
        os.close(descriptor)


def _append(descriptor: int, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines).encode("ascii")
    write_all(descriptor, (b"" if _ends_in_newline(descriptor) else b"\n") + text)
    os.fsync(descriptor)


def _ends_in_newline(descriptor: int) -> bool:
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if size == 0:
        return True
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) == b"\n"
