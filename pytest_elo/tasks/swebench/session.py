"""A shell that lives as long as an agent works: one command at a time, each with its own time limit.

The process reads commands from its standard input and answers each with one framed reply. The code it runs
could forge a frame; that fools only the agent that wrote it, since the final diff is evaluated in a fresh
sandbox.
"""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from pytest_elo.tasks.swebench.errors import RunnerError
from pytest_elo.tasks.swebench.sandbox.cell import Limits

__all__ = ["Observation", "ShellSession"]

_DIFF = (
    "git add --all --intent-to-add . >/dev/null 2>&1; "
    "git -c core.fileMode=false diff --no-color --no-ext-diff --no-textconv --no-renames HEAD -- . "
    "':(exclude)**/__pycache__/**' ':(exclude)*.pyc' ':(exclude)build/**' ':(exclude)dist/**' "
    "':(exclude)*.egg-info/**' ':(exclude)**/.pytest_cache/**' ':(exclude)*.orig' ':(exclude)*.rej'"
)


@dataclass(frozen=True, slots=True)
class Observation:
    """What a command printed (both streams) and its exit code; 124 or 137 when its time was over."""

    output: str
    exit_code: int


class ShellSession:
    """Start ``argv`` (which must run ``bash`` with the program of ``program()``) and talk to it.

    A context manager: leaving it ends every process of the session.
    """

    def __init__(
        self,
        argv: Sequence[str],
        word: str,
        *,
        command_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._word = word.encode()
        self._command_s = command_s
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=None if environment is None else dict(environment),
            start_new_session=True,
        )
        self._buffer = b""

    @staticmethod
    def program(word: str, prelude: str, limits: Limits, command_s: float, output_bytes: int = 1 << 20) -> str:
        """The shell program that serves commands; ``prelude`` brings it into the tree."""
        return f"""set -u; root=${{ELO_ROOT-}}; fail() {{ echo "$1"; exit 97; }}
{prelude}
{limits.shell()}
while IFS= read -r -d '' command; do
  timeout --kill-after=2 {command_s:g} bash -c "$command" </dev/null 2>&1 \\
    | head -c {output_bytes} >$root/tmp/.elo-out
  code=${{PIPESTATUS[0]}}
  printf '{word} %d %d\\n' "$code" "$(stat -c %s $root/tmp/.elo-out)"
  cat $root/tmp/.elo-out
done"""

    @staticmethod
    def new_word() -> str:
        return secrets.token_hex(16)

    def run(self, command: str) -> Observation:
        """Run one command.

        Raises:
            RunnerError: the session has ended or does not answer.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command.replace("\0", "").encode("utf-8", "replace") + b"\0")
            self._process.stdin.flush()
        except OSError:
            raise RunnerError(f"the agent's shell has ended: {self._tail()}") from None
        deadline = time.monotonic() + self._command_s + 15
        header = self._until(b"\n", deadline)
        while not header.startswith(self._word + b" "):
            header = self._until(b"\n", deadline)
        code, size = (int(part) for part in header[len(self._word) :].split())
        output = self._exactly(size, deadline)
        return Observation(output.decode("utf-8", "replace"), code)

    def diff(self) -> str:
        """All changes of the working tree as one text diff, without what builds and tests leave behind."""
        return self.run(f"cd ${{ELO_ROOT-}}/testbed && {_DIFF}").output

    def put(self, patch: str) -> None:
        """Apply a patch to the working tree, if it applies."""
        end = f"EOF_{secrets.token_hex(8)}"
        text = patch if patch.endswith("\n") else f"{patch}\n"
        self.run(f"cd ${{ELO_ROOT-}}/testbed && git apply - <<'{end}'\n{text}{end}")

    def kill(self) -> None:
        """End every process of the session at once, from any thread; a ``run`` in another one raises."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _until(self, mark: bytes, deadline: float) -> bytes:
        while mark not in self._buffer:
            self._read_more(deadline)
        line, _, self._buffer = self._buffer.partition(mark)
        return line

    def _exactly(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) < size:
            self._read_more(deadline)
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def _read_more(self, deadline: float) -> None:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout=max(deadline - time.monotonic(), 0)):
                raise RunnerError("the agent's shell does not answer")
        chunk = os.read(self._process.stdout.fileno(), 1 << 16)
        if not chunk:
            raise RunnerError(f"the agent's shell has ended: {self._tail()}")
        self._buffer += chunk

    def _tail(self) -> str:
        return " ".join(self._buffer.decode("utf-8", "replace").split())[-200:]
