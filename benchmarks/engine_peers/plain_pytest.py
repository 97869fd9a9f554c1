"""What people write first: a parametrized test that calls the client."""

import os

import pytest
from openai import OpenAI


@pytest.fixture(scope="session")
def client():
    return OpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="sk-test")


@pytest.mark.parametrize("i", range(int(os.environ["BENCH_ITEMS"])))
def test_sum(client, i):
    reply = client.chat.completions.create(
        model="test-model", messages=[{"role": "user", "content": f"What is {i} + {i}?"}], temperature=0
    )
    assert reply.choices[0].message.content == f"ANSWER: {2 * i}"
