"""Streams: relayed to users unchanged, assembled for strategies, metered either way."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest

from pytest_elo.gateway.http import http_module
from pytest_elo.gateway.reading import Reading
from pytest_elo.gateway.stream import SseDecoder, StreamReader
from tests.gateway.conftest import QUESTION, Connect, Setup
from tests.loopback import Response, error, reply, stream

# the HTTP library's own error on major 2, the SDK's on major 3
BROKEN_STREAM = (http_module().TransportError, openai.APIConnectionError)
WORDS = ["Forty", "-", "two", "."]
KEEPALIVES = [b": keep-alive\n\n", b"data: : keep-alive\n\n", b"event: ping\ndata: {}\n\n"]


def streamed(setup: Setup, **parameters: Any) -> str:
    chunks = setup.create(stream=True, **parameters)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def test_a_users_stream_is_relayed_and_metered(connect: Connect) -> None:
    setup = connect([stream(WORDS)])
    assert streamed(setup, stream_options={"include_usage": True}) == "Forty-two."
    row = setup.rows.closed[0]
    assert (row.total_tokens, row.estimated, row.finish_reason) == (15, None, "stop")
    assert setup.server.requests[0].body["stream_options"] == {"include_usage": True}


def test_nothing_is_added_to_a_users_request(connect: Connect) -> None:
    setup = connect([stream(WORDS, usage="none")])
    streamed(setup)
    assert "stream_options" not in setup.server.requests[0].body
    row = setup.rows.closed[0]
    assert row.estimated == "bytes/3"
    assert row.total_tokens <= 15 <= row.total_tokens_high


def test_an_async_stream_is_metered(connect: Connect) -> None:
    setup = connect([stream(WORDS)])

    async def run() -> str:
        chunks = await setup.gateway.async_client().chat.completions.create(
            model="test-model",
            messages=QUESTION,  # type: ignore[arg-type]
            stream=True,
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])
        await setup.gateway.aclose()
        return text

    assert asyncio.run(run()) == "Forty-two."
    assert setup.rows.total_tokens == 15


def test_chunks_arrive_while_the_stream_goes_on(connect: Connect) -> None:
    setup = connect([stream(WORDS, chunk_delay_s=0.05)])
    chunks = iter(setup.create(stream=True))
    next(chunks)
    assert setup.rows.closed == []
    assert len(list(chunks)) == 5


def test_cumulative_usage_on_every_chunk_is_not_summed(connect: Connect) -> None:
    setup = connect([stream(WORDS, usage="every", completion_tokens=8)])
    assert streamed(setup) == "Forty-two."
    assert (setup.rows.total_tokens, setup.rows.closed[0].estimated) == (18, None)


def test_keep_alives_are_no_content(connect: Connect) -> None:
    setup = connect([stream(WORDS, extra=KEEPALIVES)])
    assert setup.ask(stream=True).text == "Forty-two."
    assert setup.rows.total_tokens == 15


def test_leaving_a_stream_early_leaves_an_interval(connect: Connect) -> None:
    setup = connect([stream(WORDS * 10, chunk_delay_s=0.01, completion_tokens=40)])
    chunks = setup.create(stream=True, max_tokens=64)
    next(chunks)
    chunks.close()
    (row,) = setup.rows.closed
    assert (row.status, row.error_kind, row.estimated) == ("error", "aborted", "interval")
    assert row.total_tokens <= 50 <= row.total_tokens_high


def test_a_reset_in_midstream_is_told_and_not_repeated(connect: Connect) -> None:
    setup = connect([stream(WORDS, usage="none", fault="reset_midway", done=False)])
    with pytest.raises(BROKEN_STREAM):
        streamed(setup, max_tokens=64)
    (row,) = setup.rows.closed
    assert (row.error_kind, row.estimated) == ("reset", "interval")
    assert 0 < row.total_tokens <= 15 <= row.total_tokens_high


def test_an_error_event_in_midstream_is_an_error(connect: Connect) -> None:
    event = b'data: {"error": {"message": "upstream overloaded", "code": 503}}\n\n'
    broken = stream(WORDS, finish_reason=None, usage="none", extra=[event], done=False)
    setup = connect([broken])
    with pytest.raises(openai.APIError, match="upstream overloaded"):
        streamed(setup)
    (row,) = setup.rows.closed
    assert (row.status, row.error_kind, row.estimated) == ("error", "error_body", "interval")


def test_a_stream_without_an_end_is_incomplete(connect: Connect) -> None:
    setup = connect([stream(WORDS, finish_reason=None, usage="none", done=False), stream(WORDS)])
    assert setup.ask(stream=True).text == "Forty-two."
    assert setup.rows.kinds == ["incomplete", None]


def test_a_stream_that_fails_at_its_start_is_repeated_for_users_too(connect: Connect) -> None:
    setup = connect([error(429, "Rate limit"), error(200, "failed"), stream(WORDS)])
    assert streamed(setup) == "Forty-two."
    assert setup.rows.kinds == ["rate_limit", "error_body", None]


def test_ask_asks_for_usage_and_assembles(connect: Connect) -> None:
    setup = connect([stream(WORDS), stream(WORDS, fault="reset_midway", usage="none"), stream(WORDS)])
    answer = setup.ask(stream=True)
    assert (answer.text, answer.finish_reason, answer.completion_tokens) == ("Forty-two.", "stop", 5)
    assert setup.server.requests[0].body["stream_options"] == {"include_usage": True}
    # a strategy has seen nothing yet, so a broken stream is repeated
    assert setup.ask(stream=True).text == "Forty-two."
    assert setup.rows.kinds == [None, "reset", None]


def test_stream_options_that_are_refused_are_left_out_and_usage_estimated(connect: Connect) -> None:
    refusal = error(400, "Unknown parameter: 'stream_options'", code="unknown_parameter")
    setup = connect([refusal, stream(WORDS, usage="none")])
    assert setup.ask(stream=True).text == "Forty-two."
    assert "stream_options" not in setup.server.requests[1].body
    assert [row.estimated for row in setup.rows.closed] == [None, "bytes/3"]


def test_a_stream_only_model_is_streamed_for_every_caller(connect: Connect) -> None:
    refusal = error(400, "This model only supports streaming, please set stream=true")
    setup = connect([refusal, stream(WORDS)])
    answer = setup.create()
    assert answer.choices[0].message.content == "Forty-two."
    assert answer.usage.total_tokens == 15
    assert setup.ask().text == "Forty-two."
    assert setup.rows.kinds == ["bad_request", None, None]


def test_a_streamed_tool_call_is_assembled(connect: Connect) -> None:
    parts = [
        {"index": 0, "id": "t1", "type": "function", "function": {"name": "add", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"a":'}},
        {"index": 0, "function": {"arguments": " 1}"}},
    ]
    events = [{"model": "test-model", "choices": [{"index": 0, "delta": {"tool_calls": [p]}}]} for p in parts]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    chunks = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    refusal = error(400, "stream=true is required", code="invalid_request_error")
    setup = connect([refusal, Response(chunks=chunks, content_type="text/event-stream")])
    call = setup.create().choices[0].message.tool_calls[0]
    assert (call.id, call.function.name, call.function.arguments) == ("t1", "add", '{"a": 1}')


def test_a_complete_answer_is_no_stream_of_ours(connect: Connect) -> None:
    setup = connect([reply("42")])
    assert setup.ask(stream=True).text == "42"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_found_in_any_split(size: int) -> None:
    raw = 'data: {"a": "六"}\r\n\r\n: note\n\nevent: x\ndata: one\ndata: two\n\ndata:[DONE]'.encode()
    decoder = SseDecoder()
    found = [event for i in range(0, len(raw), size) for event in decoder.feed(raw[i : i + size])]
    assert [*found, *decoder.finish()] == ['{"a": "六"}'.encode(), b"one\ntwo", b"[DONE]"]


def read(api: str, events: list[dict[str, Any]]) -> Reading:
    reader = StreamReader(api, 200)
    for event in events:
        reader.feed(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    return reader.reading()


ANTHROPIC = [
    {
        "type": "message_start",
        "message": {
            "model": "claude-x",
            "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1},
        },
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Forty-"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "two"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 12}},
    {"type": "message_stop"},
]


def test_an_anthropic_stream_adds_its_inputs_and_takes_the_last_output() -> None:
    reading = read("messages", ANTHROPIC)
    assert reading.error_kind is None
    assert (reading.text, reading.finish_reason, reading.model) == ("Forty-two", "end_turn", "claude-x")
    assert reading.usage is not None
    assert (reading.usage.prompt, reading.usage.completion, reading.usage.cached) == (100, 12, 90)


def test_an_anthropic_stream_that_breaks_off_keeps_what_it_said() -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    reading = read("messages", [*ANTHROPIC[:2], overloaded])
    assert (reading.error_kind, reading.message, reading.text) == ("error_body", "Overloaded", "Forty-")


def test_a_responses_stream_ends_with_its_response() -> None:
    message = {"type": "message", "content": [{"type": "output_text", "text": "42"}]}
    usage = {"input_tokens": 11, "output_tokens": 2, "total_tokens": 13}
    final = {"model": "test-model", "status": "completed", "output": [message], "usage": usage}
    events = [{"type": "response.output_text.delta", "delta": "42"}]
    reading = read("responses", [*events, {"type": "response.completed", "response": final}])
    assert (reading.error_kind, reading.text, reading.finish_reason) == (None, "42", "stop")
    assert reading.usage is not None
    assert reading.usage.total == 13
    assert read("responses", events).error_kind == "incomplete"
