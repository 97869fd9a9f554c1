"""Fetching a catalogued model from its public page: resumed, hash-checked, never two at once.

The bytes lie in ``FILE.part`` until their SHA-256 agrees with the catalogue; only then the file gets
its name. A broken fetch keeps the part and the next one goes on from there.
"""

from __future__ import annotations

import http.client
import os
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from pytest_elo.errors import ConfigError, DataError, EloError
from pytest_elo.gateway.models import CatalogueModel, ModelFile, Progress, megabytes, sha256_of, verify

__all__ = ["MIRROR_VARIABLE", "FetchError", "fetch", "source_of"]

MIRROR_VARIABLE = "HF_ENDPOINT"
"""The hub's own variable for a mirror; where the bytes come from is free, their hash is not."""

_HUB = "https://huggingface.co"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_CHUNK_BYTES = 1 << 18
_STALL_S = 60.0
_FRUITLESS_TRIES = 3
_BROKEN_TRANSFER = (
    urllib.error.URLError,
    http.client.HTTPException,
    ssl.SSLError,
    TimeoutError,
    ConnectionError,
)


class FetchError(EloError):
    """The model could not be fetched whole; what arrived is kept for the next try."""


def source_of(model: CatalogueModel) -> str:
    """Where the file is fetched from: its public page, or the same path on the mirror in ``$HF_ENDPOINT``."""
    mirror = os.environ.get(MIRROR_VARIABLE, "").strip().rstrip("/")
    if mirror and model.source.startswith(f"{_HUB}/"):
        return mirror + model.source.removeprefix(_HUB)
    return model.source


def fetch(
    model: CatalogueModel, directory: Path, progress: Progress | None = None, *, pause_s: float = 1.0
) -> ModelFile:
    """Bring ``model`` into ``directory`` (made if missing) and return it with its hash checked.

    A file that is there already is only verified. ``pause_s`` is the wait before a broken transfer is
    resumed.

    Raises:
        ConfigError: the directory cannot be used, or another process is fetching this model into it.
        DataError: a file of that name with another hash is in the way, or the fetched bytes have a wrong
            hash (they are deleted).
        FetchError: the source could not be reached or did not deliver; what arrived is kept.
    """
    target = directory / model.file_name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _only_one(target.with_suffix(".lock"), model):
            if target.exists():
                _check_present(model, target, progress)
            else:
                _fetch_whole(model, target, progress, pause_s)
    except OSError as error:
        raise ConfigError(f"{directory}: cannot hold the model ({error.strerror or error})") from error
    return ModelFile(path=target.absolute(), sha256=model.sha256, size_bytes=model.size_bytes, catalogued=model)


def _check_present(model: CatalogueModel, target: Path, progress: Progress | None) -> None:
    found = verify(target, progress)
    if found.sha256 != model.sha256:
        raise DataError(f"{target}: not {model.name}, its SHA-256 is {found.sha256}; move it away and run this again")


def _fetch_whole(model: CatalogueModel, target: Path, progress: Progress | None, pause_s: float) -> None:
    part = target.with_name(f"{target.name}.part")
    _need_room(model, part)
    _fill(model, part, progress, pause_s)
    sha256 = sha256_of(part)
    if sha256 != model.sha256:
        part.unlink()
        raise DataError(
            f"{source_of(model)}: the fetched bytes have SHA-256 {sha256} instead of {model.sha256} "
            "and were deleted; try again, or see whether the file was changed at its source"
        )
    part.replace(target)


def _fill(model: CatalogueModel, part: Path, progress: Progress | None, pause_s: float) -> None:
    """Append to ``part`` until it is whole; tries that bring nothing new are counted, others are free."""
    fruitless = 0
    while (before := _size_of(part)) < model.size_bytes:
        try:
            _append(model, part, progress)
            reason = "the connection ended early"
        except _BROKEN_TRANSFER as error:
            reason = _reason(error)
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # it is the response as well, and holds its connection
            if _is_final(error):
                raise _gave_up(model, part, reason) from error
        fruitless = 0 if _size_of(part) > before else fruitless + 1
        if fruitless == _FRUITLESS_TRIES:
            raise _gave_up(model, part, reason)
        if _size_of(part) < model.size_bytes:
            time.sleep(pause_s)


def _append(model: CatalogueModel, part: Path, progress: Progress | None) -> None:
    """One request: the bytes that ``part`` lacks, or all of them from a source that cannot resume."""
    have = _size_of(part)
    request = urllib.request.Request(source_of(model), headers={"User-Agent": "pytest-elo"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    _refuse_unsafe(request.full_url)
    with urllib.request.urlopen(request, timeout=_STALL_S) as response:
        _refuse_unsafe(response.url)
        if response.status != 206:
            have = 0
        _refuse_other_size(model, have, response.headers.get("Content-Length"))
        with part.open("ab" if have else "wb") as file:
            _copy(response, file, have, model.size_bytes, progress)


def _copy(source: IO[bytes], file: IO[bytes], done: int, size_bytes: int, progress: Progress | None) -> None:
    while chunk := source.read(min(_CHUNK_BYTES, size_bytes - done)):
        file.write(chunk)
        done += len(chunk)
        if progress is not None:
            progress(done, size_bytes)


def _refuse_unsafe(address: str) -> None:
    """Only HTTPS, also after a redirect; plain HTTP is for a mirror on this machine."""
    parts = urlsplit(address)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return
    raise ConfigError(f"{address}: models are fetched over https only; correct {MIRROR_VARIABLE}")


def _refuse_other_size(model: CatalogueModel, have: int, content_length: str | None) -> None:
    if content_length is None:
        return
    offered = have + int(content_length)
    if offered != model.size_bytes:
        raise DataError(
            f"{source_of(model)}: offers {offered:,} bytes where {model.name} has {model.size_bytes:,}; "
            "it is another file now, nothing was fetched"
        )


def _need_room(model: CatalogueModel, part: Path) -> None:
    lacking = model.size_bytes - _size_of(part)
    free = shutil.disk_usage(part.parent).free
    if free < lacking:
        raise ConfigError(
            f"{part.parent}: {model.name} needs {megabytes(lacking)} more, {megabytes(free)} are free; "
            "make room or set PYTEST_ELO_MODELS to another directory"
        )


def _is_final(error: Exception) -> bool:
    return isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return str(error) or type(error).__name__


def _gave_up(model: CatalogueModel, part: Path, reason: str) -> FetchError:
    source = source_of(model)
    return FetchError(
        f"{urlsplit(source).netloc}: {model.name} could not be fetched ({reason}); "
        f"{megabytes(_size_of(part))} of {megabytes(model.size_bytes)} are kept. "
        f"Run this again to go on, set {MIRROR_VARIABLE} to a mirror, "
        f"or bring {source} here yourself and run `pytest-elo embed --model-file FILE`"
    )


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def _only_one(lock: Path, model: CatalogueModel) -> Iterator[None]:
    """Hold the lock file; the system frees it with the process, so a crash never blocks the next fetch."""
    with lock.open("a+b") as file:
        if not _try_lock(file):
            raise ConfigError(f"{lock}: another process is fetching {model.name}; wait for it and run this again")
        yield


def _try_lock(file: IO[bytes]) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
