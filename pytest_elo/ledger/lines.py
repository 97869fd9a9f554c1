"""Lines of a JSONL file, plain or compressed, a block at a time: memory does not grow with the file."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from pytest_elo.errors import ConfigError, DataError

__all__ = ["COMPRESSED", "blocks", "open_bytes", "present"]

COMPRESSED = (".gz", ".zst")
LINE_AT_MOST = 64 << 20
"""Bytes: a small compressed file must not become a line that fills the memory."""
BLOCK = 1 << 18
"""Bytes read at once: more is slower: rows then fall out of the processor's cache."""


def present(path: Path) -> Path:
    """``path``, or where there is none the same file compressed (``.gz``, ``.zst``); else ``path`` itself."""
    if path.exists():
        return path
    found = (path.with_name(path.name + suffix) for suffix in COMPRESSED)
    return next((candidate for candidate in found if candidate.exists()), path)


def open_bytes(path: Path) -> IO[bytes]:
    """Open for reading, decompressing by suffix. Raises ``DataError``, ``ConfigError`` where zstd is not to be had."""
    try:
        if path.suffix == ".gz":
            unzipped: Any = gzip.open(path, "rb")  # noqa: SIM115  # closed by whoever reads
            return io.BufferedReader(unzipped, BLOCK)
        if path.suffix == ".zst":
            return _zstd(path)
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def _zstd(path: Path) -> IO[bytes]:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]  # Python 3.14
    except ImportError:
        return _zstandard(path)
    stream: Any = zstd.open(path, "rb")
    return io.BufferedReader(stream, BLOCK)


def _zstandard(path: Path) -> IO[bytes]:
    try:
        import zstandard
    except ImportError:
        raise ConfigError(f"{path}: zstd needs Python 3.14 or: pip install 'pytest-elo[fast]'") from None
    return io.BufferedReader(_Frames(path, zstandard.ZstdDecompressor().decompressobj), BLOCK)


class _Frames(io.RawIOBase):
    """The zstd frames of a file one after the other; its end within a frame is an error, not the end."""

    def __init__(self, path: Path, decompressor: Any) -> None:
        self._source = path.open("rb")
        self._new = decompressor
        self._frame: Any = None
        self._compressed = b""
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._ready:
            self._compressed = self._compressed or self._source.read(BLOCK)
            if not self._compressed:
                if self._frame is not None:
                    raise EOFError("the last frame is not whole")
                return 0
            self._frame = self._frame or self._new()
            self._ready = self._frame.decompress(self._compressed)
            self._compressed = self._frame.unused_data if self._frame.eof else b""
            self._frame = None if self._frame.eof else self._frame
        n = min(len(target), len(self._ready))
        target[:n], self._ready = self._ready[:n], self._ready[n:]
        return n

    def close(self) -> None:
        self._source.close()
        super().close()


def blocks(path: Path, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """(number of the first line, whole lines) from byte ``start`` to ``end`` of the decompressed file.

    Every block ends with a line break but for the last one of a file that does not. Numbers count from
    ``start``. Raises ``DataError`` for what cannot be read or decompressed.
    """
    number = 1
    left = float("inf") if end is None else end - start
    with open_bytes(path) as stream:
        if start:
            stream.seek(start)
        while block := _read(stream.read, path, int(min(BLOCK, left))):
            if not block.endswith(b"\n"):
                block += _read(stream.readline, path, LINE_AT_MOST)
                if len(block) > LINE_AT_MOST and not block.endswith(b"\n"):
                    number += block.count(b"\n")
                    raise DataError(f"{path}, line {number}: a line of more than {LINE_AT_MOST >> 20} MB is no row")
            left -= len(block)
            yield number, block
            number += block.count(b"\n")


def _read(read: Callable[[int], bytes], path: Path, size: int) -> bytes:
    if not size:
        return b""
    try:
        return read(size)
    except (OSError, EOFError, ValueError, RuntimeError) as error:
        raise DataError(f"{path}: cannot be read to its end ({error}); is the file complete?") from None
    except Exception as error:  # zstandard's own error is no subclass of anything above
        raise DataError(f"{path}: cannot be decompressed ({error})") from None
