"""Real clients through the proxy, streaming and not: the ledger is the gateway's bill, item by item."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Coroutine
from typing import Any

import anthropic
import openai
import pytest

from pytest_elo.gateway.http import http_module
from pytest_elo.gateway.proxy.lease import Lease
from pytest_elo.records import Tag
from tests.gateway.conftest import CANARY, Connect, Setup
from tests.loopback import Request, model_answer


def tag(item: str = "item-1") -> Tag:
    return Tag("swebench", item, "coder", role="agent", condition="c0")


@pytest.fixture
def setup(connect: Connect) -> Setup:
    return connect(latency_s=0.02)


def environment(setup: Setup, lease: Lease) -> dict[str, str]:
    return lease.environment(setup.gateway.proxy.origin)


async def openai_chat(env: dict[str, str], word: str, streamed: bool, http: Any) -> str:
    client = openai.AsyncOpenAI(base_url=env["OPENAI_BASE_URL"], api_key=env["OPENAI_API_KEY"], http_client=http)
    question: Any = [{"role": "user", "content": f"say {word}"}]
    if not streamed:
        answer = await client.chat.completions.create(model="test-model", messages=question)
        return str(answer.choices[0].message.content)
    stream = await client.chat.completions.create(model="test-model", messages=question, stream=True)
    return "".join([part.choices[0].delta.content or "" async for part in stream])


async def openai_responses(env: dict[str, str], word: str, streamed: bool, http: Any) -> str:
    client = openai.AsyncOpenAI(base_url=env["OPENAI_BASE_URL"], api_key=env["OPENAI_API_KEY"], http_client=http)
    if not streamed:
        return (await client.responses.create(model="test-model", input=f"say {word}")).output_text
    events = await client.responses.create(model="test-model", input=f"say {word}", stream=True)
    return "".join([event.delta async for event in events if event.type == "response.output_text.delta"])


async def anthropic_messages(env: dict[str, str], word: str, streamed: bool, http: Any) -> str:
    base, token = env["ANTHROPIC_BASE_URL"], env["ANTHROPIC_AUTH_TOKEN"]
    client = anthropic.AsyncAnthropic(base_url=base, auth_token=token, http_client=http)
    question: Any = [{"role": "user", "content": f"say {word}"}]
    if not streamed:
        answer: Any = await client.messages.create(model="test-model", max_tokens=99, messages=question)
        return str(answer.content[0].text)
    async with client.messages.stream(model="test-model", max_tokens=99, messages=question) as stream:
        return "".join([text async for text in stream.text_stream])


async def curl(env: dict[str, str], word: str, streamed: bool, http: Any = None) -> str:
    """Without any client's care: the token as bearer only, no usage asked for."""
    body = {"model": "test-model", "messages": [{"role": "user", "content": f"say {word}"}], "stream": streamed}
    base = env["OPENAI_BASE_URL"].replace(f"/{env['OPENAI_API_KEY']}", "")
    process = await asyncio.create_subprocess_exec(
        "curl", "-sS", "--noproxy", "*", f"{base}/chat/completions", "-H", "content-type: application/json",
        "-H", f"authorization: Bearer {env['OPENAI_API_KEY']}", "-d", json.dumps(body),
        stdout=subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    if not streamed:
        return str(json.loads(out)["choices"][0]["message"]["content"])
    events = [json.loads(line[6:]) for line in out.decode().splitlines() if line.startswith("data: {")]
    return "".join(event["choices"][0]["delta"].get("content", "") for event in events)


def shared_connections(client: Any) -> Any:
    sdk = anthropic if client is anthropic_messages else openai
    return sdk.DefaultAsyncHttpxClient(trust_env=False, limits=http_module().Limits(max_connections=64))


Client = Callable[[dict[str, str], str, bool, Any], Coroutine[Any, Any, str]]
CLIENTS: list[Client] = [openai_chat, openai_responses, anthropic_messages, curl]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("client", CLIENTS)
def test_64_at_once_are_charged_to_the_token_each_to_its_own_item(setup: Setup, client: Client, streamed: bool) -> None:
    proxy = setup.gateway.proxy
    n = 64 if client is not curl else 16
    leases = [proxy.lease(tag(f"item-{i}"), model="test-model") for i in range(n)]

    async def run() -> list[str]:
        async with shared_connections(client) as http:
            return await asyncio.gather(
                *(client(environment(setup, lease), f"word-{i}", streamed, http) for i, lease in enumerate(leases))
            )

    answers = asyncio.run(run())
    for lease in leases:
        proxy.end(lease)

    assert [answer.split()[1] for answer in answers] == [f"word-{i}" for i in range(n)]
    assert setup.server.most_in_flight > n // 8
    billed = {_word(request): request.billed.total_tokens for request in setup.server.requests}
    charged = {row.item_id.replace("item", "word"): row.total_tokens for row in setup.rows.closed}
    assert charged == billed
    assert len(setup.rows.closed) == n
    assert {(row.estimated, row.status, row.role) for row in setup.rows.closed} == {(None, "ok", "agent")}
    assert [lease.tokens for lease in leases] == [billed[f"word-{i}"] for i in range(n)]


def _word(request: Request) -> str:
    body = request.body
    prompt = body["input"] if "input" in body else body["messages"][0]["content"]
    return str(prompt).split()[-1]


def test_the_program_has_a_token_and_the_gateway_the_key(setup: Setup) -> None:
    lease = setup.gateway.proxy.lease(tag(), model="test-model")
    env = environment(setup, lease)

    async def run() -> None:
        for client in (openai_chat, anthropic_messages):
            async with shared_connections(client) as http:
                await client(env, "x", False, http)

    asyncio.run(run())
    assert CANARY not in json.dumps(env)
    for request in setup.server.requests:
        assert request.headers["authorization"] == f"Bearer {CANARY}"
        assert lease.token not in json.dumps(request.headers) + request.path
    assert CANARY not in "".join(row.to_json() for row in setup.rows.closed)


def test_a_stream_passes_byte_for_byte(connect: Connect) -> None:
    """What the program asked for is what it gets, keep-alives included; the event it did not ask for stays here."""
    odd = [b": keep-alive\n\n", b"data: not json\n\n"]

    def answer(request: Request) -> Any:
        response = model_answer(request)
        return response if response.chunks is None else _with(response, odd)

    setup = connect(answer)
    proxy = setup.gateway.proxy
    bodies = {}
    for asks in (True, False):
        lease = proxy.lease(tag(), model="test-model")
        options = ', "stream_options": {"include_usage": true}' if asks else ""
        body = f'{{"model": "test-model", "stream": true, "messages": [{{"role": "user", "content": "x"}}]{options}}}'
        bodies[asks] = _raw(f"{proxy.origin}/{lease.token}/v1/chat/completions", body)
        proxy.end(lease)
    direct = _raw(
        f"{setup.server.base_url}/chat/completions",
        '{"model": "test-model", "stream": true, "messages": [{"role": "user", "content": "x"}], '
        '"stream_options": {"include_usage": true}}',
    )
    assert bodies[True] == direct
    plain = [event for event in direct.split(b"\n\n") if b'"choices": []' not in event]
    assert bodies[False] == b"\n\n".join(plain)
    assert [row.estimated for row in setup.rows.closed] == [None, None]


def _with(response: Any, chunks: list[bytes]) -> Any:
    import dataclasses

    return dataclasses.replace(response, chunks=[*chunks, *response.chunks])


def _raw(url: str, body: str) -> bytes:
    command = ["curl", "-sS", "--noproxy", "*", "-N", url, "-H", "content-type: application/json", "-d", body]
    return subprocess.run(command, capture_output=True, check=True).stdout
