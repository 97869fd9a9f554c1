"""The driver for requests that no SDK has made: a strategy's own, and those of programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from pytest_elo.gateway.endpoint import Endpoint
from pytest_elo.gateway.pool import proxy_for
from pytest_elo.gateway.rules import Rules
from pytest_elo.gateway.transport import AsyncTransport, SyncTransport
from pytest_elo.gateway.upstream import (
    Outgoing,
    Upstream,
    UpstreamConnectError,
    UpstreamGarbledError,
    UpstreamResetError,
)

__all__ = ["DirectTransport", "Transports"]


class DirectTransport(AsyncTransport):
    """Straight to the gateway (``Upstream``), or by the HTTP library where a proxy is in between.

    Takes ``Outgoing`` templates: the key, the content and the trace are its own.
    """

    encodings = "gzip"

    def __init__(self, rules: Rules, endpoint: Endpoint | None) -> None:
        super().__init__(rules, endpoint)
        self._is_direct = endpoint is None or proxy_for(endpoint.base_url) is None

    def outgoing(self, request: Outgoing, content: bytes) -> Any:
        assert self.endpoint is not None
        credentials = self._credentials(request, self.endpoint.key.reveal())
        headers = [*request.headers, credentials, ("accept-encoding", self.encodings)]
        if self._is_direct:
            return Outgoing(request.method, request.url, headers, content, {**request.extensions})
        url, extensions = request.url.geturl(), request.extensions
        return self._http.Request(request.method, url, headers=headers, content=content, extensions=extensions)

    def failure_kind(self, error: BaseException) -> str | None:
        if isinstance(error, UpstreamConnectError):
            return "connect"
        if isinstance(error, TimeoutError):
            return "timeout"
        if isinstance(error, UpstreamGarbledError):
            return "bad_json"
        return "reset" if isinstance(error, UpstreamResetError) else super().failure_kind(error)

    def _new_pool(self) -> Any:
        return Upstream(self.endpoint.base_url) if self.endpoint and self._is_direct else super()._new_pool()


@dataclass(frozen=True, slots=True)
class Transports:
    """All ways to one gateway: under the clients of the SDK, and past it."""

    sync: SyncTransport
    asynchronous: AsyncTransport
    direct: DirectTransport

    @classmethod
    def to(cls, rules: Rules, endpoint: Endpoint | None) -> Self:
        return cls(SyncTransport(rules, endpoint), AsyncTransport(rules, endpoint), DirectTransport(rules, endpoint))
