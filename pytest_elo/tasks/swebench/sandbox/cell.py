"""What a sandboxed process sees and may use: a description that each sandbox turns into a command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

__all__ = ["Cell", "Furnish", "Limits", "Network", "Scratch", "system_mounts"]

Network = Literal["none", "sink", "host"]
"""``none``: unreachable at once; ``sink``: connects hang until their timeout; ``host``: the host's own."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store")
_ETC = ("alternatives", "ld.so.cache", "localtime", "mime.types", "ssl")
_OWN_ETC = Path(__file__).parent.parent / "data" / "etc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one sandboxed run; ``apply_s`` is for each way to apply its patch.

    Sizes here hold for each process, those of scratch for all together.
    """

    wall_s: float = 1800.0
    apply_s: float = 120.0
    cpu_s: int = 1800
    memory_mb: int = 4096
    file_mb: int = 512
    open_files: int = 1024
    processes: int = 512
    output_mb: int = 32

    def shell(self) -> str:
        """Shell lines that lower the resource limits of the shell and all its children.

        The limit on processes does not bind the host's root user (``setrlimit(2)``); the wall clock does.
        """
        return (
            f"ulimit -c 0; ulimit -t {self.cpu_s}; ulimit -v {self.memory_mb * 1024}; "
            f"ulimit -f {self.file_mb * 1024}; ulimit -n {self.open_files}; ulimit -u {self.processes}"
        )


@dataclass(frozen=True, slots=True)
class Scratch:
    """A private place in memory that vanishes with the process; writing more than ``size_mb`` fails."""

    target: str
    size_mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The file system, environment and network of a sandboxed process.

    ``read_only`` and ``writable`` map targets inside to host paths. Nothing else of the host is visible
    but the system folders; the environment is exactly ``environment``.
    """

    read_only: Mapping[str, Path] = field(default_factory=dict)
    writable: Mapping[str, Path] = field(default_factory=dict)
    scratch: tuple[Scratch, ...] = (Scratch("/tmp", 1024),)
    environment: Mapping[str, str] = field(default_factory=dict)
    network: Network = "none"
    limits: Limits = Limits()


Furnish = Callable[[Cell], Cell]
"""Adds to a cell what a guest in it needs: mounts, variables, other limits."""


def system_mounts() -> tuple[dict[str, Path], dict[str, str]]:
    """The host's system folders: read-only mounts by target, and links by target (``/bin -> usr/bin``)."""
    mounts: dict[str, Path] = {}
    links: dict[str, str] = {}
    for name in _SYSTEM:
        path = Path(name)
        if path.is_symlink():
            links[name] = os.readlink(path)
        elif path.is_dir():
            mounts[name] = path
    for name in _ETC:
        if (path := Path("/etc") / name).exists():
            mounts[str(path)] = path
    mounts.update({f"/etc/{path.name}": path for path in sorted(_OWN_ETC.iterdir())})
    return mounts, links
