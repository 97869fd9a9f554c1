"""Run a command with a wall clock and an output limit, and leave no child of it behind."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Literal

__all__ = ["Finished", "run_limited"]

_CHUNK = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a command ended. ``output`` is stdout and stderr as one stream; ``wall_s`` is in seconds."""

    exit_code: int
    output: bytes
    ended: Literal["exit", "timeout", "output_limit"]
    wall_s: float

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", "replace")


def run_limited(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    wall_s: float,
    output_mb: int = 32,
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Run ``argv`` in a session of its own; kill its whole process group when a limit is met or we are left.

    Sandboxes die with their first process, so the group is enough there; see ``unsandboxed`` for the rest.
    """
    start = time.monotonic()
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=None if environment is None else dict(environment),
        start_new_session=True,
    )
    try:
        output, ended = _pump(process, stdin, start + wall_s, output_mb << 20)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
    return Finished(exit_code=process.returncode, output=output, ended=ended, wall_s=time.monotonic() - start)


def _pump(
    process: subprocess.Popen[bytes], stdin: bytes, deadline: float, output_limit: int
) -> tuple[bytes, Literal["exit", "timeout", "output_limit"]]:
    """Feed stdin and read output until the process has ended and its pipe is closed or silent."""
    assert process.stdin is not None
    assert process.stdout is not None
    output = bytearray()
    pending = memoryview(stdin)
    with selectors.DefaultSelector() as selector:
        os.set_blocking(process.stdin.fileno(), False)
        os.set_blocking(process.stdout.fileno(), False)
        selector.register(process.stdout, selectors.EVENT_READ)
        if pending:
            selector.register(process.stdin, selectors.EVENT_WRITE)
        else:
            process.stdin.close()
        while True:
            if time.monotonic() >= deadline:
                return bytes(output), "timeout"
            ready = selector.select(timeout=min(0.2, max(deadline - time.monotonic(), 0)))
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    pending = _feed(process.stdin, pending)
                    if not pending:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    continue
                chunk = process.stdout.read(_CHUNK)
                if chunk == b"":
                    selector.unregister(process.stdout)
                elif chunk:
                    output += chunk
            if len(output) > output_limit:
                return bytes(output[:output_limit]), "output_limit"
            open_ = process.stdout in (key.fileobj for key in selector.get_map().values())
            if process.poll() is not None and (not open_ or not ready):
                return bytes(output), "exit"
            if not open_ and process.poll() is None:
                time.sleep(0.02)


def _feed(pipe: IO[bytes], pending: memoryview) -> memoryview:
    try:
        return pending[os.write(pipe.fileno(), pending[:_CHUNK]) :]
    except BlockingIOError:
        return pending
    except BrokenPipeError:
        return memoryview(b"")
