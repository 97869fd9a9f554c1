from __future__ import annotations

import json

import pytest

from pytest_elo.gateway.errors import explain, outcome_status
from pytest_elo.gateway.reading import read_response


def kind_of(status: int, body: object) -> str | None:
    return read_response("chat", status, "application/json", json.dumps(body).encode()).error_kind


def error(message: str, code: object = None) -> dict[str, object]:
    return {"error": {"message": message, "type": None, "code": code}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "outcome"),
    [
        (401, error("Incorrect API key provided"), "auth", "config_error"),
        (403, error("Your account may not use this model"), "forbidden", "config_error"),
        (402, {"detail": "Payment Required"}, "quota", "config_error"),
        (429, error("You exceeded your current quota", "insufficient_quota"), "quota", "config_error"),
        (403, error("Insufficient balance"), "quota", "config_error"),
        (429, error("Rate limit reached for requests", "rate_limit_exceeded"), "rate_limit", "infra_error"),
        (404, error("Not Found"), "not_found", "config_error"),
        (
            404,
            error("The model `gpt-9` does not exist", "model_not_found"),
            "model_not_found",
            "config_error",
        ),
        (400, error("Unknown model: gpt-9"), "model_not_found", "config_error"),
        (408, error("request timeout"), "timeout", "infra_error"),
        (409, error("conflict"), "conflict", "infra_error"),
        (500, error("internal"), "server_error", "infra_error"),
        (503, error("overloaded"), "server_error", "infra_error"),
        (502, error("bad gateway"), "gateway_timeout", "infra_error"),
        (524, error(""), "gateway_timeout", "infra_error"),
        # context overflow under many codes and texts
        (400, error("x", "context_length_exceeded"), "context", "context_exceeded"),
        (400, error("This model's maximum context length is 8192 tokens."), "context", "context_exceeded"),
        (400, error("prompt is too long: 205000 tokens > 200000 maximum"), "context", "context_exceeded"),
        (400, error("the request exceeds the available context size"), "context", "context_exceeded"),
        (413, {"detail": "Request too large"}, "context", "context_exceeded"),
        # ... but "too many tokens" may be throttling
        (429, error("Too many tokens, please wait before trying again."), "rate_limit", "infra_error"),
        (400, error("ThrottlingException: Rate limit: too many tokens"), "rate_limit", "infra_error"),
        (400, error("filtered", "content_filter"), "content_filter", "filtered"),
        (400, error("blocked by our content management policy"), "content_filter", "filtered"),
        (
            400,
            error("Unsupported parameter: 'logit_bias'", "unsupported_parameter"),
            "bad_parameter",
            "config_error",
        ),
        (400, error("messages must not be empty"), "bad_request", "infra_error"),
        (400, {"error": "plain text"}, "bad_request", "infra_error"),
        (301, {}, "redirect", "config_error"),
        (200, error("upstream failed"), "error_body", "infra_error"),
        (200, error("quota", "insufficient_quota"), "quota", "config_error"),
        (200, {"error": {"code": 429, "message": "busy"}}, "rate_limit", "infra_error"),
    ],
)
def test_gateways_errors_are_told_apart(status: int, body: object, kind: str, outcome: str) -> None:
    assert kind_of(status, body) == kind
    assert outcome_status(kind) == outcome


def test_the_user_reads_what_happened_where_and_what_to_do() -> None:
    failure = explain(
        "auth",
        url="https://taotoken.net/api/v1/chat/completions",
        http_status=401,
        message="Incorrect API key\nprovided",
        key_hint="51 characters, ends in abcd",
        key_variable="TAOTOKEN_API_KEY",
    )
    assert str(failure) == (
        "HTTP 401 (auth) from https://taotoken.net/api/v1/chat/completions, the gateway says 'Incorrect API "
        "key provided': the key was not accepted: check that TAOTOKEN_API_KEY holds the whole key of this "
        "gateway (key: 51 characters, ends in abcd)"
    )
    assert (failure.kind, failure.status) == ("auth", "config_error")
