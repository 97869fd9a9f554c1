"""Every HTTP attempt leaves one row, whichever way it was made and however it ended."""

from __future__ import annotations

import asyncio
import gc
import json
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from pytest_elo.errors import GatewayError
from pytest_elo.gateway.client import Gateway, GatewaySettings
from pytest_elo.gateway.context import UNTAGGED, tagged, watch_calls
from pytest_elo.gateway.endpoint import Endpoint
from pytest_elo.records import Tag
from tests.gateway.conftest import QUESTION, TAG, Connect, Rows, Setup
from tests.loopback import (
    Billed,
    LoopbackGateway,
    Request,
    Response,
    completion,
    error,
    html,
    model_answer,
    reply,
    stream,
)

BUSY = error(429, "Rate limit reached", code="rate_limit_exceeded")


def through_sdk(setup: Setup) -> str:
    with tagged(TAG):
        return str(setup.create().choices[0].message.content)


def through_async_sdk(setup: Setup) -> str:
    async def run() -> str:
        answer = await setup.gateway.async_client().chat.completions.create(
            model="test-model",
            messages=QUESTION,  # type: ignore[arg-type]
        )
        await setup.gateway.aclose()
        return str(answer.choices[0].message.content)

    with tagged(TAG):
        return asyncio.run(run())


def through_ask(setup: Setup) -> str:
    return str(setup.ask().text)


WAYS = pytest.mark.parametrize("ask", [through_sdk, through_async_sdk, through_ask])


@WAYS
def test_two_rate_limits_and_an_answer_leave_three_rows(connect: Connect, ask: Any) -> None:
    setup = connect([BUSY, BUSY, reply("42")])
    assert ask(setup) == "42"
    rows = setup.rows.closed
    assert [(row.attempt, row.http_status, row.status, row.total_tokens) for row in rows] == [
        (0, 429, "error", 0),
        (1, 429, "error", 0),
        (2, 200, "ok", 15),
    ]
    assert len({row.call_id for row in rows}) == 1
    assert {(row.task_id, row.item_id, row.strategy, row.condition) for row in rows} == {
        ("gpqa", "rec01", "baseline", "c0")
    }
    assert len(setup.server.requests) == 3
    assert [row.status for row in setup.rows.opened] == ["open"] * 3


@WAYS
@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (BUSY, "rate_limit"),
        (error(408), "timeout"),
        (error(409), "conflict"),
        (error(500), "server_error"),
        (html(502), "gateway_timeout"),
        (html(524), "gateway_timeout"),
        (error(200, "upstream failed"), "error_body"),
        (html(200), "html"),
        (Response(body=json.dumps(completion("42")).encode()[:60]), "bad_json"),
        (Response(body=b""), "bad_json"),
        (reply("42", finish_reason=None), "incomplete"),
        (reply("42", finish_reason=""), "incomplete"),
        (Response(fault="reset"), "reset"),
        (reply("42", fault="reset_midway"), "reset"),
        (reply("42", fault="truncate"), "reset"),
    ],
)
def test_what_may_pass_is_tried_again(connect: Connect, ask: Any, failure: Response, kind: str) -> None:
    setup = connect([failure, reply("42")])
    assert ask(setup) == "42"
    assert setup.rows.kinds == [kind, None]
    assert len(setup.server.requests) == 2


@pytest.mark.parametrize(
    ("failure", "kind", "sdk_error"),
    [
        (error(401, "bad key"), "auth", openai.AuthenticationError),
        (error(403, "not yours"), "forbidden", openai.PermissionDeniedError),
        (error(402, "no credits"), "quota", openai.APIStatusError),
        (error(429, "quota", code="insufficient_quota"), "quota", openai.RateLimitError),
        (error(404, "no such page"), "not_found", openai.NotFoundError),
        (error(400, "bad"), "bad_request", openai.BadRequestError),
        (error(400, "too long", code="context_length_exceeded"), "context", openai.BadRequestError),
        (error(400, "no", code="content_filter"), "content_filter", openai.BadRequestError),
        (error(429, "busy", headers={"x-should-retry": "false"}), "rate_limit", openai.RateLimitError),
    ],
)
def test_what_would_end_the_same_way_is_tried_once(
    connect: Connect, failure: Response, kind: str, sdk_error: type[Exception]
) -> None:
    setup = connect([failure])
    with pytest.raises(sdk_error):
        setup.create()
    with pytest.raises(GatewayError) as caught:
        setup.ask()
    assert caught.value.kind == kind
    assert setup.rows.kinds == [kind, kind]
    assert setup.rows.total_tokens == 0


def test_retries_are_ours_even_when_the_sdk_is_given_some(connect: Connect) -> None:
    setup = connect([error(500)])
    with pytest.raises(openai.InternalServerError):
        setup.gateway.client().with_options(max_retries=5).chat.completions.create(
            model="test-model",
            messages=QUESTION,  # type: ignore[arg-type]
        )
    assert len(setup.server.requests) == len(setup.rows.closed) == 6
    assert len({row.call_id for row in setup.rows.closed}) == 1


def test_a_timeout_is_an_interval_and_the_sdks_own_error(connect: Connect) -> None:
    answer = reply("42", delay_s=1.0, prompt_tokens=9, completion_tokens=40)
    setup = connect([answer], timeout_s=0.1)
    with pytest.raises(openai.APITimeoutError, match="timeout from http://127"):
        setup.create(max_tokens=64, extra_body={"x": 1})
    rows = setup.rows.closed
    assert [row.error_kind for row in rows] == ["timeout"] * 6
    # the server finished and billed all six; the ledger holds that between its ends
    assert sum(r.total_tokens for r in rows) <= 6 * 49 <= sum(r.total_tokens_high for r in rows)
    assert {row.estimated for row in rows} == {"interval"}
    assert all(row.total_tokens_high - row.prompt_tokens >= 64 for row in rows)


def test_no_connection_costs_nothing(connect: Connect) -> None:
    setup = connect()
    setup.server.stop()
    with pytest.raises(openai.APIConnectionError, match="check the host name"):
        setup.create()
    assert setup.rows.kinds == ["connect"] * 6
    assert {(row.total_tokens, row.total_tokens_high, row.estimated) for row in setup.rows.closed} == {(0, 0, None)}


def test_a_retry_after_is_waited_for_and_not_beyond_the_run(connect: Connect) -> None:
    slow = error(429, "busy", headers={"retry-after-ms": "150"})
    setup = connect([slow, reply("42")])
    assert through_ask(setup) == "42"
    first, second = setup.rows.closed
    waited = float(second.ts[17:23]) - float(first.ts[17:23])
    assert waited % 60 >= 0.15
    setup = connect([error(429, "busy", headers={"retry-after": "3600"})])
    with pytest.raises(GatewayError, match="lower --elo-concurrency"):
        setup.ask()
    assert len(setup.rows.closed) == 1


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}, (12, 3, 15, None)),
        ({"prompt_tokens": "12", "completion_tokens": "3", "total_tokens": "15"}, (12, 3, 15, "repaired")),
        ({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 0}, (12, 3, 15, "repaired")),
        ({"prompt_tokens": 20, "completion_tokens": 198, "total_tokens": 623}, (20, 603, 623, "repaired")),
    ],
)
def test_reported_usage_is_taken_or_repaired(connect: Connect, usage: dict[str, Any], expected: Any) -> None:
    setup = connect([reply("42", usage=usage)])
    setup.create()
    row = setup.rows.closed[0]
    assert (row.prompt_tokens, row.completion_tokens, row.total_tokens, row.estimated) == expected
    assert row.total_tokens_high == row.total_tokens


ZEROS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


@pytest.mark.parametrize("usage", [None, {}, ZEROS])
def test_missing_usage_is_an_estimate_that_holds_the_truth(connect: Connect, usage: Any) -> None:
    text = "Six times seven is forty-two, because seven sixes make forty-two."
    setup = connect([reply(text, usage=usage, billed=Billed(14, 15))])
    setup.create()
    row = setup.rows.closed[0]
    assert row.estimated == "bytes/3"
    assert 0 < row.total_tokens <= 29 <= row.total_tokens_high


def test_all_zero_usage_of_an_empty_answer_is_believed(connect: Connect) -> None:
    setup = connect([reply("", usage=ZEROS)])
    setup.create()
    assert (setup.rows.closed[0].total_tokens_high, setup.rows.closed[0].estimated) == (0, None)


def test_cached_and_reasoning_tokens_are_parts_not_additions(connect: Connect) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "total_tokens": 150,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 40},
    }
    setup = connect([reply("42", usage=usage), reply("42")])
    setup.create()
    setup.create()
    first, second = setup.rows.closed
    assert (first.total_tokens, first.cached_tokens, first.reasoning_tokens) == (150, 64, 40)
    assert (second.cached_tokens, second.reasoning_tokens) == (None, None)


def test_a_capped_answer_without_text_is_the_models_own_doing(connect: Connect) -> None:
    setup = connect([reply(None, finish_reason="length", reasoning_content="Let me think", completion_tokens=64)])
    answer = setup.ask()
    assert (answer.text, answer.finish_reason, answer.completion_tokens) == ("", "length", 64)
    assert setup.rows.kinds == [None]


def test_an_empty_answer_is_a_reply(connect: Connect) -> None:
    setup = connect([reply(None)])
    assert setup.ask().text == ""


def test_an_answer_sent_as_reasoning_is_the_gateways_fault(connect: Connect) -> None:
    setup = connect([reply(None, reasoning_content="The answer is 42.")])
    with pytest.raises(GatewayError, match="reasoning parser") as caught:
        setup.ask()
    assert (caught.value.kind, caught.value.status) == ("misrouted", "infra_error")
    assert (setup.rows.kinds, setup.rows.total_tokens) == (["misrouted"], 15)
    # who uses the SDK still gets to see it
    assert setup.create().choices[0].message.reasoning_content == "The answer is 42."


def test_a_filtered_completion_in_an_error_is_filtered_and_paid(connect: Connect) -> None:
    body = {**completion(""), "error": {"code": "content_filter", "message": "filtered"}}
    setup = connect([Response(status=400, body=json.dumps(body).encode(), billed=Billed(10, 5))])
    with pytest.raises(GatewayError) as caught:
        setup.ask()
    assert caught.value.status == "filtered"
    assert setup.rows.total_tokens == setup.server.bill.total_tokens == 15


def test_another_model_fails_the_call_and_keeps_the_row(connect: Connect) -> None:
    setup = connect([reply("42", model="cheap-model")])
    with pytest.raises(GatewayError, match="asked for test-model, answered by cheap-model") as caught:
        setup.ask()
    assert (caught.value.kind, caught.value.status) == ("model_mismatch", "config_error")
    row = setup.rows.closed[0]
    assert (row.response_model, row.total_tokens, row.error_kind) == ("cheap-model", 15, "model_mismatch")
    with pytest.raises(openai.APIError, match="answered by cheap-model"):
        setup.create()
    allowed = connect([reply("42", model="cheap-model")], allowed_models=frozenset({"cheap-model"}))
    assert allowed.ask().model == "cheap-model"


def test_a_dated_release_is_the_same_model(connect: Connect) -> None:
    setup = connect([reply("42", model="gpt-x-2025-01-01")], model="gpt-x")
    assert setup.ask().text == "42"
    setup = connect([reply("42", model="gpt-x-2025-01-01")], model="gpt-x-2024-06-01")
    with pytest.raises(GatewayError, match="answered by gpt-x-2025-01-01"):
        setup.ask()


def test_an_untagged_request_is_charged_to_nobodys_policy(connect: Connect) -> None:
    setup = connect()
    setup.create()
    row = setup.rows.closed[0]
    assert (row.task_id, row.item_id, row.strategy) == (UNTAGGED.task_id, UNTAGGED.item_id, UNTAGGED.strategy)


def test_other_apis_of_the_sdk_are_metered_too(connect: Connect) -> None:
    def answer(request: Request) -> Response:
        if request.path.endswith("/embeddings"):
            body = {
                "object": "list",
                "data": [{"object": "embedding", "index": 0, "embedding": [0.1]}],
                "model": "test-model",
                "usage": {"prompt_tokens": 8, "total_tokens": 8},
            }
            return Response(body=json.dumps(body).encode(), billed=Billed(8, 0))
        if request.path.endswith("/responses"):
            message = {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "42"}],
            }
            usage = {"input_tokens": 11, "output_tokens": 2, "total_tokens": 13}
            body = {"model": "test-model", "status": "completed", "output": [message], "usage": usage}
            return Response(body=json.dumps(body).encode(), billed=Billed(11, 2))
        return model_answer(request)

    setup = connect(answer)
    client = setup.gateway.client()
    with tagged(TAG):
        assert client.models.list().data[0].id == "test-model"
        assert client.embeddings.create(model="test-model", input="x", encoding_format="float").data
        assert client.responses.create(model="test-model", input="x").output_text == "42"
    assert [row.total_tokens for row in setup.rows.closed] == [0, 8, 13]
    assert setup.rows.total_tokens == setup.server.bill.total_tokens
    assert {row.estimated for row in setup.rows.closed} == {None}


def test_a_row_holds_effective_parameters_and_no_text_of_the_prompt(connect: Connect) -> None:
    setup = connect()
    secret_word = "Zanzibar"
    setup.ask(messages=[{"role": "user", "content": secret_word}], temperature=0.8, max_tokens=7, stop=["Zanzibar"])
    row = setup.rows.closed[0]
    assert row.parameters["temperature"] == 0.8
    assert row.parameters["max_tokens"] == 7
    assert isinstance(row.parameters["seed"], int)
    assert secret_word not in row.to_json()


def test_calls_can_be_watched(connect: Connect) -> None:
    setup = connect([BUSY, reply("42"), error(401)])
    with watch_calls() as calls:
        setup.create()
        with pytest.raises(openai.AuthenticationError):
            setup.create()
    assert [(len(call.attempts), call.error_kind) for call in calls] == [(2, None), (1, "auth")]


def test_cancelling_closes_the_row(connect: Connect) -> None:
    setup = connect([Response(fault="hang")])

    async def run() -> None:
        task = asyncio.create_task(setup.gateway.ask_as(TAG)(QUESTION))
        while not setup.server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await setup.gateway.aclose()

    asyncio.run(run())
    (row,) = setup.rows.closed
    assert (row.status, row.error_kind, row.estimated) == ("error", "aborted", "interval")
    assert setup.gateway.rules.limits.of(setup.gateway.rules.host, "test-model").in_flight == 0


def test_the_ledger_is_the_bill_at_64_in_flight(connect: Connect) -> None:
    """Faults of every sort in between: per call the bill lies between the rows' ends, in sum too."""
    faults = [
        error(429, "Rate limit reached"),
        error(500),
        html(502),
        Response(fault="reset", billed=Billed(30, 40)),
        Response(body=b'{"choices": [', billed=Billed(30, 40)),
        error(200, "upstream failed", billed=Billed(30, 0)),
    ]

    asked: Counter[int] = Counter()

    def answer(request: Request) -> Response:
        item = int(request.body["messages"][0]["content"].rsplit(" ", 1)[1])
        attempt = asked[item]
        asked[item] += 1
        if attempt < item % 3:
            return faults[(item + attempt) % len(faults)]
        return model_answer(request)

    setup = connect(answer, latency_s=0.1, max_tokens=100)

    async def run() -> None:
        async def one(item: int) -> None:
            tag = Tag("gpqa", f"item{item}", "r3")
            prompt = [{"role": "user", "content": f"{'word ' * 30} {item}"}]
            await setup.gateway.ask_as(tag)(prompt)

        await asyncio.gather(*(one(item) for item in range(192)))
        await setup.gateway.aclose()

    asyncio.run(run())
    assert setup.server.most_in_flight > 16
    assert len(setup.rows.closed) == len(setup.server.requests)
    billed: dict[str, int] = {}
    for request in setup.server.requests:
        item = "item" + request.body["messages"][0]["content"].rsplit(" ", 1)[1]
        billed[item] = billed.get(item, 0) + request.billed.total_tokens
    # a killed process leaves rows as they were opened: those hold what was billed, too
    assert sum(r.total_tokens for r in setup.rows.opened) <= setup.server.bill.total_tokens
    assert setup.server.bill.total_tokens <= sum(r.total_tokens_high for r in setup.rows.opened)
    for item, tokens in billed.items():
        rows = [row for row in setup.rows.closed if row.item_id == item]
        assert sum(r.total_tokens for r in rows) <= tokens <= sum(r.total_tokens_high for r in rows), rows
        if all(row.estimated is None for row in rows):
            assert sum(r.total_tokens for r in rows) == tokens


def test_connections_close_with_their_event_loop(connect: Connect) -> None:
    setup = connect()

    async def run() -> None:
        await setup.gateway.ask_as(TAG)(QUESTION)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # what clients of other tests have left behind
        gc.collect()
    for _ in range(2):
        # an open socket would be a ResourceWarning, which is an error here
        asyncio.run(run())
        gc.collect()
    assert len(setup.rows.closed) == 2


def test_no_retry_is_waited_for_when_the_run_is_out_of_time(connect: Connect) -> None:
    setup = connect([error(500)])
    setup.gateway.rules.time_left_s = lambda: 0.0
    with pytest.raises(GatewayError, match=r"--elo-resume"):
        setup.ask()
    assert len(setup.rows.closed) == 1


def test_keep_alives_do_not_keep_a_call_alive_for_ever(connect: Connect) -> None:
    trickle = Response(chunks=[b"\n"] * 100, chunk_delay_s=0.02)
    setup = connect([trickle], call_budget_s=0.2)
    with pytest.raises(GatewayError) as caught:
        setup.ask()
    assert caught.value.kind == "timeout"
    assert len(setup.rows.closed) == 1


def test_a_pause_longer_than_the_run_stops_nobody(connect: Connect) -> None:
    setup = connect([error(429, "busy", headers={"retry-after": "86400"}), reply("42")])
    with pytest.raises(GatewayError):
        setup.ask()
    assert setup.ask().text == "42"


def test_a_dropped_stream_frees_its_place(connect: Connect) -> None:
    setup = connect([stream(["a", "b"], chunk_delay_s=0.5)])
    chunks = setup.create(stream=True)
    del chunks
    gc.collect()
    assert setup.rows.kinds == ["aborted"]
    assert setup.gateway.rules.limits.of(setup.gateway.rules.host, "test-model").in_flight == 0


def test_a_filtered_empty_answer_is_told_by_its_finish(connect: Connect) -> None:
    setup = connect([reply("", finish_reason="content_filter")])
    answer = setup.ask()
    assert (answer.text, answer.finish_reason) == ("", "content_filter")


def test_a_proxy_of_the_environment_is_used(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackGateway() as proxy:
        monkeypatch.setenv("http_proxy", proxy.origin)
        rows = Rows()
        endpoint = Endpoint.checked("http://gateway.invalid/v1", "sk-0123456789ab", key_variable="K")
        gateway = Gateway(endpoint, GatewaySettings(model="test-model"), rows)
        gateway.client().chat.completions.create(model="test-model", messages=QUESTION)  # type: ignore[arg-type]
        gateway.close()
    assert [request.path for request in proxy.requests] == ["http://gateway.invalid/v1/chat/completions"]
    assert len(rows.closed) == 1


def test_threads_share_a_client(connect: Connect) -> None:
    setup = connect(latency_s=0.005)
    client = setup.gateway.client()

    def one(number: int) -> None:
        with tagged(Tag("own", str(number), "baseline")):
            client.chat.completions.create(model="test-model", messages=QUESTION, seed=number)  # type: ignore[arg-type]

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(one, range(64)))
    assert sorted(int(row.item_id) for row in setup.rows.closed) == list(range(64))
    assert setup.rows.total_tokens == setup.server.bill.total_tokens
    assert setup.server.most_in_flight > 4


def test_a_row_is_opened_when_the_request_leaves_and_not_before(connect: Connect) -> None:
    """A process killed while connecting leaves no row, one killed after that does."""
    setup = connect(latency_s=0.2)
    seen: list[tuple[int, int]] = []

    async def run() -> None:
        task = asyncio.create_task(setup.gateway.ask_as(TAG)(QUESTION))
        while not task.done():
            seen.append((len(setup.rows.opened), len(setup.server.requests)))
            await asyncio.sleep(0)
        await task

    asyncio.run(run())
    assert seen[0] == (0, 0)
    assert (1, 1) in seen
    # the gateway never knows of a request that the ledger does not
    assert all(rows >= requests for rows, requests in seen)


def test_what_is_cancelled_while_connecting_was_never_an_attempt(connect: Connect) -> None:
    setup = connect()

    async def run() -> None:
        task = asyncio.create_task(setup.gateway.ask_as(TAG)(QUESTION))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await setup.gateway.aclose()
        await asyncio.sleep(0.1)  # the half-made connection's socket is closed by the loop, a turn later

    asyncio.run(run())
    assert (setup.rows.opened, setup.server.requests) == ([], [])
    assert setup.gateway.rules.limits.of(setup.gateway.rules.host, "test-model").in_flight == 0
