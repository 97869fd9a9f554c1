"""What the session tests share: a suite of additions and a model that knows the even ones."""

from __future__ import annotations

import pytest

from tests.harness import Suite
from tests.loopback import Request, Response, reply


@pytest.fixture
def suite(pytester):
    return Suite(pytester).items(8).strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3})


def answered(request: Request, delay_s: float = 0.0) -> Response:
    """Right for even numbers, off by one for odd ones; to the preflight: OK."""
    prompt = request.body["messages"][-1]["content"]
    if not prompt.startswith("What is"):
        return reply("OK")
    number = int(prompt.split()[2])
    return reply(f"ANSWER: {2 * number + number % 2}", delay_s=delay_s)


@pytest.fixture
def answer():
    return answered


@pytest.fixture
def slow_answer():
    def slow(request: Request) -> Response:
        return answered(request, delay_s=0.4)

    return slow
