"""SIGTERM, as CI sends it before SIGKILL: stop everywhere, wait a moment for calls in flight, report what is there."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType

from pytest_elo.ledger.rundir import RunDir

__all__ = ["GRACE_S", "Termination"]

GRACE_S = 2.0
"""Seconds that calls in flight still have; CI gives a process five to ten between SIGTERM and SIGKILL."""

REASON = "the run was terminated (SIGTERM)"


class Termination:
    """While installed, SIGTERM ends this process's part of the run in order instead of at once.

    The controller raises ``KeyboardInterrupt``, which pytest knows how to end on (exit code 2). A worker stops
    before its next item and is ended by the controller.
    """

    def __init__(self, run_dir: RunDir, *, interrupts: bool) -> None:
        self._run_dir = run_dir
        self._interrupts = interrupts
        self._restore: Callable[[], object] = lambda: None

    def install(self) -> None:
        # only a main thread may, and a host program that has chosen a handler keeps it
        with contextlib.suppress(ValueError):
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._on_signal)
                self._restore = lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def restore(self) -> None:
        with contextlib.suppress(ValueError):
            self._restore()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._run_dir.stop(REASON)
        last = threading.Timer(GRACE_S, self._run_dir.stop_now)
        last.daemon = True
        last.start()
        self.restore()  # a second one ends the process as ever
        if self._interrupts:
            raise KeyboardInterrupt(REASON)
