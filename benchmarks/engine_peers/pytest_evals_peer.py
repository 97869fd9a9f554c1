"""pytest-evals: a parametrized test that fills its bag, and an analysis of all bags."""

import os

import pytest
from openai import OpenAI


@pytest.fixture(scope="session")
def client():
    return OpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="sk-test")


@pytest.mark.eval(name="sums")
@pytest.mark.parametrize("i", range(int(os.environ["BENCH_ITEMS"])))
def test_sum(client, eval_bag, i):
    reply = client.chat.completions.create(
        model="test-model", messages=[{"role": "user", "content": f"What is {i} + {i}?"}], temperature=0
    )
    eval_bag.is_right = reply.choices[0].message.content == f"ANSWER: {2 * i}"


@pytest.mark.eval_analysis(name="sums")
def test_analysis(eval_results):
    assert all(case.result.is_right for case in eval_results)
