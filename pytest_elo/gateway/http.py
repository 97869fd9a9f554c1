"""The HTTP library under the installed OpenAI SDK: ``httpx2`` for major 3 and later, ``httpx`` for 2.

Found from the SDK's version, so that a process which only asks through strategies never pays for
importing the SDK; a test holds this equal to the module behind ``openai.DefaultHttpxClient``.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Iterator
from functools import cache
from importlib.metadata import version
from typing import Any

__all__ = ["http_module", "relay_stream_types"]


@cache
def http_module() -> Any:
    major = int(version("openai").split(".", 1)[0])
    return importlib.import_module("httpx2" if major >= 3 else "httpx")


class _Relay:
    """A response stream over any iterator of chunks; closing it closes the iterator's owner."""

    def __init__(self, source: Any) -> None:
        self._source = source


class _SyncRelay(_Relay):
    def __iter__(self) -> Iterator[bytes]:
        return iter(self._source)

    def close(self) -> None:
        self._source.close()


class _AsyncRelay(_Relay):
    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._source)

    async def aclose(self) -> None:
        await self._source.aclose()


@cache
def relay_stream_types() -> tuple[Any, Any]:
    """The sync and async stream classes, as subclasses of what the HTTP library insists on."""
    http = http_module()
    return (
        type("SyncRelay", (_SyncRelay, http.SyncByteStream), {}),
        type("AsyncRelay", (_AsyncRelay, http.AsyncByteStream), {}),
    )
