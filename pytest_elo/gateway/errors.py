"""What went wrong in an attempt: error kinds, what they lead to, and how they are told to the user.

A kind is one word in the ledger (``error_kind``). It decides whether the attempt is repeated, which outcome
status the call leads to, and which remedy the user reads. Classification looks at the status code, then at
the machine-readable code of the error body, then at its words, because gateways disagree on all three.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_elo.errors import GatewayError

__all__ = [
    "RETRYABLE_KINDS",
    "classify_error_body",
    "classify_status",
    "error_message",
    "explain",
    "outcome_status",
    "redact",
]

RETRYABLE_KINDS = frozenset(
    {
        "rate_limit",
        "server_error",
        "gateway_timeout",
        "timeout",
        "connect",
        "reset",
        "conflict",
        "error_body",
        "html",
        "bad_json",
        "incomplete",
    }
)

_OUTCOMES = {
    "auth": "config_error",
    "forbidden": "config_error",
    "quota": "config_error",
    "not_found": "config_error",
    "model_not_found": "config_error",
    "model_mismatch": "config_error",
    "redirect": "config_error",
    "bad_parameter": "config_error",
    "not_recorded": "config_error",
    "wrong_host": "config_error",
    "context": "context_exceeded",
    "content_filter": "filtered",
}

_REMEDIES = {
    "auth": "the key was not accepted: check that {key_variable} holds the whole key of this gateway",
    "forbidden": "the key may not use this: check the key's permissions and the model's availability",
    "quota": "the account has no quota or credit left: top it up, then continue with --elo-resume",
    "not_found": "nothing answers at this path: check the base URL (with or without /v1), not the key",
    "model_not_found": "the gateway does not know the model {model!r}: copy its name from the console",
    "model_mismatch": "another model answered: ask for that name, or allow it in allowed_models",
    "redirect": "the gateway sends clients elsewhere; the key is not sent on: write the final base URL",
    "bad_parameter": "the gateway refuses a request parameter: change it in elo.yaml",
    "bad_request": "the gateway refuses this request",
    "context": "the prompt does not fit the model's context",
    "content_filter": "the gateway's content filter refused the prompt or the answer",
    "rate_limit": "still rate-limited after all retries: lower --elo-concurrency",
    "timeout": "no complete answer in time: lower --elo-concurrency or max_tokens, or raise the timeout",
    "gateway_timeout": "the gateway gave up on the model: lower max_tokens, or ask with stream=True",
    "connect": "no connection: check the host name, the network and the proxy settings",
    "reset": "the connection broke before the answer was complete",
    "server_error": "the gateway failed; the run can be continued with --elo-resume",
    "conflict": "the gateway reports a conflict; the run can be continued with --elo-resume",
    "error_body": "the gateway sent an error with HTTP status 200",
    "html": "a web page came back instead of an answer: check the base URL (with or without /v1)",
    "bad_json": "the answer was cut off or is not JSON",
    "incomplete": "the answer ended without a finish_reason",
    "misrouted": "the whole answer came as reasoning: set up the gateway's reasoning parser",
    "wrong_host": "the key is only ever sent to the configured host",
}

_CONTEXT_CODES = ("context_length_exceeded", "string_above_max_length", "exceed_context_size")
_CONTEXT_WORDS = (
    "maximum context length",
    "context length exceeded",
    "context window",
    "context size",
    "prompt is too long",
    "input is too long",
    "input length",
    "too many input tokens",
    "reduce the length",
    "exceeds the model's maximum",
)
_FILTER_WORDS = ("content_filter", "content management policy", "content policy", "data_inspection_failed")
_QUOTA_WORDS = (
    "insufficient_quota",
    "insufficient quota",
    "insufficient balance",
    "insufficient_balance",
    "insufficient credit",
    "exceeded your current quota",
    "billing_hard_limit",
    "credit balance",
    "out of credits",
)
_MODEL_WORDS = ("model_not_found", "model not found", "unknown model", "invalid model", "no such model")
_PARAMETER_CODES = ("unsupported_parameter", "unsupported_value", "unknown_parameter")
_RATE_WORDS = ("rate limit", "rate_limit", "too many requests", "throttl")


def classify_status(status: int, code: str, message: str) -> str:
    """The error kind of a response with an HTTP error status; ``code`` and ``message`` may be empty."""
    words = f"{code} {message}".lower()
    if 300 <= status < 400:
        return "redirect"
    if status == 402 or (status in (400, 403, 429) and _any(_QUOTA_WORDS, words)):
        return "quota"
    if status in (400, 403, 413, 422) and (specific := _kind_of_words(words)):
        return specific
    if status in (400, 422):
        return "rate_limit" if _any(_RATE_WORDS, words) else "bad_request"
    if status == 404:
        return "model_not_found" if _names_unknown_model(words) else "not_found"
    if status in (502, 504) or 520 <= status <= 524:
        return "gateway_timeout"
    fixed = {401: "auth", 403: "forbidden", 405: "not_found", 408: "timeout", 409: "conflict", 413: "context"}
    if status in fixed:
        return fixed[status]
    if status == 429:
        return "rate_limit"
    return "server_error" if status >= 500 else "bad_request"


def classify_error_body(code: str, message: str) -> str:
    """The error kind of an error object that came with status 200 or inside a stream."""
    words = f"{code} {message}".lower()
    if _any(_QUOTA_WORDS, words):
        return "quota"
    if specific := _kind_of_words(words):
        return specific
    if _any(_RATE_WORDS, words) or code == "429":
        return "rate_limit"
    if code in ("401", "invalid_api_key"):
        return "auth"
    return "error_body"


def _kind_of_words(words: str) -> str | None:
    if _any(_FILTER_WORDS, words):
        return "content_filter"
    # "too many tokens" alone is as often throttling as overflow, so it is in neither list
    if _any(_CONTEXT_CODES, words) or (_any(_CONTEXT_WORDS, words) and not _any(_RATE_WORDS, words)):
        return "context"
    if _any(_PARAMETER_CODES, words):
        return "bad_parameter"
    if _names_unknown_model(words):
        return "model_not_found"
    return None


def _names_unknown_model(words: str) -> bool:
    return _any(_MODEL_WORDS, words) or ("model" in words and "does not exist" in words)


def _any(needles: tuple[str, ...], words: str) -> bool:
    return any(needle in words for needle in needles)


def error_message(body: object) -> tuple[str, str]:
    """(code, message) of an error body in any of the usual shapes; empty strings where it has none."""
    error: object = body
    if isinstance(body, Mapping):
        error = body.get("error") or body.get("detail") or body.get("message") or body
    if isinstance(error, str):
        code = body.get("code") if isinstance(body, Mapping) else None
        return ("" if code is None else str(code), error)
    if not isinstance(error, Mapping):
        return ("", "")
    # a status code repeated as "code" says less than the type beside it
    code, kind = error.get("code"), error.get("type")
    words = [str(value) for value in (code, kind) if value]
    message = error.get("message")
    return (" ".join(words), message if isinstance(message, str) else "")


def outcome_status(kind: str) -> str:
    """The outcome status that a call leads to when its last attempt ended in ``kind``."""
    return _OUTCOMES.get(kind, "infra_error")


def explain(
    kind: str,
    *,
    url: str,
    model: str = "",
    http_status: int | None = None,
    message: str = "",
    attempts: int = 1,
    key_hint: str = "",
    key_variable: str = "the key variable",
) -> GatewayError:
    """The error of a call that failed: what happened, where, and what to do, in one line."""
    what = f"HTTP {http_status} ({kind})" if http_status is not None else kind
    tries = "" if attempts == 1 else f" after {attempts} attempts"
    said = f", the gateway says {_one_line(message)!r}" if message else ""
    remedy = _REMEDIES.get(kind, "see the ledger for the attempts").format(model=model, key_variable=key_variable)
    key = f" (key: {key_hint})" if key_hint and kind in ("auth", "forbidden", "quota") else ""
    return GatewayError(f"{what} from {url}{tries}{said}: {remedy}{key}", kind=kind, status=outcome_status(kind))


def _one_line(message: str, limit: int = 200) -> str:
    line = " ".join(message.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def redact(text: str, secret: str) -> str:
    """``text`` without the secret, wherever a gateway echoed it."""
    return text.replace(secret, "[key]") if secret and secret in text else text
