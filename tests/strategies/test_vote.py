"""Voting: its accuracy is the binomial's, its tokens add up, and stopping early changes nothing but the cost."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_elo.errors import ConfigError, GatewayError
from pytest_elo.records import Message, Reply
from pytest_elo.strategies.vote import vote
from pytest_elo.tasks.own import OwnProblem, from_items
from tests.loopback import Request, Response, reply

ITEMS = 200
P_RIGHT = 0.7


def problems(n: int) -> list[OwnProblem]:
    """Item i asks for i + i."""
    items = [{"id": f"sum{i:03d}", "prompt": f"What is {i} + {i}?", "numeric": 2 * i} for i in range(n)]
    task = from_items(items)
    return [task.pose(item_id, 0) for item_id in task.item_ids]


def sometimes_right(request: Request) -> Response:
    """Right with probability P_RIGHT, independently by item and seed; otherwise always the same wrong number."""
    body = request.body
    number = int(body["messages"][-1]["content"].split()[2])
    chance = random.Random(f"{number}/{body['seed']}")
    wrong = chance.random() >= P_RIGHT
    tokens = {"prompt_tokens": 20 + number % 7, "completion_tokens": 5 + chance.randrange(10)}
    return reply(f"ANSWER: {2 * number + wrong}", **tokens)


def binomial_majority(k: int, p: float) -> float:
    return sum(math.comb(k, i) * p**i * (1 - p) ** (k - i) for i in range(k // 2 + 1, k + 1))


@pytest.mark.parametrize(("k", "early_stop"), [(1, False), (3, False), (5, False), (5, True)])
def test_accuracy_is_the_binomials_and_tokens_add_up(bench, k: int, early_stop: bool) -> None:
    bench = bench(sometimes_right)
    posed = problems(ITEMS)
    spent = bench.run_all("vote", posed, n=k, early_stop=early_stop)
    right = [problem.grade(one.answer.reply).status == "correct" for problem, one in zip(posed, spent, strict=True)]
    expected = binomial_majority(k, P_RIGHT)
    tolerance = 3 * math.sqrt(expected * (1 - expected) / ITEMS)
    assert sum(right) / ITEMS == pytest.approx(expected, abs=tolerance)
    rows = bench.sink.closed
    assert sum(row.prompt_tokens for row in rows) == bench.server.bill.prompt_tokens
    assert sum(row.completion_tokens for row in rows) == bench.server.bill.completion_tokens
    if not early_stop:
        assert len(rows) == k * ITEMS
    else:
        # one by one, a majority of m = (k + 1) / 2 is reached after m + j samples with j losses among the first
        m = k // 2 + 1
        q = 1 - P_RIGHT
        chances = [math.comb(m + j - 1, j) * (P_RIGHT**m * q**j + q**m * P_RIGHT**j) for j in range(m)]
        mean = sum(chance * (m + j) for j, chance in enumerate(chances))
        variance = sum(chance * (m + j - mean) ** 2 for j, chance in enumerate(chances))
        assert len(rows) / ITEMS == pytest.approx(mean, abs=3 * math.sqrt(variance / ITEMS))


class Scripted:
    """An ``Ask`` whose sample i says ``said[i]`` with the given probability."""

    def __init__(self, said: Sequence[tuple[str, float]]) -> None:
        self.said = said
        self.asked: list[int] = []

    async def __call__(self, messages: Sequence[Message], *, sample: int = 0, **_: Any) -> Reply:
        self.asked.append(sample)
        text, probability = self.said[sample]
        return Reply(call_id=str(sample), text=text, mean_logprob=math.log(probability))


votes = st.tuples(
    st.sampled_from(["ANSWER: 1", "ANSWER: 2", "ANSWER: 3", "no idea at all"]),
    st.floats(min_value=0.001, max_value=1.0),
)


@given(said=st.lists(votes, min_size=1, max_size=9), weights=st.sampled_from(["equal", "logprob"]))
@settings(max_examples=400, deadline=None)
def test_stopping_early_never_changes_the_answer(said: list[tuple[str, float]], weights: str) -> None:
    (problem,) = problems(1)
    full, early = Scripted(said), Scripted(said)
    whole = asyncio.run(vote(problem, full, n=len(said), weights=weights))
    stopped = asyncio.run(vote(problem, early, n=len(said), weights=weights, early_stop=True))
    assert stopped.reply == whole.reply
    assert stopped.marks == whole.marks
    assert early.asked == list(range(len(early.asked)))
    assert set(stopped.kept) == set(whole.kept) & {str(sample) for sample in early.asked}


@given(said=st.lists(votes, min_size=1, max_size=9))
@settings(max_examples=200, deadline=None)
def test_waves_draw_no_sample_more_than_one_by_one(said: list[tuple[str, float]]) -> None:
    (problem,) = problems(1)
    ask = Scripted(said)
    asyncio.run(vote(problem, ask, n=len(said), early_stop=True))
    keys = [problem.answer_key(Reply(call_id="", text=text)) for text, _ in said]
    assert len(ask.asked) == next(k for k in range(1, len(said) + 1) if unbeatable(keys[:k], len(said) - k))


def unbeatable(keys: Sequence[object], outstanding: int) -> bool:
    """By trying the worst case for every rival, a new one included."""
    if outstanding == 0:
        return True
    counts = sorted((keys.count(key) for key in set(keys) if key is not None), reverse=True)
    return bool(counts) and counts[0] > (counts[1] if len(counts) > 1 else 0) + outstanding


def test_weights_can_turn_a_vote(bench) -> None:
    said = [("ANSWER: 1", 0.1), ("ANSWER: 1", 0.2), ("ANSWER: 2", 0.9)]
    (problem,) = problems(1)
    plain = asyncio.run(vote(problem, Scripted(said), n=3))
    weighted = asyncio.run(vote(problem, Scripted(said), n=3, weights="logprob"))
    assert (plain.reply.text, weighted.reply.text) == ("ANSWER: 1", "ANSWER: 2")


def test_weights_need_log_probabilities(bench) -> None:
    with pytest.raises(GatewayError, match="gives no log-probabilities") as raised:
        bench(sometimes_right).run("vote", problems(1)[0], n=3, weights="logprob")
    assert raised.value.status == "config_error"  # every further item would fail the same way


def test_free_text_is_refused_before_anything_is_asked(bench) -> None:
    bench = bench(sometimes_right)
    task = from_items([{"id": "poem", "prompt": "A poem on 1 + 1.", "rubric": "It rhymes."}])
    with pytest.raises(ConfigError, match=r"free text.*best_of, selector: judge"):
        bench.run("vote", task.pose("poem", 0), n=3)
    assert bench.server.requests == []
