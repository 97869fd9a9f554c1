"""A guard for readers that must not hang: processor time, so that a busy machine changes nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ends"]

GUARD_CPU_S = 60.0
"""Far above what any linear reader needs for the inputs of these tests, far below what a quadratic one does."""


@contextmanager
def ends(within_cpu_s: float = GUARD_CPU_S) -> Iterator[None]:
    """Fail the test when the block is still running after so much processor time of this process."""

    def fail(*_: object) -> None:
        raise AssertionError(f"still running after {within_cpu_s:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, fail)
    signal.setitimer(signal.ITIMER_VIRTUAL, within_cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
