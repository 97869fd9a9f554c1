"""Folders that are built once, by whoever comes first, and are then only read."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pytest_elo.ledger.locks import lock, locked

__all__ = ["build_once", "exclusive", "prune", "slot"]

_POLL_S = 0.1

_IN_USE_S = 2 * 3600
"""A folder used within this time may be mounted in a running sandbox: it is never pruned."""


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold an advisory lock on ``path``; the system releases it when the process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as handle, locked(handle.fileno()):
        yield


@contextlib.contextmanager
def slot(folder: Path, n: int) -> Iterator[None]:
    """Hold one of ``n`` places that all processes on this machine share by naming the same folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        while not any(_taken(held, folder / f"{i}.lock") for i in range(n)):
            time.sleep(_POLL_S)
        yield


def _taken(held: contextlib.ExitStack, path: Path) -> bool:
    handle = open(path, "a")  # noqa: SIM115  closed by the stack, or here
    if not lock(handle.fileno()):
        handle.close()
        return False
    held.enter_context(handle)
    return True


def build_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """``folder``, built by ``build(folder)`` unless it is complete.

    Completeness is a marker written last, so a folder left half-built by a killed process is removed and
    built anew. The lock makes parallel workers wait for the first instead of building beside it. Each use
    touches the marker, which is what ``prune`` goes by.
    """
    marker = folder / ".complete"
    with exclusive(_lock_of(folder)):
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
    """Remove what killed processes left half-built, and the least recently used until the rest fits.

    Args:
        folders: the places whose direct subfolders ``build_once`` made.
        max_bytes: for all complete subfolders together.

    Returns:
        What was removed. Folders that were used within two hours stay, whatever their size.
    """
    removed = [path for folder in folders for path in folder.glob("*/") if _remove_if_abandoned(path)]
    markers = [marker for folder in folders for marker in folder.glob("*/.complete")]
    used = {marker: marker.stat().st_mtime for marker in markers}
    sizes = {marker: int(marker.read_text() or 0) for marker in markers}
    total = sum(sizes.values())
    for marker in sorted(markers, key=lambda marker: used[marker]):
        if total <= max_bytes or used[marker] > time.time() - _IN_USE_S:
            break
        with exclusive(_lock_of(marker.parent)):
            shutil.rmtree(marker.parent, ignore_errors=True)
        total -= sizes[marker]
        removed.append(marker.parent)
    return removed


def _remove_if_abandoned(folder: Path) -> bool:
    """Remove a folder that is not complete and that nobody is building."""
    if (folder / ".complete").exists():
        return False
    with contextlib.ExitStack() as held:
        if not _taken(held, _lock_of(folder)) or (folder / ".complete").exists():
            return False
        shutil.rmtree(folder, ignore_errors=True)
    return True


def _lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + ".lock")


def _size_of(folder: Path) -> int:
    """Bytes of all files, links not followed."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() or path.is_symlink())
