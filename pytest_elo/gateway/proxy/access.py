"""A lease as a strategy or a test holds it: what to give the program, and what became of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_elo.errors import GatewayError
from pytest_elo.gateway.context import CallRecord
from pytest_elo.gateway.proxy.lease import Lease
from pytest_elo.gateway.proxy.server import Proxy

__all__ = ["Access"]


class Access:
    """Access to the model for one program, charged to one item."""

    def __init__(self, proxy: Proxy, lease: Lease) -> None:
        self._proxy = proxy
        self._lease = lease

    @property
    def environment(self) -> dict[str, str]:
        """For a program on this host: base URLs and a throwaway token under the names that clients read."""
        return self.environment_at(self._proxy.origin)

    def environment_at(self, origin: str) -> dict[str, str]:
        """The same for a program that reaches the proxy at another address (in a sandbox)."""
        return self._lease.environment(origin)

    @property
    def token(self) -> str:
        return self._lease.token

    @property
    def model(self) -> str:
        """The model that the program should ask for."""
        return self._lease.model

    @property
    def socket(self) -> Path:
        """The proxy's Unix socket."""
        return self._proxy.socket

    @property
    def refused(self) -> str | None:
        """Which limit the program met, in words."""
        return self._lease.refused

    @property
    def was_stopped(self) -> bool:
        """Whether the run stopped while the program worked."""
        return self._lease.was_stopped

    @property
    def calls(self) -> Sequence[CallRecord]:
        return self._lease.calls

    @property
    def answered(self) -> list[CallRecord]:
        """The calls that brought an answer, in order."""
        return [call for call in self._lease.calls if call.attempts and call.error_kind is None]

    @property
    def error(self) -> GatewayError | None:
        """What kept the program from the model, when it was no doing of the program."""
        return self._proxy.error_of(self._lease)
