"""No walls, on explicit request only: model-written code runs as the user, with an empty environment."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_elo.tasks.swebench.sandbox.cell import Cell

__all__ = ["Unsandboxed"]


class Unsandboxed:
    """Runs commands on the host's own file system; the mounts of a cell are reached through ``ELO_MOUNTS``.

    The name ``none`` stands in every report. Limits hold, isolation does not: files, network and processes of
    the user are within reach of the code.
    """

    name = "none"

    def argv(self, cell: Cell, command: Sequence[str]) -> list[str]:
        environment = [f"{name}={value}" for name, value in cell.environment.items()]
        return ["env", "-i", *environment, *command]

    def contain(self, command: Sequence[str]) -> list[str]:
        return list(command)
