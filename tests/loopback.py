"""A gateway on 127.0.0.1 for tests: a real HTTP server that misbehaves on request and bills every request.

In a test::

    with LoopbackGateway([error(429), reply("hello")]) as server:
        ...  # requests to server.base_url
    assert server.bill.total_tokens == 15

A script is a list of responses (the last one repeats) or a function from a request to a response. As a
process: ``python tests/loopback.py --port-file F [--script S.json] [--latency-s 1]``; its log is then read
from ``GET /_log``, and ``POST /_stop`` ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

__all__ = [
    "Billed",
    "LoopbackGateway",
    "Request",
    "Response",
    "completion",
    "error",
    "html",
    "message",
    "model_answer",
    "reply",
    "responses_reply",
    "stream",
]


@dataclass(frozen=True, slots=True)
class Billed:
    """What the gateway charges for a request, whether or not the client learns of it."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(slots=True)
class Request:
    """A request as it arrived. ``number`` counts from 0 in order of arrival."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any
    """Decoded JSON; ``None`` for none."""
    billed: Billed = field(default_factory=Billed)
    status: int = 0
    in_flight: int = 0
    """Requests in flight when this one arrived, itself included."""

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What to answer, how, and what to bill for it.

    ``chunks`` are sent one by one (server-sent events) with ``chunk_delay_s`` between them. ``fault`` breaks
    the connection: ``reset`` before any byte, ``reset_midway`` after the first half (or after all chunks but
    the last), ``truncate`` closes early with a complete-looking head, ``hang`` never answers.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    chunks: Sequence[bytes] | None = None
    chunk_delay_s: float = 0.0
    fault: str | None = None
    billed: Billed = field(default_factory=Billed)


Script = Sequence[Response] | Callable[[Request], Response]


def completion(
    text: str | None,
    *,
    model: str = "test-model",
    prompt_tokens: int = 10,
    completion_tokens: int = 5,
    finish_reason: str | None = "stop",
    usage: Any = ...,
    n: int = 1,
    **message: Any,
) -> dict[str, Any]:
    """The JSON of a chat completion; ``usage=None`` sends null."""
    counted = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
    choice = {"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish_reason}
    return {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": index, **choice} for index in range(n)],
        "usage": counted if usage is ... else usage,
    }


def reply(
    text: str | None = "hello",
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    delay_s: float = 0.0,
    billed: Billed | None = None,
    fault: str | None = None,
    **fields: Any,
) -> Response:
    """A chat completion; billed as its usage says unless ``billed`` is given."""
    body = completion(text, **fields)
    if billed is None:
        billed = Billed(fields.get("prompt_tokens", 10), fields.get("completion_tokens", 5))
    return Response(
        status=status,
        body=json.dumps(body).encode(),
        headers=headers or {},
        delay_s=delay_s,
        billed=billed,
        fault=fault,
    )


def error(
    status: int,
    message: str = "failed",
    *,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
    billed: Billed | None = None,
    **fields: Any,
) -> Response:
    """A JSON error body in OpenAI's shape (``status`` may be 200)."""
    body = {"error": {"message": message, "type": "error", "code": code, **fields}}
    return Response(status=status, body=json.dumps(body).encode(), headers=headers or {}, billed=billed or Billed())


def html(status: int = 200, text: str = "<!DOCTYPE html><html><body>console</body></html>") -> Response:
    return Response(status=status, body=text.encode(), content_type="text/html; charset=utf-8")


def stream(
    texts: Sequence[str],
    *,
    model: str = "test-model",
    usage: str = "last",
    finish_reason: str | None = "stop",
    done: bool = True,
    prompt_tokens: int = 10,
    completion_tokens: int = 5,
    extra: Sequence[bytes] = (),
    fault: str | None = None,
    chunk_delay_s: float = 0.0,
) -> Response:
    """A streamed completion; ``usage`` is ``last``, ``every`` (cumulative, on each chunk) or ``none``."""
    total = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
    frame = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    events: list[dict[str, Any]] = []
    for number, text in enumerate(texts, start=1):
        event = {**frame, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
        if usage == "every":
            part = completion_tokens * number // len(texts)
            event["usage"] = {**total, "completion_tokens": part, "total_tokens": prompt_tokens + part}
        events.append(event)
    if finish_reason is not None:
        events.append({**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]})
    if usage == "last":
        events.append({**frame, "choices": [], "usage": total})
    chunks = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    chunks += [*extra, *([b"data: [DONE]\n\n"] if done else [])]
    return Response(
        chunks=chunks,
        content_type="text/event-stream",
        fault=fault,
        chunk_delay_s=chunk_delay_s,
        billed=Billed(prompt_tokens, completion_tokens),
    )


def model_answer(request: Request) -> Response:
    """A small deterministic "model": tokens are words, the answer depends on prompt and seed alone."""
    body = request.body or {}
    path = request.path.partition("?")[0]
    if path.endswith("/models"):
        return Response(body=json.dumps({"object": "list", "data": [{"id": "test-model"}]}).encode())
    prompt = " ".join(_texts([body.get("system"), body.get("instructions"), body.get("messages"), body.get("input")]))
    text = f"echo {prompt.split()[-1] if prompt.split() else ''} {body.get('seed', 0)}"
    counted = {"prompt_tokens": len(prompt.split()) + 3, "completion_tokens": len(text.split())}
    model = str(body.get("model") or "test-model")
    if path.endswith("/count_tokens"):
        return Response(body=json.dumps({"input_tokens": counted["prompt_tokens"]}).encode())
    if path.endswith("/messages"):
        return message(text, model=model, streamed=bool(body.get("stream")), **counted)
    if path.endswith("/responses"):
        return responses_reply(text, model=model, streamed=bool(body.get("stream")), **counted)
    if body.get("stream"):
        options = body.get("stream_options") or {}
        usage = "last" if options.get("include_usage") else "none"
        return stream([word + " " for word in text.split()], model=model, usage=usage, **counted)
    return reply(text, model=model, **counted)


def _texts(part: Any) -> list[str]:
    """All text of a prompt in any of the dialects."""
    if isinstance(part, str):
        return [part]
    if isinstance(part, list):
        return [text for inner in part for text in _texts(inner)]
    if isinstance(part, Mapping):
        return _texts(part.get("content", part.get("text")))
    return []


def message(
    text: str,
    *,
    model: str = "test-model",
    prompt_tokens: int = 10,
    completion_tokens: int = 5,
    streamed: bool = False,
    content: Sequence[Mapping[str, Any]] | None = None,
    n_events: int | None = None,
) -> Response:
    """An answer of Anthropic's messages API. The prompt is told in its three parts, which add up.

    ``n_events`` breaks the connection of a stream after so many events.
    """
    read, written = prompt_tokens // 3, prompt_tokens // 4
    usage = {
        "input_tokens": prompt_tokens - read - written,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }
    frame = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "stop_sequence": None}
    blocks = list(content) if content is not None else [{"type": "text", "text": text}]
    stop = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    billed = Billed(prompt_tokens, completion_tokens)
    if not streamed:
        whole = {"content": blocks, "stop_reason": stop, "usage": {**usage, "output_tokens": completion_tokens}}
        return Response(body=json.dumps({**frame, **whole}).encode(), billed=billed)
    start = {**frame, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(blocks):
        empty, deltas = _block_events(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    end = {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": completion_tokens}}
    events += [{"type": "message_delta", **end}, {"type": "message_stop"}]
    return _named_events(events, billed, n_events)


def _block_events(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "tool_use":
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    deltas = [{"type": "text_delta", "text": word + " "} for word in block["text"].split()]
    return {"type": "text", "text": ""}, deltas


def responses_reply(
    text: str,
    *,
    model: str = "test-model",
    prompt_tokens: int = 10,
    completion_tokens: int = 5,
    streamed: bool = False,
    output: Sequence[Mapping[str, Any]] | None = None,
    n_events: int | None = None,
) -> Response:
    """An answer of OpenAI's responses API."""
    usage = {
        "input_tokens": prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt_tokens + completion_tokens,
    }
    part = {"type": "output_text", "text": text, "annotations": []}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    items = list(output) if output is not None else [said]
    frame = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": model,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    whole = {**frame, "status": "completed", "output": items, "usage": usage}
    billed = Billed(prompt_tokens, completion_tokens)
    if not streamed:
        return Response(body=json.dumps(whole).encode(), billed=billed)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**frame, "status": "in_progress", "output": []}}
    ]
    for index, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}})
        for word in text.split() if item["type"] == "message" else ():
            where = {"item_id": item["id"], "output_index": index, "content_index": 0}
            events.append({"type": "response.output_text.delta", **where, "delta": word + " ", "logprobs": []})
        events.append({"type": "response.output_item.done", "output_index": index, "item": dict(item)})
    events.append({"type": "response.completed", "response": whole})
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
    return _named_events(numbered, billed, n_events)


def _named_events(events: Sequence[Mapping[str, Any]], billed: Billed, n_events: int | None) -> Response:
    chunks = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    if n_events is not None:  # the fault leaves the last of the chunks out
        return Response(
            chunks=chunks[: n_events + 1], content_type="text/event-stream", billed=billed, fault="reset_midway"
        )
    return Response(chunks=chunks, content_type="text/event-stream", billed=billed)


class LoopbackGateway:
    """The server, in a thread of this process. ``latency_s`` is added to every answer."""

    def __init__(
        self, script: Script = model_answer, *, latency_s: float = 0.0, port: int = 0, host: str = "127.0.0.1"
    ) -> None:
        self._host = host
        self._script = script
        self._latency_s = latency_s
        self._wanted_port = port
        self._in_flight = 0
        self._started = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="loopback-gateway", daemon=True)
        self.requests: list[Request] = []
        self.port = 0

    def __enter__(self) -> LoopbackGateway:
        self._thread.start()
        self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop answering; connections are refused from now on."""
        assert self._loop is not None
        assert self._stopping is not None
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(10)

    @property
    def origin(self) -> str:
        return f"http://{self._host}:{self.port}"

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"

    @property
    def bill(self) -> Billed:
        """Everything charged so far."""
        return Billed(
            sum(request.billed.prompt_tokens for request in self.requests),
            sum(request.billed.completion_tokens for request in self.requests),
        )

    @property
    def most_in_flight(self) -> int:
        return max((request.in_flight for request in self.requests), default=0)

    def serve_forever(self, port_file: Path) -> None:
        """Serve in this thread until ``POST /_stop``; the port is written to ``port_file``."""
        self._port_file = port_file
        asyncio.run(self._serve())

    _port_file: Path | None = None

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._connection, self._host, self._wanted_port, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        if self._port_file is not None:
            temporary = self._port_file.with_suffix(".tmp")
            temporary.write_text(str(self.port))
            os.replace(temporary, self._port_file)
        self._started.set()
        await self._stopping.wait()
        server.close()
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; ``False`` when the connection is over."""
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        if path.startswith("/_"):
            return await self._control(path, writer)
        self._in_flight += 1
        try:
            request = Request(
                len(self.requests),
                method,
                path,
                headers,
                json.loads(content) if content else None,
                in_flight=self._in_flight,
            )
            self.requests.append(request)
            response = self._response_to(request)
            # the bill does not depend on whether the client waits for the answer
            request.billed, request.status = response.billed, response.status
            if response.delay_s or self._latency_s:
                await asyncio.sleep(response.delay_s + self._latency_s)
            return await _send(response, writer)
        finally:
            self._in_flight -= 1

    def _response_to(self, request: Request) -> Response:
        if callable(self._script):
            return self._script(request)
        return self._script[min(request.number, len(self._script) - 1)]

    async def _control(self, path: str, writer: asyncio.StreamWriter) -> bool:
        assert self._stopping is not None
        if path == "/_stop":
            self._stopping.set()
        log = [request.to_dict() for request in self.requests]
        await _send(Response(body=json.dumps(log).encode()), writer)
        return False


async def _send(response: Response, writer: asyncio.StreamWriter) -> bool:
    if response.fault == "hang":
        await asyncio.sleep(3600)
    if response.fault == "reset":
        _reset(writer)
        return False
    chunked = response.chunks is not None
    writer.write(_head(response, chunked))
    if response.chunks is not None:
        return await _send_chunks(response, response.chunks, writer)
    if response.fault in ("reset_midway", "truncate"):
        writer.write(response.body[: len(response.body) // 2])
        await writer.drain()
        if response.fault == "reset_midway":
            await asyncio.sleep(0.02)
            _reset(writer)
        return False
    writer.write(response.body)
    await writer.drain()
    return True


async def _send_chunks(response: Response, chunks: Sequence[bytes], writer: asyncio.StreamWriter) -> bool:
    sent = chunks[:-1] if response.fault else chunks
    for chunk in sent:
        writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        await writer.drain()
        if response.chunk_delay_s:
            await asyncio.sleep(response.chunk_delay_s)
    if response.fault:
        await asyncio.sleep(0.02)
        _reset(writer)
        return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


def _head(response: Response, chunked: bool) -> bytes:
    reason = HTTPStatus(response.status).phrase if response.status in HTTPStatus._value2member_map_ else "Status"
    length = "transfer-encoding: chunked" if chunked else f"content-length: {len(response.body)}"
    lines = [f"HTTP/1.1 {response.status} {reason}", f"content-type: {response.content_type}", length]
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    handle: socket.socket = writer.get_extra_info("socket")
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _scripted(path: Path) -> list[Response]:
    """Responses from a JSON list of ``{"reply": text, ...}`` or ``{"error": message, "status": ...}``."""
    steps = json.loads(path.read_text("utf-8"))
    made: list[Response] = []
    for step in steps:
        if "error" in step:
            made.append(error(step.pop("status"), step.pop("error"), **step))
        else:
            made.append(reply(step.pop("reply"), **step))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-s", type=float, default=0.0)
    parser.add_argument("--script", type=Path)
    options = parser.parse_args()
    script: Script = _scripted(options.script) if options.script else model_answer
    LoopbackGateway(script, latency_s=options.latency_s, port=options.port).serve_forever(options.port_file)


if __name__ == "__main__":
    main()
