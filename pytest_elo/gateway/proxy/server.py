"""The proxy of one process: a server on loopback, in a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_elo.errors import GatewayError
from pytest_elo.gateway.context import CallRecord
from pytest_elo.gateway.errors import explain
from pytest_elo.gateway.proxy.http1 import Connection
from pytest_elo.gateway.proxy.lease import Admission, Allowance, Lease
from pytest_elo.gateway.proxy.requests import Requests
from pytest_elo.records import Tag

if TYPE_CHECKING:
    from pytest_elo.gateway.client import Gateway

__all__ = ["Proxy"]

_HOST = "127.0.0.1"
_END_S = 10.0
_LONGEST_FOLDER = 80
_TURNS_TO_CLOSE = 3
"""Turns of the loop after which an aborted transport has closed its socket (one; TLS takes another)."""


class Proxy:
    """Forwards to the gateway of ``gateway`` under its rules. ``lease`` gives programs access.

    Begin with ``start``, end with ``close`` or as a context manager.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._leases: dict[str, Lease] = {}
        self._connections: set[Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pytest-elo proxy", daemon=True)
        self._requests = Requests(gateway, self._leases)
        self._folder = _short_folder()
        self._servers: list[asyncio.AbstractServer] = []
        self.port = 0

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, port: int = 0) -> Proxy:
        """Listen on 127.0.0.1 and on a Unix socket. Raises ``OSError`` when the port is taken."""
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._listen(port), self._loop).result()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def origin(self) -> str:
        return f"http://{_HOST}:{self.port}"

    @property
    def socket(self) -> Path:
        """The Unix socket, for programs in a network namespace of their own. Only this user may open it.

        There is none on systems without such sockets.
        """
        return Path(self._folder.name) / "proxy.sock"

    def lease(
        self,
        tag: Tag,
        *,
        model: str = "",
        allowance: Allowance | None = None,
        admission: Admission | None = None,
        calls: list[CallRecord] | None = None,
    ) -> Lease:
        """Access for one program, charged to ``tag``, until ``end``."""
        lease = Lease(
            tag, model, allowance or Allowance(), admission or Admission(), calls=[] if calls is None else calls
        )
        self._leases[lease.token] = lease
        return lease

    def end(self, lease: Lease) -> None:
        """Let the token die: what is in flight is cancelled, and all rows are closed when this returns."""
        self._leases.pop(lease.token, None)
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._requests.cancel(lease), self._loop).result(_END_S)

    @contextlib.contextmanager
    def leased(self, tag: Tag, **options: Any) -> Iterator[Lease]:
        lease = self.lease(tag, **options)
        try:
            yield lease
        finally:
            self.end(lease)

    def close(self) -> None:
        """Stop listening, end all leases, close all connections."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_END_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_END_S)
        if not self._loop.is_running():
            self._loop.close()
        self._folder.cleanup()

    def error_of(self, lease: Lease) -> GatewayError | None:
        """Why the program got no answer, as the run's own calls would say it; ``None`` when that was its own doing."""
        failure = lease.failure
        if failure is None and lease.calls and all(call.error_kind is not None for call in lease.calls):
            failure = lease.calls[-1]
        if failure is None or failure.last is None:
            return None
        kind, row = failure.last.error_kind or "", failure.last
        endpoint = self._gateway.endpoint
        message = f"asked for {row.model}, answered by {row.response_model}" if kind == "model_mismatch" else ""
        return explain(
            kind,
            url="" if endpoint is None else endpoint.base_url,
            model=row.model,
            http_status=row.http_status,
            message=message,
            attempts=len(failure.attempts),
            key_hint="" if endpoint is None else endpoint.key.hint,
            key_variable="the key" if endpoint is None else endpoint.key_variable,
        )

    # -- in the proxy's own thread -------------------------------------------------------------------

    async def _listen(self, port: int) -> None:
        def connection() -> Connection:
            return Connection(self._requests.handle, self._connections)

        loop = asyncio.get_running_loop()
        server = await loop.create_server(connection, _HOST, port, family=socket.AF_INET, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        self._servers = [server]
        if hasattr(socket, "AF_UNIX"):
            self._servers.append(await loop.create_unix_server(connection, str(self.socket), backlog=512))

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for lease in list(self._leases.values()):
            del self._leases[lease.token]
            await self._requests.cancel(lease)
        connections = list(self._connections)
        for connection in connections:
            connection.abort()
        await asyncio.gather(*(connection.ended() for connection in connections))
        await self._requests.aclose()
        for _ in range(_TURNS_TO_CLOSE):
            await asyncio.sleep(0)


def _short_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for the socket: the path of one may be no longer than about a hundred bytes."""
    folder = tempfile.TemporaryDirectory(prefix="elo-proxy-")
    if len(folder.name) <= _LONGEST_FOLDER or not Path("/tmp").is_dir():
        return folder
    folder.cleanup()
    return tempfile.TemporaryDirectory(prefix="elo-proxy-", dir="/tmp")
