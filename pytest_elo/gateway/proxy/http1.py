"""A small HTTP/1.1 server for loopback: one ``asyncio.Protocol`` a connection, ``h11`` for the grammar.

A client that goes away cancels the handler of its request, so that what is in flight upstream ends too and its row
is closed at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import h11

__all__ = ["Answer", "Connection", "Handler", "Request"]

_LARGEST_BODY = 64 << 20
_LARGEST_HEAD = 64 << 10
_BACKGROUND = logging.getLogger(__name__)

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Request:
    """A complete request. Header names are in lower case."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    content: bytes

    def header(self, name: str) -> str:
        """The first value of a header, empty when there is none."""
        return next((value for key, value in self.headers if key == name), "")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: ``content`` at once, or ``stream`` chunk by chunk.

    A stream that raises breaks the connection, so that no client takes the part for the whole.
    """

    status: int
    headers: Headers = ()
    content: bytes = b""
    stream: AsyncIterator[bytes] | None = None
    close: Callable[[], Awaitable[None]] | None = None
    """Awaited when the stream is over, however it ended."""


Handler = Callable[[Request], Awaitable[Answer]]


class Connection(asyncio.Protocol):
    """One client's connection; requests are handled one after another. ``live`` holds all open connections."""

    def __init__(self, handle: Handler, live: set[Connection]) -> None:
        self._handle = handle
        self._live = live
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_LARGEST_HEAD)
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None
        self._request: h11.Request | None = None
        self._body: list[bytes] = []
        self._size = 0
        self._may_write = asyncio.Event()
        self._may_write.set()

    # -- callbacks of the event loop -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._live.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            if self._task is None:
                self._advance()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._live.discard(self)
        self._may_write.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    # -- requests ------------------------------------------------------------------------------------

    def abort(self) -> None:
        """Break the connection and cancel what it waits for."""
        self._transport.abort()

    async def ended(self) -> None:
        """Wait until the handler of the current request, if any, has ended."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _advance(self) -> None:
        """Take what has arrived, until a request is complete or more is needed."""
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._request, self._body, self._size = event, [], 0
                if self._http.they_are_waiting_for_100_continue:
                    self._send(h11.InformationalResponse(status_code=100, headers=[]))
            elif isinstance(event, h11.Data):
                self._size += len(event.data)
                if self._size > _LARGEST_BODY:
                    self._refuse(413, "the request is larger than 64 MiB")
                    return
                self._body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._begin()
                return
            else:
                if event is h11.NEED_DATA:
                    return
                if isinstance(event, h11.ConnectionClosed):
                    self._transport.close()
                return  # PAUSED: a pipelined request waits for its turn

    def _begin(self) -> None:
        event = self._request
        assert event is not None
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
        content = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        request = Request(event.method.decode("ascii"), event.target.decode("latin-1"), headers, content)
        self._task = asyncio.get_running_loop().create_task(self._answer(request))

    async def _answer(self, request: Request) -> None:
        try:
            answer = await self._handle(request)
            await self._respond(request, answer)
        except (asyncio.CancelledError, ConnectionError):
            self._transport.abort()
            return
        except Exception as error:
            _BACKGROUND.error("the proxy failed", exc_info=error)
            self._transport.abort()
            return
        finally:
            self._task = None
        self._next_request()

    async def _respond(self, request: Request, answer: Answer) -> None:
        if answer.stream is None:
            length = ("content-length", str(len(answer.content)))
            content = b"" if request.method == "HEAD" else answer.content
            self._send(_response(answer, [length]), h11.Data(data=content), h11.EndOfMessage())
            return
        self._send(_response(answer, [("transfer-encoding", "chunked")]))
        try:
            async for chunk in answer.stream:
                if chunk:
                    self._send(h11.Data(data=chunk))
                    await self._may_write.wait()
        except Exception:  # the source broke, or the client: either way this stream has no end to be told
            self._transport.close()
            return
        finally:
            if answer.close is not None:
                await answer.close()
        self._send(h11.EndOfMessage())

    def _next_request(self) -> None:
        if self._transport.is_closing():
            return
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            try:
                self._http.start_next_cycle()
                self._advance()
            except h11.RemoteProtocolError as error:
                self._refuse(error.error_status_hint, str(error))
        else:
            self._transport.close()

    def _send(self, *events: Any) -> None:
        if self._transport.is_closing():
            raise ConnectionResetError("the client has gone")
        data: list[bytes] = [part for event in events if (part := self._http.send(event))]
        self._transport.write(b"".join(data))

    def _refuse(self, status: int, reason: str) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            content = reason.encode("utf-8", "replace")
            headers = [("content-length", str(len(content))), ("connection", "close")]
            answer = h11.Response(status_code=status, headers=headers)
            self._send(answer, h11.Data(data=content), h11.EndOfMessage())
        self._transport.close()


def _response(answer: Answer, framing: Headers) -> h11.Response:
    return h11.Response(status_code=answer.status, headers=[*answer.headers, *framing])
