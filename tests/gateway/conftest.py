from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_elo.gateway.client import Gateway, GatewaySettings
from pytest_elo.gateway.endpoint import Endpoint
from pytest_elo.gateway.recordings import Recordings
from pytest_elo.gateway.retry import RetryPolicy
from pytest_elo.records import Attempt, Tag
from tests.loopback import LoopbackGateway, Script, model_answer

CANARY = "sk-canary-3f9c1d7be2a64085"
TAG = Tag("gpqa", "rec01", "baseline", condition="c0")
QUESTION = [{"role": "user", "content": "How much is six times seven?"}]


@dataclass
class Rows:
    """A sink that keeps everything in memory."""

    opened: list[Attempt] = field(default_factory=list)
    closed: list[Attempt] = field(default_factory=list)

    def open(self, attempt: Attempt) -> None:
        self.opened.append(attempt)

    def close(self, attempt: Attempt) -> None:
        self.closed.append(attempt)

    @property
    def kinds(self) -> list[str | None]:
        return [row.error_kind for row in self.closed]

    @property
    def total_tokens(self) -> int:
        return sum(row.total_tokens for row in self.closed)


@dataclass
class Setup:
    """A loopback gateway, our client for it and the rows it left."""

    server: LoopbackGateway
    gateway: Gateway
    rows: Rows

    def ask(self, tag: Tag = TAG, messages: Any = QUESTION, **parameters: Any) -> Any:
        """One ``ask`` in an event loop of its own."""

        async def run() -> Any:
            return await self.gateway.ask_as(tag)(messages, **parameters)

        return asyncio.run(run())

    def create(self, **parameters: Any) -> Any:
        """One request through the SDK's sync client."""
        return self.gateway.client().chat.completions.create(
            **{"model": "test-model", "messages": QUESTION, **parameters}
        )


Connect = Callable[..., Setup]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Start a loopback gateway with a script and connect to it, retrying without waiting."""
    with ExitStack() as stack:

        def start(
            script: Script = model_answer,
            *,
            latency_s: float = 0.0,
            recordings: Recordings | None = None,
            **settings: Any,
        ) -> Setup:
            server = stack.enter_context(LoopbackGateway(script, latency_s=latency_s))
            rows = Rows()
            endpoint = Endpoint.checked(server.base_url, CANARY, key_variable="TAOTOKEN_API_KEY")
            quick = RetryPolicy(first_delay_s=0.001, longest_delay_s=0.01)
            values = {"model": "test-model", "run_id": "run-1", "timeout_s": 5.0, "retry": quick, **settings}
            gateway = Gateway(endpoint, GatewaySettings(**values), rows, recordings=recordings)
            stack.callback(gateway.close)
            return Setup(server, gateway, rows)

        yield start
