"""From prompts to a leaderboard through the real gateway client and a real HTTP server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from pytest_elo.gateway.client import Gateway, GatewaySettings
from pytest_elo.gateway.endpoint import Endpoint
from pytest_elo.gateway.retry import RetryPolicy
from pytest_elo.records import Attempt, Tag
from pytest_elo.tasks.arena import Contestant, Ruling, judge_item, judges_of, load
from pytest_elo.votes.bias import bias_of
from pytest_elo.votes.leaderboard import leaderboard
from pytest_elo.votes.verdicts import votes_of
from tests.loopback import LoopbackGateway, Request, Response, error, reply

SHIPPED = Path(__file__).parents[2] / "evals" / "data" / "arena_prompts.yaml"


@dataclass
class Rows:
    """A sink that keeps every attempt at its end."""

    closed: list[Attempt] = field(default_factory=list)

    def open(self, attempt: Attempt) -> None: ...

    def close(self, attempt: Attempt) -> None:
        self.closed.append(attempt)


def answers_between(text: str, slot: str) -> str:
    return text.partition(f"<answer-{slot} ")[2].partition(f"</answer-{slot} ")[0]


def judge_of_length(request: Request) -> Response:
    """Prefers the longer answer; the first request is refused for its rate and the third says nothing."""
    if request.number == 0:
        return error(429, "slow down", headers={"retry-after": "0"})
    shown = request.body["messages"][-1]["content"]
    if request.number == 2 or "<answer-A" not in shown:
        return reply("Let me think." if request.number == 2 else "[[B]]")
    a, b = answers_between(shown, "A"), answers_between(shown, "B")
    return reply(f"Longer.\n[[{'A' if len(a) > len(b) else 'B'}]]")


async def judged(base_url: str, rows: Rows) -> list[Ruling]:
    task = load(SHIPPED, judge="gpt-5.4")
    settings = GatewaySettings(
        model="claude-opus-4-6",
        retry=RetryPolicy(max_attempts=3, first_delay_s=0.01),
        allowed_models=frozenset({"*"}),
    )
    gateway = Gateway(Endpoint.checked(base_url, "sk-test-key-of-nobody", key_variable="KEY"), settings, rows)
    rulings: list[Ruling] = []
    for n, item in enumerate(task.item_ids[:6]):
        contestants = [
            Contestant(policy=policy, text=f"{policy} {n} " * length, model="claude-opus-4-6")
            for policy, length in (("baseline", 3), ("r3", 9))
        ]
        ask = gateway.ask_as(Tag("arena", item, "judge", role="judge"))
        judges = judges_of(task, ask, gateway.model)
        rulings += await judge_item(task, item, contestants, lambda _, judges=judges: judges, anchor="baseline")
    await gateway.aclose()
    return rulings


def test_judging_is_metered_as_judging_and_every_attempt_is_a_row() -> None:
    rows = Rows()
    with LoopbackGateway(judge_of_length) as gateway:
        rulings = asyncio.run(judged(gateway.base_url, rows))
        requests, bill = list(gateway.requests), gateway.bill
    assert {row.role for row in rows.closed} == {"judge"}
    assert {request.body["model"] for request in requests} == {"gpt-5.4"}
    assert len(rows.closed) == len(requests) >= 6 * 2 + 2  # both orders, one 429, one reply without a verdict
    assert sum(row.total_tokens for row in rows.closed) == bill.total_tokens
    votes = [vote for ruling in rulings for vote in votes_of(ruling.verdict, ruling.pair, ["gpt-5.4"])]
    block = bias_of("gpt-5.4", votes, models={"baseline": "claude-opus-4-6", "r3": "claude-opus-4-6"})
    assert block.complete == 6
    assert block.judges_itself == []
    board = leaderboard(votes, anchor="baseline")
    assert board.standings[0].policy == "r3"
