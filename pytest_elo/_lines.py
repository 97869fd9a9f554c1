"""Single lines of large files, read where they stand."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["line_at"]

_CHUNK = 1 << 13


def line_at(path: Path, offset: int) -> tuple[bytes, os.stat_result]:
    """The line that begins at ``offset``, without its break, and what the system says of the file. Raises ``OSError``.

    The file is opened anew each time: what holds no file needs no closing, and threads share nothing.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        os.lseek(descriptor, offset, os.SEEK_SET)
        chunks = [os.read(descriptor, _CHUNK)]
        while b"\n" not in chunks[-1] and (chunk := os.read(descriptor, _CHUNK)):
            chunks.append(chunk)
        return b"".join(chunks).partition(b"\n")[0], os.fstat(descriptor)
    finally:
        os.close(descriptor)
