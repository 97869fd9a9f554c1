"""A real language model on this machine: llama.cpp's server in a child process, on loopback, behind a key.

The server lives in its own process so that neither its threads nor its crash touch pytest, and it ends
with the process that started it, however that one ends.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from pytest_elo._parse import parse_json
from pytest_elo.errors import ConfigError, EloError
from pytest_elo.gateway.models import ModelFile

__all__ = ["EmbeddedModel", "EmbeddedServerError"]

_RUNTIME = "xllamacpp"
_SERVER_SCRIPT = Path(__file__).with_name("embedded_server.py")
_LOG_TAIL_BYTES = 4096
_LOG_TAIL_LINES = 3
_ERROR_LINE = re.compile(r"[\d.]+ E (.+)")
_GRACE_S = 5.0


class EmbeddedServerError(EloError):
    """The embedded model's server did not start, or ended while it was needed."""


class EmbeddedModel:
    """A context manager that serves one model file to OpenAI clients on this machine.

    The defaults give identical text for identical requests on one machine, in any order and in any
    process: one slot, one thread, no prompt cache. More ``slots`` answer several requests at once, and
    llama.cpp does not promise that a text is independent of what is answered beside it. Another number
    of ``threads`` rounds differently (two instead of one: 3 of 12 texts changed), so both belong to what
    makes two runs comparable. A slot holds ``context_tokens`` of prompt and completion together: a
    longer prompt is refused with HTTP 400, a completion that fills the slot ends with ``length``.

    Ask for no more at once than there are slots: further requests wait inside the server, and their
    latency measures the queue.
    """

    def __init__(
        self,
        model: ModelFile,
        *,
        slots: int = 1,
        threads: int = 1,
        context_tokens: int = 4096,
        startup_timeout_s: float = 120.0,
    ) -> None:
        self.model = model
        self.slots = slots
        self.threads = threads
        self.context_tokens = context_tokens
        self.startup_timeout_s = startup_timeout_s
        self.api_key = secrets.token_urlsafe(24)
        self._address = ""
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None

    @property
    def base_url(self) -> str:
        """The address an OpenAI client takes, ``/v1`` included; empty before the start."""
        return f"{self._address}/v1" if self._address else ""

    @property
    def model_name(self) -> str:
        return self.model.model_name

    @property
    def sha256(self) -> str:
        return self.model.sha256

    @property
    def runtime_version(self) -> str:
        """Name and version of what runs the model: part of what makes two runs comparable."""
        return f"{_RUNTIME} {importlib.metadata.version(_RUNTIME)}"

    @property
    def process_id(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the server and wait until it answers (about a second for every gigabyte of model).

        Raises:
            ConfigError: the runtime is not installed.
            EmbeddedServerError: the model does not load or takes too long; holds the end of the log.
        """
        _need_runtime()
        if self._process is not None:
            raise EmbeddedServerError("the embedded model is started already; close it first")
        # Opened for appending: reading the tail below must not move the child's place to write.
        self._log = tempfile.TemporaryFile(mode="a+b")  # noqa: SIM115
        self._process = subprocess.Popen(
            # -P: the script's own directory must not shadow what the runtime imports.
            [sys.executable, "-P", str(_SERVER_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
            # Ctrl-C is for pytest: what is in flight is drained before the server goes.
            start_new_session=True,
        )
        try:
            self._address = self._await_address(self._process)
        except BaseException:
            self.close()
            raise

    def _await_address(self, process: subprocess.Popen[str]) -> str:
        watchdog = threading.Timer(self.startup_timeout_s, process.kill)
        watchdog.start()
        try:
            line = self._exchange(process)
        finally:
            in_time = watchdog.is_alive()
            watchdog.cancel()
        if line:
            return str(parse_json(line)["address"])
        process.wait()
        if not in_time:
            raise EmbeddedServerError(
                f"{self.model.path}: not loaded after {self.startup_timeout_s:g} s; "
                "a smaller model (`pytest-elo embed`) or an idle machine loads faster"
            )
        raise EmbeddedServerError(f"{self.model.path}: the model does not start: {self._first_error()}")

    def _exchange(self, process: subprocess.Popen[str]) -> str:
        """Hand the settings over (never on the command line, where any user reads the key)."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(self._settings()) + "\n")
            process.stdin.flush()
        except OSError:
            return ""
        return process.stdout.readline()

    def _settings(self) -> dict[str, Any]:
        return {
            "path": str(self.model.path),
            "model_name": self.model_name,
            "api_key": self.api_key,
            "slots": self.slots,
            "threads": self.threads,
            "context_tokens": self.context_tokens,
        }

    def failure(self) -> str | None:
        """One line on how the server ended with the end of its log; ``None`` while it runs."""
        if self._process is None or self._process.poll() is None:
            return None
        return f"the embedded model's server ended (exit {self._process.returncode}): {self._log_tail()}"

    def close(self) -> None:
        """End the server; harmless when it has ended already or never started."""
        process, self._process, self._address = self._process, None, ""
        if process is not None:
            _end(process)
        if self._log is not None:
            self._log.close()
            self._log = None

    def _first_error(self) -> str:
        """What llama.cpp names as the cause (its later errors only follow from it), or the end of the log."""
        errors = (_ERROR_LINE.match(line) for line in self._log_lines())
        return next((error[1] for error in errors if error), self._log_tail())

    def _log_tail(self) -> str:
        return " / ".join(self._log_lines()[-_LOG_TAIL_LINES:]) or "it left no log"

    def _log_lines(self) -> list[str]:
        assert self._log is not None
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _LOG_TAIL_BYTES))
        lines = self._log.read().decode("utf-8", "replace").splitlines()
        return [line.strip() for line in lines if line.strip()]


def _need_runtime() -> None:
    if importlib.util.find_spec(_RUNTIME) is None:
        raise ConfigError(
            "the embedded model needs the llama.cpp runtime, which is not installed; "
            "run `pip install 'pytest-elo[embedded]'`"
        )


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(timeout=_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
