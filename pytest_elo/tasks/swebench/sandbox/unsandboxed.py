"""No walls, on explicit request only: model-written code runs as the user, with an empty environment."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_elo.tasks.swebench.sandbox.cell import Cell

__all__ = ["Unsandboxed"]


class Unsandboxed:
    """Runs commands on the host's own file system, with the cell's targets inside a temporary folder.

    The name ``none`` stands in every report. Limits hold, isolation does not: files, network and processes of
    the user are within reach of the code. ``ELO_ROOT`` names the temporary folder; environment values that
    mention a target of the cell are rewritten to it.
    """

    name = "none"

    @contextlib.contextmanager
    def entering(self, cell: Cell, command: Sequence[str]) -> Iterator[list[str]]:
        """The command line for a cell; afterwards the folder and all processes started for it are gone."""
        root = Path(tempfile.mkdtemp(prefix="elo-unsandboxed-"))
        try:
            yield ["env", "-i", f"ELO_ROOT={root}", *_variables(cell, root), *command]
        finally:
            _kill_all(f"ELO_ROOT={root}".encode())
            shutil.rmtree(root, ignore_errors=True)

    def contain(self, command: Sequence[str]) -> list[str]:
        return list(command)


def _variables(cell: Cell, root: Path) -> list[str]:
    """Make the cell's targets below ``root`` and name them there in the environment's values."""
    moved: dict[str, str] = {}
    for target, source in {**cell.read_only, **cell.writable}.items():
        moved[target] = target if Path(target) == source else f"{root}{target}"
        if moved[target] != target:
            Path(moved[target]).symlink_to(source)
    for scratch in cell.scratch:
        moved[scratch.target] = f"{root}{scratch.target}"
        Path(moved[scratch.target]).mkdir(exist_ok=True)
    names = "|".join(re.escape(target) for target in sorted(moved, key=len, reverse=True))
    pattern = re.compile(rf"(?:(?<=:)|^)({names})(?=[/:]|$)")
    return [f"{name}={pattern.sub(lambda match: moved[match[1]], value)}" for name, value in cell.environment.items()]


def _kill_all(mark: bytes) -> None:
    """Kill every process of ours whose initial environment holds the mark, in whatever session it is."""
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in entry.read_bytes().split(b"\0"):
                os.kill(int(entry.parent.name), signal.SIGKILL)
