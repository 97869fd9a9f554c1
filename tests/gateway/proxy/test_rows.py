"""What a program's attempts leave on the ledger, and what the program is told."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import anthropic
import openai
import pytest

from pytest_elo.gateway.proxy.lease import Allowance, Lease
from pytest_elo.gateway.proxy.server import Proxy
from pytest_elo.records import Tag
from tests.gateway.conftest import CANARY, Connect, Setup
from tests.loopback import Billed, Request, Response, error, message, model_answer, reply, stream

TAG = Tag("swebench", "item-1", "coder", role="agent", condition="c0")
QUESTION: Any = [{"role": "user", "content": "hello there"}]


@contextmanager
def lease_of(setup: Setup, **options: Any) -> Iterator[Lease]:
    with setup.gateway.proxy.leased(TAG, model="test-model", **options) as lease:
        yield lease


def openai_client(setup: Setup, lease: Lease, **options: Any) -> openai.OpenAI:
    env = lease.environment(setup.gateway.proxy.origin)
    return openai.OpenAI(base_url=env["OPENAI_BASE_URL"], api_key=env["OPENAI_API_KEY"], **options)


def anthropic_client(setup: Setup, lease: Lease, **options: Any) -> anthropic.Anthropic:
    env = lease.environment(setup.gateway.proxy.origin)
    return anthropic.Anthropic(base_url=env["ANTHROPIC_BASE_URL"], auth_token=env["ANTHROPIC_AUTH_TOKEN"], **options)


def post(proxy: Proxy, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    """One raw request; the answer's status and JSON."""
    connection = HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    try:
        content = body if isinstance(body, bytes) else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", path, content, {"content-type": "application/json", **named})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_the_clients_retries_are_attempts_of_one_call(connect: Connect) -> None:
    quick = {"retry-after-ms": "1"}
    setup = connect([error(429, headers=quick), error(500, headers=quick), reply("42")])
    with lease_of(setup) as lease:
        answer = openai_client(setup, lease).chat.completions.create(model="test-model", messages=QUESTION)
    assert answer.choices[0].message.content == "42"
    rows = setup.rows.closed
    assert [(row.attempt, row.http_status, row.total_tokens) for row in rows] == [
        (0, 429, 0),
        (1, 500, 0),
        (2, 200, 15),
    ]
    assert len({row.call_id for row in rows}) == 1
    assert [len(call.attempts) for call in lease.calls] == [3]
    assert len(setup.server.requests) == 3


def test_anthropics_three_inputs_add_up(connect: Connect) -> None:
    setup = connect([message("42", prompt_tokens=100, completion_tokens=7)])
    with lease_of(setup) as lease:
        answer = anthropic_client(setup, lease).messages.create(model="test-model", max_tokens=9, messages=QUESTION)
    assert answer.usage.input_tokens < 100
    (row,) = setup.rows.closed
    assert (row.prompt_tokens, row.completion_tokens, row.cached_tokens) == (100, 7, 33)
    assert row.total_tokens == setup.server.bill.total_tokens


@pytest.mark.parametrize("dialect", ["chat", "messages"])
def test_a_stream_that_breaks_is_an_interval_that_holds_the_bill(connect: Connect, dialect: str) -> None:
    words = [f"word{i} " for i in range(6)]
    if dialect == "chat":
        told = {"prompt_tokens": 20, "completion_tokens": 40, "usage": "every", "finish_reason": None, "done": False}
        broken = stream(words, fault="reset_midway", **told)  # type: ignore[arg-type]
    else:
        broken = message("".join(words), streamed=True, prompt_tokens=20, completion_tokens=40, n_events=4)
    setup = connect([broken])
    with lease_of(setup) as lease, pytest.raises(Exception, match=r"closed|chunked read|Connection"):
        _read_stream(setup, lease, dialect)
    (row,) = setup.rows.closed
    assert (row.status, row.error_kind, row.estimated) == ("error", "reset", "interval")
    assert row.total_tokens < 60 <= row.total_tokens_high


def _read_stream(setup: Setup, lease: Lease, dialect: str) -> None:
    options: Any = {"model": "test-model", "messages": QUESTION, "max_tokens": 64}
    if dialect == "chat":
        list(openai_client(setup, lease).chat.completions.create(**options, stream=True))
    else:
        with anthropic_client(setup, lease).messages.stream(**options) as events:
            events.until_done()


def test_a_program_that_goes_away_closes_its_row(connect: Connect) -> None:
    setup = connect([stream(["a ", "b ", "c "] * 50, chunk_delay_s=0.05)])
    with lease_of(setup) as lease:
        answer = openai_client(setup, lease).chat.completions.create(
            model="test-model", messages=QUESTION, stream=True, max_tokens=300
        )
        next(iter(answer))
        answer.close()
        deadline = time.monotonic() + 5
        while not setup.rows.closed and time.monotonic() < deadline:
            time.sleep(0.01)
        assert setup.rows.kinds == ["aborted"]
    assert setup.rows.closed[0].estimated == "interval"
    assert setup.gateway.rules.limits.of(setup.gateway.rules.host, "test-model").in_flight == 0


def test_a_token_dies_with_its_item_and_what_is_in_flight_with_it(connect: Connect) -> None:
    setup = connect([Response(fault="hang")])
    proxy = setup.gateway.proxy
    lease = proxy.lease(TAG, model="test-model")
    with socket.create_connection(("127.0.0.1", proxy.port)) as client:
        body = json.dumps({"model": "test-model", "messages": QUESTION}).encode()
        head = f"POST /{lease.token}/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}"
        client.sendall(head.encode() + b"\r\n\r\n" + body)
        while not setup.server.requests:
            time.sleep(0.01)
        proxy.end(lease)
        assert [(row.error_kind, row.status) for row in setup.rows.closed] == [("aborted", "error")]
        assert client.recv(100) == b""
    status, answer = post(proxy, f"/{lease.token}/v1/chat/completions", {"model": "test-model", "messages": QUESTION})
    assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
    assert len(setup.server.requests) == 1


def test_background_calls_are_overhead_and_charged(connect: Connect) -> None:
    setup = connect()
    with lease_of(setup) as lease:
        client = anthropic_client(setup, lease)
        for model in ("test-model", "small-model", "test-model:overhead"):
            client.messages.create(model=model, max_tokens=9, messages=QUESTION)
        client.messages.count_tokens(model="test-model", messages=QUESTION)
        openai_client(setup, lease).models.list()
    rows = setup.rows.closed
    assert [row.role for row in rows] == ["agent", "overhead", "overhead", "overhead", "overhead"]
    assert [row.model for row in rows] == ["test-model", "small-model", "test-model", "test-model", ""]
    assert setup.server.requests[2].body["model"] == "test-model"
    assert sum(row.total_tokens for row in rows) == setup.server.bill.total_tokens == lease.tokens
    assert {row.estimated for row in rows} == {None}


@pytest.mark.parametrize(
    ("allowance", "words", "n_served"),
    [
        (Allowance(calls=2), "its limit of 2 calls an item", 2),
        (Allowance(tokens=20), "its limit of 20 tokens an item", 2),
        (Allowance(seconds=0.0), "its limit of 0 s an item", 0),
    ],
)
def test_a_spent_allowance_is_a_clean_error_that_no_client_repeats(
    connect: Connect, allowance: Allowance, words: str, n_served: int
) -> None:
    setup = connect([reply("42")])
    with lease_of(setup, allowance=allowance) as lease:
        client = openai_client(setup, lease)
        for _ in range(n_served):
            client.chat.completions.create(model="test-model", messages=QUESTION)
        with pytest.raises(openai.APIStatusError) as caught:
            client.chat.completions.create(model="test-model", messages=QUESTION)
        with pytest.raises(anthropic.APIStatusError, match=words):
            anthropic_client(setup, lease).messages.create(model="test-model", max_tokens=9, messages=QUESTION)
    assert (caught.value.status_code, caught.value.code) == (403, "elo_limit")
    assert words in str(caught.value)
    assert lease.refused == words
    assert len(setup.server.requests) == len(setup.rows.closed) == n_served


def test_only_loopback_is_answered_and_nothing_else_is_reached(connect: Connect) -> None:
    setup = connect([Response(status=307, headers={"location": "http://192.0.2.1/steal"}), reply("42")])
    proxy = setup.gateway.proxy
    body = {"model": "test-model", "messages": QUESTION}
    with lease_of(setup) as lease:
        path = f"/{lease.token}/v1/chat/completions"
        assert post(proxy, path, body, host="evil.example")[0] == 403
        assert post(proxy, path, body, host="127.0.0.1.evil.example:80")[0] == 403
        assert post(proxy, f"http://192.0.2.1{path}", body, host="192.0.2.1")[0] == 403
        assert post(proxy, "/v1/chat/completions", body)[0] == 401
        assert post(proxy, "/v1/chat/completions", body, authorization="Bearer elo-guess")[0] == 401
        assert post(proxy, f"/{lease.token}/v1/batches", body)[0] == 404
        assert post(proxy, path, b"{", host="localhost")[0] == 400
        assert post(proxy, path, body, content_encoding="gzip")[0] == 415
        assert setup.server.requests == []
        connection = HTTPConnection("127.0.0.1", proxy.port)
        for _ in range(2):  # some clients ask whether anybody is there; the connection stays usable
            connection.request("HEAD", f"/{lease.token}")
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (404, b"")
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("location")) == (307, None)
        connection.close()
        # the token works as a bearer and as Anthropic's header as well
        assert post(proxy, "/v1/chat/completions", body, authorization=f"Bearer {lease.token}")[0] == 200
        assert post(proxy, "/v1/chat/completions", body, x_api_key=lease.token)[0] == 200
    assert setup.rows.kinds == ["redirect", None, None]


def test_a_gateway_that_echoes_the_key_does_not_give_it_away(connect: Connect) -> None:
    """Whole, streamed, cut in two by chunks, in a header and in an error."""
    half = len(CANARY) // 2
    echo = {"x-echo": f"Bearer {CANARY}"}
    halves = [f'data: {{"choices": [], "said": "{CANARY[:half]}'.encode(), f'{CANARY[half:]}"}}\n\n'.encode()]
    ended = stream(["a "]).chunks or ()
    setup = connect(
        [
            reply(f"your key is {CANARY}", headers=echo),
            stream([f"it is {CANARY}"]),
            Response(chunks=[*halves, *ended], content_type="text/event-stream", headers=echo),
            error(400, f"bad key {CANARY}", headers=echo),
        ]
    )
    with lease_of(setup) as lease:
        for streamed in (False, True, True, False):
            connection = HTTPConnection("127.0.0.1", setup.gateway.proxy.port)
            body = json.dumps({"model": "test-model", "messages": QUESTION, "stream": streamed})
            connection.request("POST", f"/{lease.token}/v1/chat/completions", body)
            answer = connection.getresponse()
            text = answer.read().decode()
            assert CANARY not in text + str(answer.getheaders())
            assert "[key]" in text
            connection.close()
    assert len(setup.server.requests) == 4


def test_a_gateway_that_wants_anthropics_header_gets_it(connect: Connect) -> None:
    def answer(request: Request) -> Response:
        if request.path.startswith("/v1/messages") and "x-api-key" not in request.headers:
            return error(401, "missing x-api-key")
        return model_answer(request)

    setup = connect(answer)
    with lease_of(setup) as lease:
        for _ in range(2):
            anthropic_client(setup, lease).messages.create(model="test-model", max_tokens=9, messages=QUESTION)
    assert setup.rows.kinds == ["auth", None, None]
    assert lease.failure is None
    assert all("authorization" not in request.headers for request in setup.server.requests[1:])


def test_a_gateway_that_knows_no_stream_options_is_asked_without(connect: Connect) -> None:
    def answer(request: Request) -> Response:
        if "stream_options" in request.body:
            return error(400, "Unknown parameter: stream_options")
        return stream(["a ", "b "], usage="none")

    setup = connect(answer)
    with lease_of(setup) as lease:
        for _ in range(2):
            answers = openai_client(setup, lease).chat.completions.create(
                model="test-model", messages=QUESTION, stream=True
            )
            assert "".join(part.choices[0].delta.content or "" for part in answers) == "a b "
    assert [row.http_status for row in setup.rows.closed] == [400, 200, 200]
    assert [row.estimated for row in setup.rows.closed] == [None, "bytes/3", "bytes/3"]


def test_what_no_further_call_could_mend_is_kept_for_the_run(connect: Connect) -> None:
    setup = connect([error(401, "bad key")])
    with lease_of(setup) as lease:
        with pytest.raises(openai.AuthenticationError):
            openai_client(setup, lease).chat.completions.create(model="test-model", messages=QUESTION)
        failure = setup.gateway.proxy.error_of(lease)
    assert failure is not None
    assert (failure.kind, failure.status) == ("auth", "config_error")
    assert "TAOTOKEN_API_KEY holds the whole key" in str(failure)


@pytest.mark.parametrize("streamed", [False, True])
def test_another_model_than_asked_is_the_runs_concern(connect: Connect, streamed: bool) -> None:
    setup = connect([stream(["a "], model="cheap") if streamed else reply("a", model="cheap")])
    with lease_of(setup) as lease:
        answer: Any = openai_client(setup, lease).chat.completions.create(
            model="test-model", messages=QUESTION, stream=streamed
        )
        if streamed:
            list(answer)
    failure = setup.gateway.proxy.error_of(lease)
    assert failure is not None
    assert (failure.kind, failure.status) == ("model_mismatch", "config_error")
    assert "asked for test-model, answered by cheap" in str(failure)
    assert setup.rows.total_tokens == setup.server.bill.total_tokens


def test_a_gateway_that_is_gone_is_a_bad_gateway(connect: Connect) -> None:
    setup = connect()
    setup.server.stop()
    with lease_of(setup) as lease, pytest.raises(openai.InternalServerError) as caught:
        openai_client(setup, lease, max_retries=1).chat.completions.create(model="test-model", messages=QUESTION)
    assert caught.value.status_code == 502
    assert [(row.error_kind, row.attempt, row.total_tokens_high) for row in setup.rows.closed] == [
        ("connect", 0, 0),
        ("connect", 1, 0),
    ]


def test_the_socket_serves_programs_without_a_network(connect: Connect) -> None:
    setup = connect([reply("42", billed=Billed(10, 5))])
    with lease_of(setup) as lease, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(setup.gateway.proxy.socket))
        body = json.dumps({"model": "test-model", "messages": QUESTION})
        path = urlsplit(lease.environment("http://127.0.0.1:9")["OPENAI_BASE_URL"]).path
        client.sendall(
            f"POST {path}/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:9\r\nconnection: close\r\n"
            f"content-length: {len(body)}\r\n\r\n{body}".encode()
        )
        received = b"".join(iter(lambda: client.recv(4096), b""))
    assert received.startswith(b"HTTP/1.1 200")
    assert setup.rows.total_tokens == 15
