"""Reading one HTTP response: what the gateway said, as far as it can be known.

The same ``Reading`` comes from a JSON body and from a stream (``stream.py``), so that metering, retries and
replies look at one shape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.gateway.errors import classify_error_body, classify_status, error_message
from pytest_elo.gateway.usage import Usage, fold_usage

__all__ = ["API_OF_PATH", "Reading", "api_of", "read_response"]

API_OF_PATH = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "messages",
    "/embeddings": "embeddings",
    "/completions": "completions",
}
_GENERATIVE = frozenset({"chat", "responses", "messages", "completions"})


def api_of(path: str) -> str:
    """The API behind a URL path, by its ending; ``other`` for anything unknown."""
    for ending, api in API_OF_PATH.items():
        if path.endswith(ending):
            return api
    return "other"


@dataclass(slots=True, kw_only=True)
class Reading:
    """One response. ``error_kind is None`` means a complete, usable answer."""

    http_status: int | None = None
    error_kind: str | None = None
    message: str = ""
    """The gateway's own words about the error."""
    code: str = ""
    usage: Usage | None = None
    is_usage_partial: bool = False
    """The stream broke off after telling what it had used until then."""
    finish_reason: str | None = None
    model: str | None = None
    text: str = ""
    reasoning: str = ""
    refusal: str | None = None
    n_choices: int = 0
    has_tool_calls: bool = False
    mean_logprob: float | None = None
    body: Any = None
    """The decoded JSON, where there was any."""
    n_bytes: int = 0
    """Bytes of UTF-8 that the model is known to have written (answer, reasoning, tool arguments)."""

    @property
    def has_output(self) -> bool:
        return self.n_bytes > 0


def read_response(api: str, status: int, content_type: str, content: bytes) -> Reading:
    """Read a complete, non-streamed response."""
    reading = Reading(http_status=status)
    body = reading.body = _decode(content)
    if isinstance(body, Mapping):
        _read_body(reading, api, body)
    if status >= 300:
        _read_http_error(reading, body, content)
    elif body is not None and _is_error(body):
        reading.code, reading.message = error_message(body)
        reading.error_kind = classify_error_body(reading.code, reading.message)
    elif _is_html(content_type, content):
        reading.error_kind = "html"
    elif api != "other" or "json" in content_type:
        reading.error_kind = _flaw(reading, api, body)
    return reading


def _decode(content: bytes) -> Any:
    try:
        return parse_json(content)
    except ValueError:
        return None


def _is_html(content_type: str, content: bytes) -> bool:
    return "text/html" in content_type or content.lstrip()[:15].lower().startswith((b"<!doctype", b"<html"))


def _is_error(body: object) -> bool:
    return isinstance(body, Mapping) and bool(body.get("error")) and not body.get("choices")


def _read_http_error(reading: Reading, body: object, content: bytes) -> None:
    status = reading.http_status or 0
    if body is None:
        reading.message = "" if _is_html("", content) else content[:400].decode("utf-8", "replace")
    else:
        reading.code, reading.message = error_message(body)
    reading.error_kind = classify_status(status, reading.code, reading.message)


def _flaw(reading: Reading, api: str, body: object) -> str | None:
    """What keeps a 200 without an error object from being a usable answer."""
    if body is None:
        return "bad_json"
    if api not in _GENERATIVE:
        return None
    if api == "responses":
        return _flaw_of_response(body)
    if reading.n_choices == 0:
        return "incomplete"
    if not reading.finish_reason:
        return "incomplete"
    if reading.reasoning and not reading.text and not reading.has_tool_calls and not reading.refusal:
        return "misrouted" if reading.finish_reason in ("stop", "end_turn") else None
    return None


def _flaw_of_response(body: object) -> str | None:
    state = body.get("status") if isinstance(body, Mapping) else None
    if state == "failed":
        return "error_body"
    return None if state in ("completed", "incomplete", "queued", "in_progress", None) else "incomplete"


def _read_body(reading: Reading, api: str, body: Mapping[str, Any]) -> None:
    model = body.get("model")
    reading.model = model if isinstance(model, str) else None
    if api in ("chat", "completions"):
        _read_choices(reading, body.get("choices"))
    elif api == "messages":
        _read_message(reading, body)
    elif api == "responses":
        _read_output(reading, body)
    reading.usage = fold_usage(body.get("usage"), has_text=reading.has_output)


def _read_choices(reading: Reading, choices: object) -> None:
    if not isinstance(choices, list):
        return
    kept = [choice for choice in choices if isinstance(choice, Mapping)]
    reading.n_choices = len(kept)
    for index, choice in enumerate(kept):
        message = choice.get("message")
        text, reasoning, refusal, tools = (
            _message_parts(message) if isinstance(message, Mapping) else (_text(choice.get("text")), "", None, "")
        )
        reading.n_bytes += sum(len(part.encode("utf-8", "replace")) for part in (text, reasoning, refusal or "", tools))
        if index == 0:
            reading.text, reading.reasoning, reading.refusal = text, reasoning, refusal
            reading.has_tool_calls = bool(tools)
            finish = choice.get("finish_reason")
            reading.finish_reason = finish if isinstance(finish, str) and finish else None
            reading.mean_logprob = mean_logprob(choice.get("logprobs"))


def _message_parts(message: Mapping[str, Any]) -> tuple[str, str, str | None, str]:
    """(text, reasoning, refusal, tool calls as JSON) of a chat message."""
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    refusal = message.get("refusal")
    calls = message.get("tool_calls") or message.get("function_call")
    return (
        _text(message.get("content")),
        _text(reasoning),
        refusal if isinstance(refusal, str) and refusal else None,
        json.dumps(calls) if calls else "",
    )


def _read_message(reading: Reading, body: Mapping[str, Any]) -> None:
    parts = body.get("content")
    blocks = [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
    reading.n_choices = 1 if isinstance(parts, list) else 0
    reading.text = "".join(_text(part.get("text")) for part in blocks)
    reading.reasoning = "".join(_text(part.get("thinking")) for part in blocks)
    tools = [part for part in blocks if part.get("type") == "tool_use"]
    reading.has_tool_calls = bool(tools)
    written = reading.text + reading.reasoning + (json.dumps(tools) if tools else "")
    reading.n_bytes = len(written.encode("utf-8", "replace"))
    stop = body.get("stop_reason")
    reading.finish_reason = stop if isinstance(stop, str) and stop else None


def _read_output(reading: Reading, body: Mapping[str, Any]) -> None:
    items = body.get("output")
    output = [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    reading.n_choices = 1 if output else 0
    for item in output:
        if item.get("type") == "message":
            content = item.get("content")
            parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
            reading.text += "".join(_text(part.get("text")) for part in parts)
            refusals = [_text(part.get("refusal")) for part in parts if part.get("refusal")]
            reading.refusal = reading.refusal or (refusals[0] if refusals else None)
        elif item.get("type") not in (None, "reasoning"):
            reading.has_tool_calls = True
            reading.n_bytes += len(json.dumps(item))
    reading.n_bytes += len((reading.text + (reading.refusal or "")).encode("utf-8", "replace"))
    reading.finish_reason = _finish_of_response(body)


def _finish_of_response(body: Mapping[str, Any]) -> str | None:
    details = body.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, Mapping) else None
    if reason == "max_output_tokens":
        return "length"
    if isinstance(reason, str):
        return reason
    return "stop" if body.get("status") == "completed" else None


def _text(value: object) -> str:
    """Text of a content field: a string, or the text parts of a list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, Mapping))
    return ""


def mean_logprob(logprobs: object) -> float | None:
    """Mean log-probability per token of a choice's ``logprobs``; ``None`` where there are none."""
    tokens: object = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(tokens, Sequence) or isinstance(tokens, str):
        return None
    values = [token.get("logprob") for token in tokens if isinstance(token, Mapping)]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    return sum(numbers) / len(numbers) if numbers else None
