"""Advisory locks on files: they say that a process is alive, and vanish with it however it dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["lock", "locked"]


def lock(descriptor: int) -> bool:
    """Lock an open file exclusively for as long as it stays open; ``False`` when another process holds it."""
    try:
        import fcntl
    except ImportError:  # Windows: byte-range locks of the C runtime
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(descriptor: int) -> Iterator[None]:
    """Wait for the lock of an open file and hold it in the block, for work of microseconds."""
    try:
        import fcntl
    except ImportError:  # Windows: without waiting locks, two processes may meet here
        yield
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
