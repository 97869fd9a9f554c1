from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_elo.gateway.client import Gateway, GatewaySettings
from pytest_elo.gateway.endpoint import Endpoint
from pytest_elo.records import Answer, Attempt, Problem, Tag
from pytest_elo.strategies.run import run
from tests.loopback import LoopbackGateway, Request, Script


@dataclass
class Rows:
    """A sink that keeps closed attempts in memory."""

    closed: list[Attempt] = field(default_factory=list)

    def open(self, attempt: Attempt) -> None: ...

    def close(self, attempt: Attempt) -> None:
        self.closed.append(attempt)


@dataclass(frozen=True)
class Spent:
    """One strategy's answer on one item, with the ledger rows and requests it took, in order of sending."""

    answer: Answer
    rows: Sequence[Attempt]
    requests: Sequence[Request]

    @property
    def roles(self) -> list[str]:
        return [row.role for row in self.rows]

    @property
    def kept(self) -> list[bool]:
        return [row.call_id in self.answer.kept for row in self.rows]

    @property
    def text(self) -> str:
        return self.answer.reply.text


@dataclass
class Bench:
    """Runs strategies against a loopback gateway, over the real client."""

    server: LoopbackGateway
    gateway: Gateway
    sink: Rows

    def run(self, kind: str, problem: Problem, **parameters: Any) -> Spent:
        return self.run_all(kind, [problem], **parameters)[0]

    def run_all(self, kind: str, problems: Sequence[Problem], **parameters: Any) -> list[Spent]:
        """The problems at once, in one event loop."""
        first_row, first_request = len(self.sink.closed), len(self.server.requests)

        async def all_of_them() -> list[Answer]:
            try:
                return await asyncio.gather(*(self._one(kind, problem, parameters) for problem in problems))
            finally:
                await self.gateway.aclose()

        answers = asyncio.run(all_of_them())
        rows, requests = self.sink.closed[first_row:], self.server.requests[first_request:]
        if len(problems) == 1:
            return [Spent(answers[0], sorted(rows, key=lambda row: (row.ts, row.sample)), requests)]
        return [
            Spent(answer, [row for row in rows if row.item_id == problem.item_id], ())
            for answer, problem in zip(answers, problems, strict=True)
        ]

    async def _one(self, kind: str, problem: Problem, parameters: dict[str, Any]) -> Answer:
        tag = Tag(problem.task_id, problem.item_id, kind, problem.repeat)
        return await run(kind, problem, self.gateway.ask_as(tag), parameters)


Start = Callable[[Script], Bench]


@pytest.fixture
def bench() -> Iterator[Start]:
    with ExitStack() as stack:

        def start(script: Script) -> Bench:
            server = stack.enter_context(LoopbackGateway(script))
            sink = Rows()
            endpoint = Endpoint.checked(server.base_url, "sk-test", key_variable="TAOTOKEN_API_KEY")
            gateway = Gateway(endpoint, GatewaySettings(model="test-model", timeout_s=30.0), sink)
            stack.callback(gateway.close)
            return Bench(server, gateway, sink)

        yield start
