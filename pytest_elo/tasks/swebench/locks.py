"""Folders that are built once, by whoever comes first, and are then only read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["build_once", "exclusive"]


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold an advisory lock on ``path``; the system releases it when the process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)


def build_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """``folder``, built by ``build(folder)`` unless it is complete.

    Completeness is a marker written last, so a folder left half-built by a killed process is removed and
    built anew. The lock makes parallel workers wait for the first instead of building beside it. Each use
    touches the marker, which is what ``prune`` goes by.
    """
    marker = folder / ".complete"
    with exclusive(folder.with_name(folder.name + ".lock")):
        if not marker.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                build(folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            marker.touch()
        os.utime(marker)
    return folder
