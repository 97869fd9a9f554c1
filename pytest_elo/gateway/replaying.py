"""From a call to its recording and back: what is kept of a reply, and how it is given again.

Kept of a chat reply: content, refusal, reasoning, tool calls, finish reason, usage, model, and the mean
log-probability (the single log-probabilities are not). Other APIs keep their JSON without what repeats the
request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.errors import NotRecordedError
from pytest_elo.gateway.context import CallRecord
from pytest_elo.gateway.errors import redact
from pytest_elo.gateway.meter import effective_parameters
from pytest_elo.gateway.reading import Reading
from pytest_elo.gateway.recorded import Recorded
from pytest_elo.gateway.recordings import prompt_sha256
from pytest_elo.records import Attempt, Reply, Tag

__all__ = [
    "MODELS_OWN_ERRORS",
    "not_recorded",
    "record_of",
    "recorded_http",
    "replayed_rows",
    "reply_of",
    "reply_of_reading",
]

MODELS_OWN_ERRORS = frozenset({"context", "content_filter"})
"""Failed calls that are recorded: asking again would end the same way."""

_ROW_FIELDS = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "latency_s",
    "finish_reason",
    "status",
    "error_kind",
    "http_status",
    "estimated",
    "total_tokens_high",
    "cached_tokens",
    "reasoning_tokens",
    "response_model",
)
_DEFAULTS = {item.name: item.default for item in fields(Attempt) if item.name in _ROW_FIELDS}
_ECHOES = frozenset({"instructions", "metadata", "input", "tools", "prompt", "user"})


def record_of(
    call: CallRecord,
    *,
    key: str,
    occurrence: int,
    api: str,
    requested: Mapping[str, Any],
    reading: Reading,
    body: Any,
    secret: str,
) -> Recorded:
    """The recording of a call that ended; ``body`` is the reply as delivered (assembled or merged)."""
    tag = call.tag
    failed = reading.error_kind is not None
    kept = None if failed else _kept(api, body, reading.mean_logprob)
    return Recorded(
        key=key,
        occurrence=occurrence,
        task_id=tag.task_id,
        item_id=tag.item_id,
        role=tag.role,
        sample=tag.sample,
        repeat=tag.repeat,
        condition=tag.condition,
        parameters={"model": requested.get("model"), **effective_parameters(requested)},
        prompt_sha256=prompt_sha256(requested),
        attempts=tuple(_kept_row(row, requested) for row in call.attempts),
        body=_without(kept, secret),
        error={"kind": reading.error_kind, "http_status": reading.http_status} if failed else None,
        purchase={
            "call_id": call.call_id,
            "strategy": tag.strategy,
            "source": call.attempts[-1].source,
            "ts": [row.ts for row in call.attempts],
        },
    )


def _without(body: Any, secret: str) -> Any:
    if not secret or body is None:
        return body
    text = json.dumps(body, ensure_ascii=False)
    return parse_json(redact(text, secret)) if secret in text else body


def _kept_row(row: Attempt, requested: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: getattr(row, name) for name in _ROW_FIELDS if getattr(row, name) != _DEFAULTS[name]}
    if row.parameters != effective_parameters(requested):
        kept["parameters"] = row.parameters
    return kept


def _kept(api: str, body: Mapping[str, Any], mean_logprob: float | None) -> dict[str, Any]:
    if api != "chat":
        return {name: value for name, value in body.items() if name not in _ECHOES}
    choices = [_kept_choice(choice) for choice in body["choices"]]
    kept = {"model": body.get("model"), "choices": choices, "usage": body.get("usage")}
    return kept if mean_logprob is None else {**kept, "mean_logprob": round(mean_logprob, 6)}


def _kept_choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    message = choice.get("message") or {}
    optional = ("refusal", "reasoning_content", "tool_calls")
    return {
        "content": message.get("content"),
        **{name: message[name] for name in optional if message.get(name)},
        "finish_reason": choice.get("finish_reason"),
    }


def not_recorded(tag: Tag, model: str, key: str) -> NotRecordedError:
    return NotRecordedError(
        f"{tag.task_id}[{tag.item_id}-{tag.strategy}] (repeat {tag.repeat}, {tag.role}, sample "
        f"{tag.sample}): this request to {model or 'no model'} was never recorded (key {key[:12]}): record "
        "it with `pytest evals --elo-record`"
    )


def replayed_rows(recorded: Recorded, tag: Tag, *, call_id: str, run_id: str, ts: str, model: str) -> Iterator[Attempt]:
    """The recorded attempts as rows of this run; those of its own purchase as the rows that they were."""
    purchase = recorded.purchase or {}
    times = purchase.get("ts") or [ts] * len(recorded.attempts)
    for number, kept in enumerate(recorded.attempts):
        yield Attempt(
            ts=times[number],
            task_id=tag.task_id,
            strategy=tag.strategy,
            model=model,
            run_id=run_id,
            call_id=call_id,
            attempt=number,
            item_id=tag.item_id,
            repeat=tag.repeat,
            sample=tag.sample,
            role=tag.role,
            condition=tag.condition,
            source=purchase.get("source", "replay"),
            **{"parameters": _request_parameters(recorded), **kept},
        )


def _request_parameters(recorded: Recorded) -> dict[str, Any]:
    return {name: value for name, value in recorded.parameters.items() if name != "model"}


def reply_of(recorded: Recorded, call: CallRecord) -> Reply:
    """The recorded chat reply, as a strategy sees it."""
    body = recorded.body or {}
    choice = body["choices"][0]
    last = call.attempts[-1]
    return Reply(
        call_id=call.call_id,
        text=choice.get("content") or "",
        finish_reason=choice.get("finish_reason"),
        refusal=choice.get("refusal"),
        model=body.get("model") or "",
        prompt_tokens=last.prompt_tokens,
        completion_tokens=last.completion_tokens,
        mean_logprob=body.get("mean_logprob"),
    )


def reply_of_reading(reading: Reading, call: CallRecord) -> Reply:
    last = call.attempts[-1]
    return Reply(
        call_id=call.call_id,
        text=reading.text,
        finish_reason=reading.finish_reason,
        refusal=reading.refusal,
        model=reading.model or last.model,
        prompt_tokens=last.prompt_tokens,
        completion_tokens=last.completion_tokens,
        mean_logprob=reading.mean_logprob,
    )


def recorded_http(recorded: Recorded, api: str, call_id: str, *, stream: bool) -> tuple[int, str, bytes]:
    """(status, content type, content) that gives a recorded call back to an SDK."""
    if recorded.error is not None:
        error = {"message": f"recorded refusal ({recorded.error['kind']})", "code": recorded.error["kind"]}
        status = recorded.error.get("http_status") or 400
        return max(status, 400), "application/json", json.dumps({"error": error}).encode()
    body = dict(recorded.body or {})
    if api == "chat":
        body = _completion(body, call_id)
    if stream:
        return 200, "text/event-stream", _as_stream(body)
    return 200, "application/json", json.dumps(body).encode()


def _completion(body: Mapping[str, Any], call_id: str) -> dict[str, Any]:
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", **{k: v for k, v in choice.items() if k != "finish_reason"}},
            "finish_reason": choice.get("finish_reason"),
            "logprobs": None,
        }
        for index, choice in enumerate(body["choices"])
    ]
    frame = {"id": f"replay-{call_id}", "object": "chat.completion", "created": 0, "model": body.get("model")}
    return {**frame, "choices": choices, "usage": body.get("usage")}


def _as_stream(completion: Mapping[str, Any]) -> bytes:
    """A chat completion as the events of a stream: content, finish, usage."""
    frame = {**completion, "object": "chat.completion.chunk", "usage": None}
    deltas = [
        {"index": choice["index"], "delta": choice["message"], "finish_reason": None}
        for choice in completion["choices"]
    ]
    ends = [
        {"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"]}
        for choice in completion["choices"]
    ]
    events = [
        {**frame, "choices": deltas},
        {**frame, "choices": ends},
        {**frame, "choices": [], "usage": completion["usage"]},
    ]
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
