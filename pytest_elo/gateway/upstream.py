"""Connections to the gateway for our own requests and those we forward: ``h11`` over asyncio's streams, no more.

The HTTP library of the SDK spends most of a millisecond of processor time on a request (see ``pool``), on what these
requests do not need: redirects, cookies, three ways to time out, the choice of an event loop. Here it is one write
and one read. It has the same face as ``pool.AsyncPool``, which is used where the environment names a proxy.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

import h11

from pytest_elo.gateway.endpoint import origin_of
from pytest_elo.gateway.http import http_module

__all__ = ["SENDING", "Outgoing", "Upstream", "UpstreamConnectError", "UpstreamGarbledError", "UpstreamResetError"]

SENDING = "http11.send_request_headers.started"
"""The trace event before the first byte, under the HTTP library's name for it."""

_READ_BYTES = 1 << 16
_NEXT_ADDRESS_S = 0.25
"""A host's next address is tried when one has not answered for so long (RFC 8305, section 5)."""
_DECODED = frozenset({"gzip", "x-gzip", "deflate"})


class UpstreamConnectError(Exception):
    """No connection could be made: nothing was sent."""


class UpstreamResetError(Exception):
    """The connection broke, or what came is not HTTP."""


class UpstreamGarbledError(Exception):
    """The content is not what its encoding says."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request on its way. ``url`` is absolute."""

    method: str
    url: SplitResult
    headers: Sequence[tuple[str, str]]
    content: bytes = b""
    extensions: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def to(cls, method: str, url: str, headers: Sequence[tuple[str, str]], extensions: dict[str, Any]) -> Outgoing:
        return cls(method, urlsplit(url), headers, b"", extensions)


class _Headers(dict[str, str]):
    """Headers by name in lower case; ``multi_items`` has repeated ones too."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        super().__init__(pairs)
        self._pairs = pairs

    def multi_items(self) -> list[tuple[str, str]]:
        return list(self._pairs)


class _Line:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.http = h11.Connection(h11.CLIENT)

    @property
    def is_usable(self) -> bool:
        return not self.reader.at_eof() and not self.writer.is_closing() and self.http.our_state is h11.IDLE

    async def event(self, timeout_s: float) -> Any:
        """The next event of the response."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            async with asyncio.timeout(timeout_s):
                data = await self.reader.read(_READ_BYTES)
            self.http.receive_data(data)
        return event

    def close(self) -> None:
        # nothing of ours is unsent by now, and a TLS farewell would outlive the loop
        self.writer.transport.abort()


class Reply:
    """A response whose head has come. Read it with ``aiter_bytes``, then ``Upstream.finish`` it."""

    def __init__(self, line: _Line, head: h11.Response, timeout_s: float) -> None:
        self.line = line
        self.status_code = head.status_code
        self.headers = _Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers])
        self.extensions: dict[str, Any] = {}
        self._timeout_s = timeout_s

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The content, without a compression that we did not ask for."""
        coding = self.headers.get("content-encoding", "")
        unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32) if coding in _DECODED else None
        try:
            while not isinstance(event := await self.line.event(self._timeout_s), h11.EndOfMessage):
                if not isinstance(event, h11.Data):
                    raise UpstreamResetError("the connection ended within the response")
                data = bytes(event.data)
                yield unpack.decompress(data) if unpack is not None else data
        except h11.RemoteProtocolError as error:
            raise UpstreamResetError(str(error)) from error
        except zlib.error as error:
            raise UpstreamGarbledError(str(error)) from error


class Upstream:
    """Connections to one origin, for one event loop; as many as are in flight, kept open in between."""

    def __init__(self, url: str) -> None:
        scheme, self._host, self._port = origin_of(url)
        self._tls: ssl.SSLContext | None = None
        if scheme == "https":
            self._tls = http_module().create_ssl_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        self._idle: list[_Line] = []

    async def send(self, request: Outgoing) -> Reply:
        """Send a request and wait for the head of its response.

        Raises ``UpstreamConnectError``, ``UpstreamResetError``, ``TimeoutError`` or ``OSError``.
        """
        timeouts = request.extensions["timeout"]
        line = self._kept() or await self._open(timeouts["connect"])
        try:
            tell: Callable[[str, object], Awaitable[None]] = request.extensions["trace"]
            await tell(SENDING, None)
            line.writer.write(_written(line.http, request))
            async with asyncio.timeout(timeouts["write"]):
                await line.writer.drain()
            while isinstance(head := await line.event(timeouts["read"]), h11.InformationalResponse):
                pass
        except h11.RemoteProtocolError as error:
            line.close()
            raise UpstreamResetError(str(error)) from error
        except BaseException:
            line.close()
            raise
        if not isinstance(head, h11.Response):
            line.close()
            raise UpstreamResetError("the connection ended before the response")
        return Reply(line, head, timeouts["read"])

    async def finish(self, reply: Reply) -> None:
        """Keep the connection if the response was read to its end, else close it."""
        http = reply.line.http
        if http.our_state is h11.DONE and http.their_state is h11.DONE:
            http.start_next_cycle()
            self._idle.append(reply.line)
        else:
            reply.line.close()

    async def aclose(self) -> None:
        for line in self._idle:
            line.close()
        self._idle = []

    def _kept(self) -> _Line | None:
        while self._idle:
            line = self._idle.pop()
            if line.is_usable:
                return line
            line.close()
        return None

    async def _open(self, timeout_s: float) -> _Line:
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(
                    self._host, self._port, ssl=self._tls, happy_eyeballs_delay=_NEXT_ADDRESS_S
                )
        except (OSError, ssl.SSLError) as error:
            raise UpstreamConnectError(str(error)) from error
        return _Line(reader, writer)


def _written(http: h11.Connection, request: Outgoing) -> bytes:
    """The whole request as bytes."""
    url = request.url
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    length = [("content-length", str(len(request.content)))] if request.content else []
    headers = [("host", url.netloc), *request.headers, *length]
    parts = [http.send(h11.Request(method=request.method, target=target, headers=headers))]
    if request.content:
        parts.append(http.send(h11.Data(data=request.content)))
    parts.append(http.send(h11.EndOfMessage()))
    return b"".join(part for part in parts if part)
