"""Connections, in as many pools as keep a request cheap.

The HTTP libraries look through all connections of a pool at every event. Processor time a call through them at
64 in flight, by connections a pool (2 cores under load, medians of 3 x 1500 calls)::

                      4     8    16   all
    httpx2 2.16    0.80  0.89  0.93  1.07  ms
    httpx 0.28     0.82  1.03  1.89  3.49  ms
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pytest_elo.gateway.http import http_module

__all__ = ["AsyncPool", "SyncPool", "proxy_for"]

_IN_FLIGHT_PER_SHARD = 4
_SHARD = "pytest_elo_shard"


class _Pool:
    """Transports of the HTTP library and their requests in flight; more are made as load asks."""

    def __init__(self, transport_name: str, url: str) -> None:
        self._transport_name = transport_name
        self._proxy = proxy_for(url)
        self._lock = threading.Lock()
        self._shards: list[Any] = []
        self._loads: list[int] = []

    def _pick(self) -> int:
        """The first shard with room, so that idle connections are reused before new ones are opened."""
        with self._lock:
            room = (i for i, load in enumerate(self._loads) if load < _IN_FLIGHT_PER_SHARD)
            index = next(room, len(self._loads))
            if index == len(self._loads):
                self._shards.append(self._new_shard())
                self._loads.append(0)
            self._loads[index] += 1
            return index

    def _new_shard(self) -> Any:
        http = http_module()
        limits = http.Limits(max_connections=None, max_keepalive_connections=None)
        return getattr(http, self._transport_name)(verify=_ssl_context(), limits=limits, proxy=self._proxy)

    def _free(self, index: int) -> None:
        with self._lock:
            self._loads[index] -= 1


class SyncPool(_Pool):
    """Send with ``send``, then always ``finish`` the response."""

    def __init__(self, url: str) -> None:
        super().__init__("HTTPTransport", url)

    def send(self, request: Any) -> Any:
        index = self._pick()
        try:
            response = self._shards[index].handle_request(request)
        except BaseException:
            self._free(index)
            raise
        response.extensions[_SHARD] = index
        return response

    def finish(self, response: Any) -> None:
        try:
            response.close()
        finally:
            index = response.extensions.pop(_SHARD, None)
            if index is not None:
                self._free(index)

    def close(self) -> None:
        for shard in self._shards:
            shard.close()
        self._shards, self._loads = [], []


class AsyncPool(_Pool):
    """Send with ``send``, then always ``finish`` the response; for one event loop."""

    def __init__(self, url: str) -> None:
        super().__init__("AsyncHTTPTransport", url)

    async def send(self, request: Any) -> Any:
        index = self._pick()
        try:
            response = await self._shards[index].handle_async_request(request)
        except BaseException:
            self._free(index)
            raise
        response.extensions[_SHARD] = index
        return response

    async def finish(self, response: Any) -> None:
        try:
            await response.aclose()
        finally:
            index = response.extensions.pop(_SHARD, None)
            if index is not None:
                self._free(index)

    async def aclose(self) -> None:
        for shard in self._shards:
            await shard.aclose()
        self._shards, self._loads = [], []


@cache
def _ssl_context() -> Any:
    return http_module().create_ssl_context()


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for ``url``; loopback never goes through one."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in ("localhost", "127.0.0.1", "::1") or proxy_bypass(host):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy
