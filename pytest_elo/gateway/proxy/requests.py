"""What becomes of a request to the proxy: who sends it, may it be sent on, and what the client gets back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pytest_elo._parse import parse_json
from pytest_elo.errors import NotRecordedError
from pytest_elo.gateway.context import current_calls
from pytest_elo.gateway.errors import outcome_status, redact
from pytest_elo.gateway.exchange import Delivered
from pytest_elo.gateway.proxy.dialects import Route, error_body, route_of, upstream_url
from pytest_elo.gateway.proxy.forward import Forwarded, ForwardTransport, without_secret, without_usage
from pytest_elo.gateway.proxy.http1 import Answer, Request
from pytest_elo.gateway.proxy.lease import OVERHEAD_MARK, PREFIX, Lease
from pytest_elo.gateway.reading import Reading
from pytest_elo.gateway.replaying import recorded_http
from pytest_elo.gateway.rules import key_of, lookup, replay_call
from pytest_elo.gateway.transport import error_of
from pytest_elo.gateway.upstream import Outgoing
from pytest_elo.records import Tag

if TYPE_CHECKING:
    from pytest_elo.gateway.client import Gateway

__all__ = ["Requests"]

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_NOT_SENT_ON = frozenset({"authorization", "x-api-key", "host", "cookie", "expect", "forwarded", "x-forwarded-for"})
_NOT_SENT_BACK = frozenset({"set-cookie", "alt-svc", "location", "strict-transport-security"})
_OF_ONE_HOP = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})
_OF_THE_BODY = frozenset({"content-length", "content-type", "content-encoding", "accept-encoding"})
_OF_PROXIES = frozenset({"proxy-authorization", "proxy-connection"})
_NOT_FORWARDED = _NOT_SENT_ON | _OF_ONE_HOP | _OF_THE_BODY | _OF_PROXIES
_NOT_RETURNED = _NOT_SENT_BACK | _OF_ONE_HOP | (_OF_THE_BODY - {"content-type"})
_LABELS = ("task_id", "item_id", "strategy")
_WAIT_S = 0.02


class _RefusedError(Exception):
    """A request that is answered here and not forwarded."""

    def __init__(self, status: int, message: str, code: str) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


class Requests:
    """Handles the requests of all leases in the proxy's event loop."""

    def __init__(self, gateway: Gateway, leases: Mapping[str, Lease]) -> None:
        self._gateway = gateway
        self._leases = leases
        self._transport = ForwardTransport(gateway.rules, gateway.endpoint)
        self._in_flight: dict[str, set[asyncio.Task[Any]]] = {}
        self._secret = gateway.rules.secret or "\0"

    async def cancel(self, lease: Lease) -> None:
        """End the requests of a lease that is over; its rows are closed then."""
        lease.is_over = True
        tasks = self._in_flight.pop(lease.token, set())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def handle(self, request: Request) -> Answer:
        anthropic = "/messages" in request.target or bool(request.header("anthropic-version"))
        try:
            lease, labels, path, query = self._admitted(request)
            route = route_of(request.method, path)
            if route is None:
                raise _RefusedError(
                    404, f"{request.method} {path} is not forwarded: it could not be metered", "not_found"
                )
            return await self._charged(request, lease, labels, route, query)
        except _RefusedError as refused:
            return _error(refused.status, refused.message, refused.code, anthropic=anthropic)

    def _admitted(self, request: Request) -> tuple[Lease, Mapping[str, str], str, str]:
        """(lease, labels, path, query) of a request; raises ``_RefusedError`` for whoever has no business here."""
        host = request.header("host").rsplit(":", 1)[0] if request.header("host") != "[::1]" else "[::1]"
        if host not in _LOOPBACK or not request.target.startswith("/"):
            raise _RefusedError(403, "this proxy answers on loopback only, and only for itself", "wrong_host")
        path, _, query = request.target.partition("?")
        segments = path.split("/")[1:]
        token = ""
        if segments and segments[0].startswith(PREFIX):
            token = segments.pop(0)
        else:
            bearer = request.header("authorization").partition(" ")[2].strip()
            token = bearer if bearer.startswith(PREFIX) else request.header("x-api-key")
        lease = self._leases.get(token)
        if lease is None:
            raise _RefusedError(
                401, "no such token: tokens of pytest-elo's proxy end with their item", "invalid_api_key"
            )
        labels: dict[str, str] = {}
        if lease.takes_labels and segments and segments[0] == "for":
            if len(segments) < 2 + len(_LABELS):
                raise _RefusedError(404, "write the path as /TOKEN/for/TASK/ITEM/STRATEGY/v1/...", "not_found")
            labels = dict(zip(_LABELS, map(unquote, segments[1:4]), strict=True))
            segments = segments[4:]
        return lease, labels, "/" + "/".join(segments), query

    async def _charged(
        self, request: Request, lease: Lease, labels: Mapping[str, str], route: Route, query: str
    ) -> Answer:
        self._register(lease)
        body, content = _body_of(request)
        model = str(body.get("model") or "")
        _require_admission(lease)
        tag = lease.charged(route.api, model, labels)
        if model.endswith(OVERHEAD_MARK):
            body = {**body, "model": model.removesuffix(OVERHEAD_MARK)}
            content = json.dumps(body).encode()
        current_calls.set(lease.calls)
        is_retry = request.header("x-stainless-retry-count") not in ("", "0")
        earlier = lease.retried(content) if is_retry else None
        record, key = earlier if earlier is not None else (None, key_of(self._gateway.rules, tag, route.api, body))
        if record is None and (replay := self._replayed(tag, route, body, key)) is not None:
            return replay
        if self._gateway.endpoint is None:
            raise _RefusedError(400, f"{route.path} is not recorded, and a replay asks no model", "not_recorded")
        call = Forwarded(self._gateway.rules, tag, api=route.api, body=body, content=content, key=key, record=record)
        call.transport = self._transport
        return await self._forwarded(request, lease, route, query, call, content)

    def _replayed(self, tag: Tag, route: Route, body: Mapping[str, Any], key: tuple[str, int] | None) -> Answer | None:
        rules = self._gateway.rules
        if not body.get("model"):
            return None
        try:
            recorded = lookup(rules, tag, route.api, body, key)
        except NotRecordedError as error:
            raise _RefusedError(400, str(error), "not_recorded") from None
        if recorded is None:
            return None
        record = replay_call(rules, recorded, tag, str(body["model"]))
        status, content_type, content = recorded_http(
            recorded, route.api, record.call_id, stream=bool(body.get("stream"))
        )
        return Answer(status, (("content-type", content_type),), content)

    async def _forwarded(
        self, request: Request, lease: Lease, route: Route, query: str, call: Forwarded, content: bytes
    ) -> Answer:
        endpoint = self._gateway.endpoint
        assert endpoint is not None
        url = upstream_url(endpoint.base_url, route, query)
        headers = [(name, value) for name, value in request.headers if name not in _NOT_FORWARDED]
        if request.method == "POST":
            headers.append(("content-type", "application/json"))
        outgoing = Outgoing.to(request.method, url, headers, {"timeout": self._gateway.timeouts()})
        asks_usage = call.asks_usage
        try:
            with await _room(lease):
                ended = await self._transport.carry(call, outgoing)
        except BaseException:
            self._note(lease, call, content)
            raise
        if isinstance(ended, Delivered):
            self._note(lease, call, content)
            return Answer(ended.status, self._headers_back(ended.headers), ended.content)
        if isinstance(ended, Reading):
            self._note(lease, call, content)
            error = error_of(call, ended, endpoint, url)
            kind = ended.error_kind or ""
            raise _RefusedError(504 if kind == "timeout" else 502, str(error), kind)
        chunks: AsyncIterator[bytes] = without_secret(aiter(ended.stream), self._secret.encode())

        async def close() -> None:
            await ended.stream.aclose()
            self._note(lease, call, content)

        headers_back = self._headers_back(ended.headers.multi_items())
        return Answer(
            ended.status_code, headers_back, stream=without_usage(chunks) if asks_usage else chunks, close=close
        )

    def _note(self, lease: Lease, call: Forwarded, content: bytes) -> None:
        """Remember a call that failed: its client may send it again, or nothing will ever mend it."""
        kind = call.record.error_kind
        if kind is None:
            return
        lease.failed(content, call.record, call.key)
        is_main = call.record.tag.role != "overhead"
        if lease.failure is None and is_main and outcome_status(kind) == "config_error":
            lease.failure = call.record

    def _headers_back(self, headers: Any) -> tuple[tuple[str, str], ...]:
        """Headers for the program: not those of one hop, none that leads elsewhere, and the key in none."""
        return tuple(
            (name, redact(value, self._secret)) for name, value in headers if name.lower() not in _NOT_RETURNED
        )

    def _register(self, lease: Lease) -> None:
        task = asyncio.current_task()
        assert task is not None
        running = self._in_flight.setdefault(lease.token, set())
        running.add(task)
        task.add_done_callback(running.discard)


def _require_admission(lease: Lease) -> None:
    """Raises ``_RefusedError`` when the item may make no further call, or the run none."""
    _require_running(lease)
    refusal = lease.refusal()
    if refusal is not None:
        raise _RefusedError(403, f"pytest-elo: the program reached {refusal}", "elo_limit")


def _require_running(lease: Lease) -> None:
    if lease.is_over:
        raise _RefusedError(401, "this token has ended with its item", "invalid_api_key")
    if not lease.admission.may_go_on():
        lease.was_stopped = True
        raise _RefusedError(403, "pytest-elo: the run is stopping", "elo_stop")


async def _room(lease: Lease) -> AbstractContextManager[None]:
    """Wait for room in the run's budget; raises ``_RefusedError`` when the item has ended or the run is stopping."""
    while (room := lease.admission.room()) is None:
        await asyncio.sleep(_WAIT_S)
        _require_running(lease)
    return room


def _body_of(request: Request) -> tuple[dict[str, Any], bytes]:
    if request.method == "GET":
        return {}, b""
    if request.header("content-encoding") not in ("", "identity"):
        raise _RefusedError(415, "compressed requests cannot be metered: switch the compression off", "unsupported")
    try:
        body = parse_json(request.content)
    except ValueError:
        raise _RefusedError(400, "the request is no JSON", "invalid_json") from None
    if not isinstance(body, dict) or not isinstance(body.get("model"), str) or not body["model"]:
        raise _RefusedError(400, "the request is no JSON object that names its model", "invalid_json")
    return body, request.content


def _error(status: int, message: str, code: str, *, anthropic: bool) -> Answer:
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    if status < 500:
        headers += (("x-should-retry", "false"),)
    return Answer(status, headers, error_body(status, message, code=code, anthropic=anthropic))
