"""The second choice: the same walls built with util-linux's ``unshare`` and a small program of our own."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from pytest_elo.tasks.swebench.sandbox.bubblewrap import ENTER
from pytest_elo.tasks.swebench.sandbox.cell import Cell, system_mounts

__all__ = ["Unshare"]

_NAMESPACES = (
    "--user",
    "--map-root-user",
    "--mount",
    "--pid",
    "--ipc",
    "--uts",
    "--fork",
    "--kill-child=KILL",
)
_PARKING = ("/mnt", "/srv", "/media", "/opt", "/home")
"""Folders of which one serves as mount point of the new root; it must not hold anything to be mounted."""


class Unshare:
    """Namespaces by ``unshare``; needs Linux 5.12 (``mount_setattr``)."""

    name = "unshare"

    def argv(self, cell: Cell, command: Sequence[str]) -> list[str]:
        """The command line that runs ``command`` in the cell; ends with it and when its caller dies."""
        mounts, links = system_mounts()
        read_only = {**mounts, **cell.read_only}
        sources = [*read_only.values(), *cell.writable.values(), Path(sys.executable)]
        root = {
            "at": next(at for at in _PARKING if Path(at).is_dir() and not any(_within(s, at) for s in sources)),
            "links": links,
            "mounts": [
                *([str(source), target, False] for target, source in read_only.items()),
                *([str(source), target, True] for target, source in cell.writable.items()),
            ],
            "scratch": {scratch.target: scratch.size_mb for scratch in cell.scratch},
            "environment": dict(cell.environment),
        }
        spec = json.dumps({"network": cell.network, "root": root})
        network = [] if cell.network == "host" else ["--net"]
        return [
            "setpriv", "--pdeathsig", "KILL", "unshare", *_NAMESPACES, *network, "--",
            sys.executable, "-I", ENTER, spec, *command,
        ]  # fmt: skip

    def entering(self, cell: Cell, command: Sequence[str]) -> AbstractContextManager[list[str]]:
        return nullcontext(self.argv(cell, command))

    def contain(self, command: Sequence[str]) -> list[str]:
        """Run a trusted command on the host's own files so that all its children die with us."""
        namespaces = ("--user", "--map-root-user", "--pid", "--mount-proc", "--fork", "--kill-child=KILL")
        return ["setpriv", "--pdeathsig", "KILL", "unshare", *namespaces, "--", *command]


def _within(path: Path, folder: str) -> bool:
    return path.is_relative_to(folder) or path.resolve().is_relative_to(folder)
