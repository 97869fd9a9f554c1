"""Long texts of a run's rows, set aside in a file without a name: memory does not grow with what models say."""

from __future__ import annotations

import tempfile
import weakref
from typing import IO

__all__ = ["Aside", "Kept"]

SHORT = 300
"""Bytes that are not worth a place in the file."""
IN_MEMORY = 4_000_000
"""Bytes of long texts that are held before any file is made."""

Kept = bytes | tuple[int, int]
"""A text itself, or where it begins in the file and how long it is, in bytes."""


class Aside:
    """Takes texts and gives each back by what ``put`` returned; where no file can be written they stay in memory."""

    def __init__(self) -> None:
        self._room = IN_MEMORY
        self._file: IO[bytes] | None = None
        self._end = 0

    def put(self, data: bytes) -> Kept:
        if len(data) <= SHORT:
            return data
        self._room -= len(data)
        if self._room >= 0:
            return data
        try:
            return self._written(data)
        except OSError:  # no room there either
            return data

    def get(self, kept: Kept) -> bytes:
        if isinstance(kept, bytes):
            return kept
        assert self._file is not None
        start, size = kept
        self._file.seek(start)
        return self._file.read(size)

    def _written(self, data: bytes) -> Kept:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # lives as long as this object
            weakref.finalize(self, self._file.close)
        self._file.seek(self._end)
        if self._file.write(data) != len(data):
            raise OSError("written in part")
        start, self._end = self._end, self._end + len(data)
        return start, len(data)
