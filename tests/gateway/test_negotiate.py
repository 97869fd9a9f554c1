"""What a gateway refuses is learnt once per model, and what was really sent stands in the rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_elo.errors import GatewayError
from pytest_elo.gateway.negotiate import Negotiator, adapt
from tests.gateway.conftest import Connect
from tests.loopback import Billed, Request, Response, completion, error, model_answer, reply


def refusing(parameter: str, message: str, code: str | None = "unsupported_parameter") -> Any:
    def answer(request: Request) -> Response:
        if parameter in request.body:
            return error(400, message, code=code)
        return model_answer(request)

    return answer


@pytest.mark.parametrize(
    ("parameter", "message", "sent"),
    [
        (
            "max_tokens",
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
            {"max_completion_tokens": 2048},
        ),
        (
            "temperature",
            "Unsupported value: 'temperature' does not support 0.0 with this model. "
            "Only the default (1) value is supported.",
            {"max_tokens": 2048},
        ),
        ("seed", "Unrecognized request argument supplied: seed", {"temperature": 0.0}),
    ],
)
def test_a_refused_parameter_is_changed_once_and_remembered(
    connect: Connect, parameter: str, message: str, sent: dict[str, Any]
) -> None:
    setup = connect(refusing(parameter, message))
    setup.ask()
    setup.ask()
    setup.create(**{parameter: 1})
    bodies = [request.body for request in setup.server.requests]
    assert [parameter in body for body in bodies] == [True, False, False, False]
    rows = setup.rows.closed
    assert [row.http_status for row in rows] == [400, 200, 200, 200]
    assert sent.items() <= rows[1].parameters.items()
    assert parameter not in rows[1].parameters
    assert rows[0].parameters[parameter] is not None


def test_several_refusals_are_learnt_one_after_the_other(connect: Connect) -> None:
    def answer(request: Request) -> Response:
        for parameter in ("max_tokens", "temperature"):
            if parameter in request.body:
                return error(400, f"Unsupported parameter: '{parameter}'")
        return model_answer(request)

    setup = connect(answer)
    setup.ask()
    assert setup.gateway.rules.negotiator.adaptations("test-model") == (
        "drop:temperature",
        "max_completion_tokens",
    )
    assert len(setup.rows.closed) == 3


def test_a_refusal_that_no_change_helps_is_the_users_to_solve(connect: Connect) -> None:
    setup = connect([error(400, "Unsupported parameter: 'max_tokens'", code="unsupported_parameter")])
    with pytest.raises(GatewayError, match=r"change it in elo\.yaml"):
        setup.ask()
    assert len(setup.rows.closed) == 2


def test_a_value_out_of_range_is_not_silently_dropped(connect: Connect) -> None:
    setup = connect([error(400, "temperature must be between 0 and 2")])
    with pytest.raises(GatewayError, match="must be between"):
        setup.ask(temperature=3.0)
    assert len(setup.rows.closed) == 1


def test_the_system_message_is_folded_where_its_role_is_refused(connect: Connect) -> None:
    def answer(request: Request) -> Response:
        if request.body["messages"][0]["role"] == "system":
            return error(400, "Unsupported value: 'messages[0].role' does not support 'system' with this model.")
        return model_answer(request)

    setup = connect(answer)
    setup.ask(messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    assert setup.server.requests[1].body["messages"] == [{"role": "user", "content": "Be brief.\n\nHi"}]


def test_ignored_n_is_made_up_by_single_calls(connect: Connect) -> None:
    def answer(request: Request) -> Response:
        return reply(f"answer {request.body['seed']}", prompt_tokens=10, completion_tokens=2)

    setup = connect(answer)
    completed = setup.create(n=3, seed=7)
    assert [choice.message.content for choice in completed.choices] == ["answer 7", "answer 8", "answer 9"]
    assert [choice.index for choice in completed.choices] == [0, 1, 2]
    assert completed.usage.total_tokens == 36 == setup.rows.total_tokens == setup.server.bill.total_tokens
    rows = setup.rows.closed
    assert [row.attempt for row in rows] == [0, 1, 2]
    assert [row.parameters.get("n") for row in rows] == [3, None, None]
    setup.create(n=2, seed=1)
    assert all("n" not in request.body for request in setup.server.requests[1:])


def test_n_that_is_honoured_is_one_request(connect: Connect) -> None:
    body = completion("x", n=3, prompt_tokens=10, completion_tokens=6)
    setup = connect([Response(body=json.dumps(body).encode(), billed=Billed(10, 6))])
    assert len(setup.create(n=3).choices) == 3
    assert len(setup.server.requests) == 1


def test_what_was_learnt_travels_as_a_string() -> None:
    negotiator = Negotiator()
    assert negotiator.snapshot() == ""
    negotiator.learn("m", "single_n")
    negotiator.learn("m", "drop:seed")
    negotiator.learn("m", "single_n")
    copy = Negotiator(negotiator.snapshot())
    assert copy.adaptations("m") == ("drop:seed", "single_n")
    assert copy.snapshot() == negotiator.snapshot()
    assert copy.adaptations("other") == ()


def test_adapting_leaves_the_request_itself_alone() -> None:
    body = {"model": "m", "messages": [{"role": "developer", "content": "Be brief."}], "n": 2}
    adapted = adapt(body, ("fold_system", "single_n", "stream", "no_stream_options"))
    assert adapted == {"model": "m", "messages": [{"role": "user", "content": "Be brief."}], "stream": True}
    assert body == {"model": "m", "messages": [{"role": "developer", "content": "Be brief."}], "n": 2}
