from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_elo.errors import ConfigError
from pytest_elo.gateway.client import Gateway, GatewaySettings
from pytest_elo.gateway.endpoint import Endpoint
from pytest_elo.gateway.preflight import Preflight, preflight
from pytest_elo.gateway.retry import RetryPolicy
from tests.gateway.conftest import CANARY, Rows
from tests.loopback import LoopbackGateway, Request, Response, error, html, model_answer, reply

SETTINGS = GatewaySettings(model="test-model", timeout_s=5, retry=RetryPolicy(first_delay_s=0.001))


def check(
    server: LoopbackGateway, path: str = "/api", models: tuple[str, ...] = ("test-model",)
) -> tuple[Preflight, Rows]:
    rows = Rows()
    endpoint = Endpoint.checked(server.origin + path, CANARY, key_variable="TAOTOKEN_API_KEY")
    return preflight(endpoint, SETTINGS, rows, models), rows


def only_at(path: str, elsewhere: Response) -> Any:
    return lambda request: model_answer(request) if request.path == path else elsewhere


@pytest.mark.parametrize("elsewhere", [error(404), html(200), error(405)])
@pytest.mark.parametrize("working", ["/api/v1", "/api"])
@pytest.mark.parametrize("configured", ["/api/v1", "/api"])
def test_the_working_path_is_found_once(elsewhere: Response, working: str, configured: str) -> None:
    with LoopbackGateway(only_at(f"{working}/chat/completions", elsewhere)) as server:
        found, rows = check(server, configured)
    found.require()
    assert found.base_url == server.origin + working
    assert {row.role for row in rows.closed} == {"ping"}
    assert len(rows.closed) == len(server.requests)


def test_no_working_path_names_the_addresses_tried() -> None:
    with LoopbackGateway([error(404)]) as server:
        found, _ = check(server)
    with pytest.raises(ConfigError, match="check the base URL") as caught:
        found.require()
    for path in ("/api/v1/chat/completions", "/api/chat/completions"):
        assert server.origin + path in str(caught.value)


def test_a_wrong_key_is_said_at_once_and_not_shown() -> None:
    with LoopbackGateway([error(401, "Incorrect API key provided")]) as server:
        found, _ = check(server)
    with pytest.raises(ConfigError, match=r"HTTP 401.*TAOTOKEN_API_KEY.*26 characters, ends in 4085") as caught:
        found.require()
    assert CANARY not in str(caught.value)
    assert len(server.requests) == 1
    assert [step.is_ok for step in found.steps] == [True, True, False]


def test_an_unknown_model_is_told_with_those_served() -> None:
    def answer(request: Request) -> Response:
        if request.path.endswith("/models"):
            return model_answer(request)
        return error(404, "The model does not exist", code="model_not_found")

    with LoopbackGateway(answer) as server:
        found, _ = check(server, models=("tset-model",))
    with pytest.raises(ConfigError, match=r"does not know the model 'tset-model'.*served are test-model"):
        found.require()


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}])
def test_an_answer_without_usage_does_not_pass(usage: Any) -> None:
    with LoopbackGateway([reply("OK", usage=usage)]) as server:
        found, _ = check(server)
    with pytest.raises(ConfigError, match="usage is missing or empty"):
        found.require()


def test_an_empty_capped_answer_of_a_reasoning_model_passes() -> None:
    with LoopbackGateway([reply(None, finish_reason="length", reasoning_content="Hm")]) as server:
        found, _ = check(server)
    assert found.is_ok


def test_workers_get_path_and_adaptations_as_a_string() -> None:
    def answer(request: Request) -> Response:
        if request.path != "/api/chat/completions":
            return html(200)
        if "max_tokens" in request.body:
            return error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.")
        return model_answer(request)

    with LoopbackGateway(answer) as server:
        found, _ = check(server)
    assert CANARY not in found.negotiated
    endpoint = Endpoint.checked(found.base_url, CANARY, key_variable="K")
    worker = Gateway(endpoint, replace(SETTINGS, negotiated=found.negotiated), Rows())
    assert endpoint.base_url == server.origin + "/api"
    assert worker.rules.negotiator.adaptations("test-model") == ("max_completion_tokens",)
    assert "adapted: max_completion_tokens" in found.steps[-1].text


def test_every_model_of_the_run_is_asked_on_the_path_found() -> None:
    with LoopbackGateway(only_at("/api/chat/completions", error(404))) as server:
        found, _ = check(server, models=("test-model", "judge-model", "test-model"))
    found.require()
    assert [step.name for step in found.steps] == ["key", "address", "model test-model", "model judge-model"]
    assert [request.path for request in server.requests] == [
        "/api/v1/chat/completions",
        "/api/chat/completions",
        "/api/chat/completions",
    ]
