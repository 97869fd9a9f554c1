"""The key goes to the configured host and nowhere else: into no row, text, repr or exception."""

from __future__ import annotations

import json
import traceback
from typing import Any

import openai
import pytest

from pytest_elo.errors import GatewayError
from pytest_elo.gateway.context import tagged
from tests.gateway.conftest import CANARY, QUESTION, TAG, Connect
from tests.loopback import LoopbackGateway, Request, Response, completion, error, reply


def everything_shown(error: BaseException) -> str:
    """What a traceback with locals, a report or a debugger would print of an exception."""
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in shown.stack if frame.filename != __file__]
    parts = ["".join(traceback.StackSummary.from_list(frames).format()), repr(error), str(vars(error))]
    request = getattr(error, "request", None)
    if request is not None:
        parts.append(str(request.headers.multi_items()))
    return "\n".join(parts)


@pytest.mark.parametrize(
    "answer",
    [
        error(401, f"Incorrect API key provided: {CANARY}"),
        error(200, f"key {CANARY} is over quota", code="insufficient_quota"),
        Response(status=400, body=f"bad request with {CANARY}".encode(), content_type="text/plain"),
        reply("42", model=f"model-of-{CANARY}"),
        reply("42", finish_reason=None),
        Response(fault="reset"),
    ],
)
def test_a_gateway_that_echoes_the_key_leaks_it_nowhere(connect: Connect, answer: Response) -> None:
    setup = connect([answer])
    with pytest.raises(GatewayError) as of_ask:
        setup.ask()
    with pytest.raises(openai.OpenAIError) as of_sdk:
        setup.create()
    shown = everything_shown(of_ask.value)
    shown += everything_shown(of_sdk.value)
    shown += "".join(row.to_json() for row in setup.rows.closed + setup.rows.opened)
    assert CANARY not in shown
    assert all(request.headers["authorization"] == f"Bearer {CANARY}" for request in setup.server.requests)


def test_no_object_of_ours_or_of_the_sdk_shows_the_key(connect: Connect) -> None:
    setup = connect()
    client, async_client = setup.gateway.client(), setup.gateway.async_client()
    for shown in (setup.gateway.endpoint, setup.gateway.rules, setup.gateway.settings, client, async_client):
        assert CANARY not in repr(shown)
    assert CANARY not in client.api_key + async_client.api_key
    assert CANARY not in str(client.auth_headers)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_to_another_host_is_not_followed(connect: Connect, status: int) -> None:
    with LoopbackGateway() as elsewhere:
        location = {"location": f"{elsewhere.base_url}/chat/completions"}
        setup = connect([Response(status=status, headers=location)])
        with pytest.raises(GatewayError, match="write the final base URL") as caught:
            setup.ask()
        with pytest.raises(openai.APIStatusError):
            setup.create()
        assert caught.value.kind == "redirect"
        assert elsewhere.requests == []


def test_a_client_bent_to_another_host_is_refused(connect: Connect) -> None:
    setup = connect()
    with LoopbackGateway() as elsewhere:
        bent = setup.gateway.client().with_options(base_url=elsewhere.base_url)
        with pytest.raises(openai.APIError, match="only ever sent to the configured host"):
            bent.chat.completions.create(model="m", messages=QUESTION)  # type: ignore[arg-type]
        assert elsewhere.requests == []


def test_recorded_text_of_a_stream_has_no_key(connect: Connect, tmp_path: Any) -> None:
    from pytest_elo.gateway.recordings import Recordings, merge

    def echo(request: Request) -> Response:
        body = completion(request.headers["authorization"], tool_calls=[{"id": CANARY}])
        return Response(body=json.dumps(body).encode())

    setup = connect(echo, recordings=Recordings(None, mode="record", shards=tmp_path / "shards"))
    with tagged(TAG):
        setup.create()
    merge(tmp_path / "shards", tmp_path / "recordings")
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 2
    assert all(CANARY not in path.read_text() for path in written)
