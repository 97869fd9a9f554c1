"""A worker on another host shares no disk with the controller: what it does otherwise.

The controller leaves a nonce in its run directory. A worker that reads it there shares the disk. One that does
not keeps a run directory of the same name under its own root: its journal, its response store and its limits.
Its rows, outcomes and replies travel in its reports; settings and data it reads from its own copy of the suite.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_elo.errors import ConfigError
from pytest_elo.ledger.rundir import RunDir
from pytest_elo.session.plan import Plan

__all__ = ["Whereabouts", "config_paths_here", "is_a_plain_process", "is_on_another_host", "lost_note"]


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a process keeps what it does, and whether the controller sees it."""

    run_dir: RunDir
    shares_disk: bool

    @classmethod
    def of(cls, plan: Plan, root: Path) -> Whereabouts:
        """Of a worker whose pytest root is ``root``.

        Raises ``ConfigError`` for the local model, which answers on the controller's host only.
        """
        shared = RunDir(Path(plan.run_dir))
        if shared.holds(plan.nonce):
            return cls(shared, True)
        if plan.mode == "embedded":
            raise ConfigError(
                f"{socket.gethostname()}: the local model answers on the controller's host only; give workers on "
                "other hosts a gateway"
            )
        return cls(RunDir(root / ".elo" / plan.run_id), False)

    def share(self, tokens: int | None, usd: float | None, workers: int) -> tuple[int | None, float | None]:
        """What this process may spend of the budgets: where nobody sees the others' sums, each has its part."""
        if self.shares_disk:
            return tokens, usd
        return None if tokens is None else max(1, tokens // workers), None if usd is None else usd / workers

    @property
    def place(self) -> str:
        """For the user who looks for it: host and folder."""
        return f"{socket.gethostname()}:{self.run_dir.path}"


def config_paths_here(plan: Plan, root: Path, find: Callable[[], Sequence[Path]]) -> list[Path]:
    """The settings' files on this host: as the controller names them, or at the same place under ``root``.

    Raises ``ConfigError`` when a file is in neither place and ``find`` finds none.
    """
    here = [Path(path) for path in plan.config_paths]
    if RunDir(Path(plan.run_dir)).holds(plan.nonce) or not here:
        return here
    moved = [Path(os.path.normpath(root / os.path.relpath(path, plan.root))) for path in here]
    if all(path.is_file() for path in moved):
        return moved
    found = list(find())
    if found:
        return found
    raise ConfigError(
        f"{socket.gethostname()}: no {moved[0]}; a worker on another host needs its own copy of the suite, "
        "by --rsyncdir or by a checkout that --tx names with chdir="
    )


def is_on_another_host(node: Any) -> bool:
    """Whether xdist reaches the node over a network."""
    spec = node.gateway.spec
    return bool(spec.ssh or spec.socket or getattr(spec, "vagrant_ssh", None))


def is_a_plain_process(node: Any) -> bool:
    """Whether the node is a child process as ``-n`` makes them: no network, no interpreter of its own choice."""
    return bool(node.gateway.spec.popen) and not node.gateway.spec.python


def lost_note(worker: str, place: str | None, run: str) -> str:
    where = f"{worker} ({place})" if place else worker
    folder = place.split(":", 1)[1] if place else f".elo/{run}"
    return (
        f"worker {where} on another disk was lost: what it bought since its last report is unknown and in no sum; "
        f"to count it, copy the folders shards and responses of its {folder} into this run and continue with "
        "--elo-resume"
    )
