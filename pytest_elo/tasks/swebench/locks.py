"""Folders that are built once, by whoever comes first, and are then only read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

__all__ = ["build_once", "exclusive", "prune"]

_IN_USE_S = 2 * 3600
"""A folder used within this time may be mounted in a running sandbox: it is never pruned."""


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
            marker.write_text(str(_size_of(folder)))
        os.utime(marker)
    return folder


def prune(folders: Iterable[Path], max_bytes: int) -> list[Path]:
    """Remove the least recently used of the complete folders until the rest is within ``max_bytes``.

    Args:
        folders: the places whose direct subfolders ``build_once`` made.

    Returns:
        What was removed. Folders that were used within two hours stay, whatever their size.
    """
    markers = [marker for folder in folders for marker in folder.glob("*/.complete")]
    used = {marker: marker.stat().st_mtime for marker in markers}
    sizes = {marker: int(marker.read_text() or 0) for marker in markers}
    total = sum(sizes.values())
    removed: list[Path] = []
    for marker in sorted(markers, key=lambda marker: used[marker]):
        if total <= max_bytes or used[marker] > time.time() - _IN_USE_S:
            break
        with exclusive(marker.parent.with_name(marker.parent.name + ".lock")):
            shutil.rmtree(marker.parent, ignore_errors=True)
        total -= sizes[marker]
        removed.append(marker.parent)
    return removed


def _size_of(folder: Path) -> int:
    """Bytes of all files, links not followed."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() or path.is_symlink())
