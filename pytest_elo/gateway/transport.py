"""The drivers that carry calls over HTTP: one for sync clients, one for asyncio, nothing decided in either.

They are transports of the HTTP library under the OpenAI SDK, so whatever a user calls on a client is metered
here. The SDK never holds the key: it is put on the wire by the transport, and only for the configured origin.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.errors import GatewayError
from pytest_elo.gateway.call import Call
from pytest_elo.gateway.context import UNTAGGED, current_tag
from pytest_elo.gateway.endpoint import Endpoint, origin_of
from pytest_elo.gateway.errors import explain, redact
from pytest_elo.gateway.exchange import Again, Delivered, Exchange, OutOfTimeError
from pytest_elo.gateway.http import http_module, relay_stream_types
from pytest_elo.gateway.pool import AsyncPool, SyncPool
from pytest_elo.gateway.reading import Reading, api_of
from pytest_elo.gateway.recorded import Recorded
from pytest_elo.gateway.replaying import recorded_http
from pytest_elo.gateway.rules import Rules, key_of, lookup, replay_call
from pytest_elo.gateway.upstream import SENDING

__all__ = ["AsyncTransport", "SyncTransport", "error_of"]

_TRACE = "trace"
"""The request's extension that the HTTP library calls at its events; dropped after the one that matters here."""
_DROPPED_HEADERS = frozenset({"authorization", "host", "content-length", "accept-encoding", "connection"})
_READABLE_ERRORS = frozenset({"misrouted"})
"""Flaws of an answer that a user of the SDK may still want to see; strategies get an error."""


class _Transport:
    """What the two drivers share: from an SDK's request to a call, and from a call's end to a response."""

    def __init__(self, rules: Rules, endpoint: Endpoint | None) -> None:
        self.rules = rules
        self.endpoint = endpoint

    @property
    def _http(self) -> Any:
        return http_module()

    def call_of(self, request: Any, content: bytes) -> Call | Recorded:
        """The call that an SDK's request makes, or its recording."""
        body = _json_object(content)
        api, tag = api_of(request.url.path), current_tag.get() or UNTAGGED
        key = key_of(self.rules, tag, api, body)
        found = lookup(self.rules, tag, api, body, key)
        if found is not None:
            return found
        if self.endpoint is None:
            raise explain("wrong_host", url=str(request.url))
        if origin_of(str(request.url)) != self.endpoint.origin:
            raise explain("wrong_host", url=str(request.url))
        return Call(self.rules, tag, api=api, body=body, content=content, key=key)

    def outgoing(self, request: Any, content: bytes) -> Any:
        """The request as it goes on the wire, with the key and the call's effective content."""
        assert self.endpoint is not None
        headers = [(k, v) for k, v in request.headers.multi_items() if k.lower() not in _DROPPED_HEADERS]
        headers.append(self._credentials(request, self.endpoint.key.reveal()))
        headers.append(("accept-encoding", "gzip, deflate"))
        return self._http.Request(
            request.method, request.url, headers=headers, content=content, extensions=request.extensions
        )

    def _credentials(self, request: Any, key: str) -> tuple[str, str]:
        """The header that carries the key."""
        return "authorization", f"Bearer {key}"

    def replayed(self, recorded: Recorded, request: Any, content: bytes) -> Any:
        body = _json_object(content)
        call = replay_call(self.rules, recorded, current_tag.get() or UNTAGGED, str(body["model"]))
        status, content_type, answer = recorded_http(
            recorded, api_of(request.url.path), call.call_id, stream=bool(body.get("stream"))
        )
        return self._http.Response(status, headers={"content-type": content_type}, content=answer)

    def response(self, delivered: Delivered, call: Call, request: Any) -> Any:
        """The response that the SDK sees; raises for an answer that it would wrongly take for a success."""
        kind = delivered.reading.error_kind
        if kind is not None and delivered.status < 300 and kind not in _READABLE_ERRORS:
            raise self.failure(call, delivered.reading, request)
        # our retries are over: an SDK that was given retries of its own must not multiply them
        headers = [*delivered.headers, ("x-should-retry", "false")]
        return self._http.Response(delivered.status, headers=headers, content=delivered.content)

    def failure(self, call: Call, reading: Reading, request: Any) -> Exception:
        return self.sdk_error(error_of(call, reading, self.endpoint, str(request.url)), request)

    def sdk_error(self, error: GatewayError, request: Any) -> Exception:
        from pytest_elo.gateway.sdk import sdk_error

        return sdk_error(error, request)

    def failure_kind(self, error: BaseException) -> str | None:
        """The error kind of what the HTTP library raised; ``None`` when it is not about the connection."""
        http = self._http
        if isinstance(error, OutOfTimeError):
            return "timeout"
        if isinstance(error, http.ConnectTimeout | http.ConnectError | http.PoolTimeout | http.ProxyError):
            return "connect"
        if isinstance(error, http.TimeoutException):
            return "timeout"
        if isinstance(error, http.DecodingError):
            return "bad_json"
        if isinstance(error, http.UnsupportedProtocol | http.LocalProtocolError):
            return None
        # anyio's EndOfStream and TLS errors pass through the HTTP library unmapped
        if isinstance(error, http.TransportError | ssl.SSLError | OSError) or type(error).__name__ in (
            "EndOfStream",
            "BrokenResourceError",
            "ClosedResourceError",
        ):
            return "reset"
        return None


class SyncTransport(_Transport):
    """For ``openai.OpenAI``; requests of several threads may be in flight at once."""

    def __init__(self, rules: Rules, endpoint: Endpoint | None) -> None:
        super().__init__(rules, endpoint)
        self._pool = SyncPool(endpoint.base_url if endpoint else "")

    def handle_request(self, request: Any) -> Any:
        content = request.read()
        try:
            call = self.call_of(request, content)
        except GatewayError as error:
            raise self.sdk_error(error, request) from None
        if isinstance(call, Recorded):
            return self.replayed(call, request, content)
        following = self.carry(call, request)
        if isinstance(following, Delivered):
            return self.response(following, call, request)
        if isinstance(following, Reading):
            raise self.failure(call, following, request)
        return following

    def carry(self, call: Exchange, request: Any) -> Any:
        """Make all attempts: what is delivered, the reading it failed with, or a relaying response."""
        try:
            while True:
                while wait := call.admit():
                    time.sleep(wait)
                outgoing = self.outgoing(request, call.prepare())
                outgoing.extensions[_TRACE] = self._trace(call, outgoing.extensions)
                following = self._attempt(call, outgoing)
                if not isinstance(following, Again):
                    return following
                time.sleep(following.delay_s)
        except BaseException:
            call.abandoned()
            raise

    def _attempt(self, call: Exchange, outgoing: Any) -> Any:
        try:
            response = self._pool.send(outgoing)
            if call.begin(response.status_code, response.headers):
                stream = relay_stream_types()[0](_SyncRelay(self, self._pool, call, response))
                return self._http.Response(response.status_code, headers=_relayed_headers(response), stream=stream)
            try:
                for chunk in response.iter_bytes():
                    call.feed(chunk)
            finally:
                self._pool.finish(response)
        except Exception as error:
            kind = self.failure_kind(error)
            if kind is None:
                raise
            return call.failed(kind)
        return call.answered()

    def _trace(self, call: Exchange, extensions: dict[str, Any]) -> Callable[[str, object], None]:
        def trace(event: str, _: object) -> None:
            if event == SENDING:
                call.sending()
                extensions.pop(_TRACE, None)

        return trace

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> SyncTransport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncTransport(_Transport):
    """For ``openai.AsyncOpenAI`` and for strategies; each event loop gets connections of its own."""

    def __init__(self, rules: Rules, endpoint: Endpoint | None) -> None:
        super().__init__(rules, endpoint)
        self._pools: dict[asyncio.AbstractEventLoop, Any] = {}
        self._guardians: dict[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = {}

    async def handle_async_request(self, request: Any) -> Any:
        content = await request.aread()
        try:
            call = self.call_of(request, content)
        except GatewayError as error:
            raise self.sdk_error(error, request) from None
        if isinstance(call, Recorded):
            return self.replayed(call, request, content)
        following = await self.carry(call, request)
        if isinstance(following, Delivered):
            return self.response(following, call, request)
        if isinstance(following, Reading):
            raise self.failure(call, following, request)
        return following

    async def carry(self, call: Exchange, request: Any) -> Any:
        """Make all attempts: what is delivered, the reading it failed with, or a relaying response."""
        try:
            while True:
                while wait := call.admit():
                    await asyncio.sleep(wait)
                outgoing = self.outgoing(request, call.prepare())
                outgoing.extensions[_TRACE] = self._trace(call, outgoing.extensions)
                following = await self._attempt(call, outgoing)
                if not isinstance(following, Again):
                    return following
                await asyncio.sleep(following.delay_s)
        except BaseException:
            call.abandoned()
            raise

    async def _attempt(self, call: Exchange, outgoing: Any) -> Any:
        try:
            pool = self._pools.get(asyncio.get_running_loop()) or await self._open_pool()
            response = await pool.send(outgoing)
            if call.begin(response.status_code, response.headers):
                stream = relay_stream_types()[1](_AsyncRelay(self, pool, call, response))
                return self._http.Response(response.status_code, headers=_relayed_headers(response), stream=stream)
            try:
                async for chunk in response.aiter_bytes():
                    call.feed(chunk)
            finally:
                await pool.finish(response)
        except Exception as error:
            kind = self.failure_kind(error)
            if kind is None:
                raise
            return call.failed(kind)
        return call.answered()

    def _trace(self, call: Exchange, extensions: dict[str, Any]) -> Callable[[str, object], Awaitable[None]]:
        async def trace(event: str, _: object) -> None:
            if event == SENDING:
                call.sending()
                extensions.pop(_TRACE, None)

        return trace

    def _new_pool(self) -> Any:
        return AsyncPool(self.endpoint.base_url if self.endpoint else "")

    async def _open_pool(self) -> Any:
        loop = asyncio.get_running_loop()
        self._pools[loop] = self._new_pool()
        # a loop shuts its open generators down before it closes: that is when its connections are closed,
        # without anybody having to remember
        self._guardians[loop] = self._guardian(loop)
        await anext(self._guardians[loop])
        return self._pools[loop]

    async def _guardian(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            del self._guardians[loop]
            await self._pools.pop(loop).aclose()

    async def aclose(self) -> None:
        guardian = self._guardians.get(asyncio.get_running_loop())
        if guardian is not None:
            await guardian.aclose()

    async def __aenter__(self) -> AsyncTransport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _RelayState:
    """A stream that is handed on chunk by chunk while it is read for the ledger."""

    def __init__(self, transport: _Transport, pool: Any, call: Exchange, response: Any) -> None:
        self._transport, self._pool, self._call, self._response = transport, pool, call, response
        self._is_open = True

    def _end(self, kind: str | None) -> None:
        """Close the row, once; ``kind`` says how the stream ended when not at its own end."""
        if self._is_open:
            self._is_open = False
            self._call.relayed(kind)

    def __del__(self) -> None:
        # dropped without being read or closed: the row must not stay open, nor its place in flight taken
        self._end("aborted")

    def _kind(self, error: BaseException) -> str:
        return self._transport.failure_kind(error) or "aborted"


class _SyncRelay(_RelayState):
    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._response.iter_bytes():
                self._call.feed(chunk)
                yield chunk
        except BaseException as error:
            self._end(self._kind(error))
            raise
        self._end(None)

    def close(self) -> None:
        self._end("aborted")
        self._pool.finish(self._response)


class _AsyncRelay(_RelayState):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_bytes():
                self._call.feed(chunk)
                yield chunk
        except BaseException as error:
            self._end(self._kind(error))
            raise
        self._end(None)

    async def aclose(self) -> None:
        self._end("aborted")
        await self._pool.finish(self._response)


def error_of(call: Exchange, reading: Reading, endpoint: Endpoint | None, url: str) -> GatewayError:
    """The user-facing error of a call that failed with ``reading``."""
    message = reading.message
    if reading.error_kind == "model_mismatch":
        message = f"asked for {call.model}, answered by {reading.model}"
    secret = "" if endpoint is None else endpoint.key.reveal()
    return explain(
        reading.error_kind or "",
        url=url,
        model=call.model,
        http_status=reading.http_status,
        message=redact(message, secret),
        attempts=len(call.record.attempts),
        key_hint="" if endpoint is None else endpoint.key.hint,
        key_variable="the key" if endpoint is None else endpoint.key_variable,
    )


def _json_object(content: bytes) -> Mapping[str, Any]:
    if not content.startswith(b"{"):
        return {}
    try:
        return dict(parse_json(content))
    except ValueError:
        return {}


def _relayed_headers(response: Any) -> list[tuple[str, str]]:
    dropped = ("content-encoding", "content-length", "transfer-encoding")
    return [(name, value) for name, value in response.headers.multi_items() if name.lower() not in dropped]
