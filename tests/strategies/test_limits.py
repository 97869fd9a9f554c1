"""What a strategy does wrong ends its own item, with a status that says why."""

from __future__ import annotations

import asyncio
import sys

import pytest

import pytest_elo
from pytest_elo.errors import ConfigError, GatewayError
from pytest_elo.strategies.registry import check
from pytest_elo.tasks.own import from_items
from tests.loopback import Request, Response, reply

ONE, TWO = (
    from_items([{"id": name, "prompt": f"Item {name}?", "numeric": 2} for name in ("one", "two")]).pose(name, 0)
    for name in ("one", "two")
)


@pytest_elo.strategy("asks_forever")
async def asks_forever(problem, ask):
    if problem.item_id == "two":
        return await ask(problem.messages)
    while True:
        await ask(problem.messages)


@pytest_elo.strategy("stubborn")
async def stubborn(problem, ask):
    while True:
        try:
            await ask(problem.messages)
        except Exception:
            continue


@pytest_elo.strategy("sleeps_forever")
async def sleeps_forever(problem, ask):
    await asyncio.sleep(3600)


@pytest_elo.strategy("takes_its_time")
async def takes_its_time(problem, ask):
    raise TimeoutError("of its own")


@pytest_elo.strategy("leaves")
async def leaves(problem, ask):
    sys.exit(3)


@pytest_elo.strategy("says_nothing")
async def says_nothing(problem, ask):
    return None


def answer(request: Request) -> Response:
    return reply("ANSWER: 2", prompt_tokens=30, completion_tokens=20)


@pytest.mark.parametrize("kind", ["asks_forever", "stubborn"])
def test_a_limit_of_calls_is_the_number_of_calls(bench, kind: str) -> None:
    bench = bench(answer)
    with pytest.raises(GatewayError, match="limit of 7 calls") as raised:
        bench.run(kind, ONE, limits={"calls": 7})
    assert raised.value.status == "limit_exceeded"
    assert len(bench.server.requests) == 7


def test_a_limit_of_tokens_refuses_the_call_after_it_is_reached(bench) -> None:
    bench = bench(answer)
    with pytest.raises(GatewayError, match="limit of 120 tokens"):
        bench.run("asks_forever", ONE, limits={"tokens": 120})
    assert bench.server.bill.total_tokens == 150


def test_a_limit_of_time(bench) -> None:
    with pytest.raises(GatewayError, match=r"limit of 0\.05 s") as raised:
        bench(answer).run("sleeps_forever", ONE, limits={"seconds": 0.05})
    assert raised.value.status == "limit_exceeded"


def test_a_timeout_of_its_own_is_an_error_of_its_own(bench) -> None:
    with pytest.raises(TimeoutError, match="of its own"):
        bench(answer).run("takes_its_time", ONE)


def test_a_tree_within_a_limit_of_calls(bench) -> None:
    bench = bench(lambda request: reply(f"step {request.number}"))
    with pytest.raises(GatewayError, match="limit of 4 calls"):
        bench.run("tree", ONE, proposals=3, limits={"calls": 4})
    assert len(bench.server.requests) == 4


def test_leaving_the_process_is_an_error(bench) -> None:
    with pytest.raises(RuntimeError, match=r"sys\.exit\(3\)"):
        bench(answer).run("leaves", ONE)


def test_what_is_no_answer_is_named(bench) -> None:
    with pytest.raises(ConfigError, match="'says_nothing' returned None; return a Reply or an Answer"):
        bench(answer).run("says_nothing", ONE)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"limits": {"cals": 3}}, "strategies.x: limits takes no 'cals'; did you mean 'calls'"),
        ({"limits": {"calls": 0}}, "strategies.x: limits.calls is 0"),
        ({"limits": 5}, "strategies.x: limits is 5"),
        ({"breath": 2}, "tree takes no 'breath'; did you mean 'breadth'"),
    ],
)
def test_parameters_that_mean_nothing(parameters, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check("x", "tree", parameters)
