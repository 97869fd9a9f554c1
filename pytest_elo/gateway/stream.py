"""Reading a server-sent event stream while it passes: usage, text, finish and errors, chunk by chunk.

Gateways put usage in the last chunk, on every chunk (cumulative: the last one counts, they are never
summed) or nowhere; they send keep-alives as comments or as data that is not JSON; they report errors as
events after status 200. All of these are read here, once, for relayed and for assembled streams.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.gateway.errors import classify_error_body, error_message
from pytest_elo.gateway.reading import Reading, read_response
from pytest_elo.gateway.usage import fold_usage

__all__ = ["SseDecoder", "StreamReader"]


class SseDecoder:
    """Data of server-sent events from bytes in any split; comments and other fields are skipped."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        """Pieces of a line that has not ended."""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the data of every event completed by ``chunk``."""
        self._pending.append(chunk)
        if b"\n" not in chunk:
            return
        lines = b"".join(self._pending).split(b"\n")
        self._pending = [lines.pop()]
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                yield self._take()

    def finish(self) -> Iterator[bytes]:
        """Yield the event that a stream without a closing blank line leaves behind."""
        rest = b"".join(self._pending)
        if rest.startswith(b"data:"):
            self._data.append(rest[5:].strip())
        self._pending = []
        if self._data:
            yield self._take()

    def _take(self) -> bytes:
        data, self._data = b"\n".join(self._data), []
        return data


@dataclass(slots=True)
class _Choice:
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    tools: dict[int, dict[str, Any]] = field(default_factory=dict)
    logprobs: list[Any] = field(default_factory=list)
    finish: str | None = None


class StreamReader:
    """Accumulates one stream of ``api`` (chat, completions, responses, messages)."""

    def __init__(self, api: str, http_status: int) -> None:
        self._api = api
        self._status = http_status
        self._sse = SseDecoder()
        self._choices: dict[int, _Choice] = {}
        self._usage: dict[str, Any] = {}
        self._frame: dict[str, Any] = {}
        self._error: Mapping[str, Any] | None = None
        self._final: Mapping[str, Any] | None = None
        self._finished = False

    def feed(self, chunk: bytes) -> None:
        for data in self._sse.feed(chunk):
            self._take(data)

    def reading(self) -> Reading:
        """What the stream said so far; ``incomplete`` unless it came to its proper end."""
        for data in self._sse.finish():
            self._take(data)
        if self._final is not None:
            reading = read_response(self._api, self._status, "application/json", json.dumps(self._final).encode())
        else:
            reading = self._read_choices()
        if self._error is not None:
            reading.code, reading.message = error_message(self._error)
            reading.error_kind = classify_error_body(reading.code, reading.message)
        return reading

    def _read_choices(self) -> Reading:
        body = self.assembled()
        reading = read_response("chat", self._status, "application/json", json.dumps(body).encode())
        usage = self._usage if self._usage else None
        reading.usage = fold_usage(usage, has_text=reading.has_output)
        if not self._finished and reading.finish_reason is None:
            reading.error_kind = "incomplete"
            reading.is_usage_partial = reading.usage is not None
        return reading

    def assembled(self) -> dict[str, Any]:
        """The chat completion that the same request without ``stream`` would have brought."""
        choices = [_assembled_choice(index, self._choices[index]) for index in sorted(self._choices)]
        body = {"object": "chat.completion", **self._frame, "choices": choices}
        if self._usage:
            body["usage"] = self._usage
        return body

    def _take(self, data: bytes) -> None:
        if data.strip() == b"[DONE]":
            self._finished = self._finished or any(choice.finish for choice in self._choices.values())
            return
        try:
            event = parse_json(data)
        except ValueError:
            return  # a keep-alive that was sent as data
        if not isinstance(event, Mapping):
            return
        if event.get("error") and event.get("type") in (None, "error"):
            self._error = event
        elif self._api == "messages":
            self._take_message_event(event)
        elif self._api == "responses":
            self._take_response_event(event)
        else:
            self._take_chunk(event)

    def _take_chunk(self, chunk: Mapping[str, Any]) -> None:
        for key in ("id", "created", "model", "system_fingerprint"):
            if chunk.get(key):
                self._frame.setdefault(key, chunk[key])
        usage = chunk.get("usage")
        if isinstance(usage, Mapping):
            self._usage = dict(usage)
        for part in _mappings(chunk.get("choices")):
            self._take_delta(part)

    def _take_delta(self, part: Mapping[str, Any]) -> None:
        index = part.get("index")
        choice = self._choices.setdefault(index if isinstance(index, int) else 0, _Choice())
        delta = part.get("delta")
        if not isinstance(delta, Mapping):
            delta = {"content": part.get("text")}
        for name, into in (("content", choice.text), ("refusal", choice.refusal)):
            if isinstance(delta.get(name), str):
                into.append(delta[name])
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thought, str):
            choice.reasoning.append(thought)
        for call in _mappings(delta.get("tool_calls")):
            _merge_tool_call(choice.tools, call)
        logprobs = part.get("logprobs")
        if isinstance(logprobs, Mapping):
            choice.logprobs.extend(_mappings(logprobs.get("content")))
        finish = part.get("finish_reason")
        if isinstance(finish, str) and finish:
            choice.finish = finish

    def _take_response_event(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type")
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            response = event.get("response")
            self._final = response if isinstance(response, Mapping) else None
            self._finished = True
        elif kind == "error":
            self._error = event
        elif isinstance(event.get("delta"), str):
            self._choices.setdefault(0, _Choice()).text.append(event["delta"])

    def _take_message_event(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type")
        choice = self._choices.setdefault(0, _Choice())
        if kind == "message_start" and isinstance(event.get("message"), Mapping):
            self._frame["model"] = event["message"].get("model")
            self._usage.update(_mapping(event["message"].get("usage")))
        elif kind == "content_block_delta" and isinstance(event.get("delta"), Mapping):
            delta = event["delta"]
            choice.text.append(_text(delta.get("text")) or _text(delta.get("partial_json")))
            choice.reasoning.append(_text(delta.get("thinking")))
        elif kind == "message_delta":
            self._usage.update({k: v for k, v in _mapping(event.get("usage")).items() if v is not None})
            choice.finish = _text(_mapping(event.get("delta")).get("stop_reason")) or choice.finish
        elif kind == "message_stop":
            self._finished = True
        elif kind == "error":
            self._error = event


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [part for part in value if isinstance(part, Mapping)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _merge_tool_call(calls: dict[int, dict[str, Any]], part: Mapping[str, Any]) -> None:
    index = part.get("index")
    call = calls.setdefault(index if isinstance(index, int) else len(calls), {"type": "function"})
    if part.get("id"):
        call["id"] = part["id"]
    function = call.setdefault("function", {"name": "", "arguments": ""})
    for key, value in _mapping(part.get("function")).items():
        if isinstance(value, str):
            function[key] = function.get(key, "") + value


def _assembled_choice(index: int, choice: _Choice) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(choice.text) or None}
    if choice.refusal:
        message["refusal"] = "".join(choice.refusal)
    if any(choice.reasoning):
        message["reasoning_content"] = "".join(choice.reasoning)
    if choice.tools:
        message["tool_calls"] = [choice.tools[key] for key in sorted(choice.tools)]
    logprobs = {"content": choice.logprobs} if choice.logprobs else None
    return {"index": index, "message": message, "finish_reason": choice.finish, "logprobs": logprobs}
