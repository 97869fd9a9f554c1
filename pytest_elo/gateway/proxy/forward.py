"""One attempt of a program, forwarded: as it came, but for the key and a question for the usage of streams."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.gateway.direct import DirectTransport
from pytest_elo.gateway.endpoint import Endpoint
from pytest_elo.gateway.exchange import Again, Delivered, Exchange
from pytest_elo.gateway.negotiate import lesson
from pytest_elo.gateway.reading import Reading
from pytest_elo.gateway.replaying import MODELS_OWN_ERRORS
from pytest_elo.gateway.rules import Rules

__all__ = ["ForwardTransport", "Forwarded", "without_secret", "without_usage"]

_ASK_USAGE = "include_usage"
_NO_OPTIONS = "no_stream_options"
_STYLES = ("authorization", "x-api-key")


class Forwarded(Exchange):
    """An attempt of a program that retries by itself: nothing is repeated here but what it cannot know of.

    That is the question for a stream's usage where the gateway refuses it, and the other header for the key.
    """

    transport: ForwardTransport
    _tried_styles: int = 1

    @property
    def asks_usage(self) -> bool:
        """Whether the stream is asked for its usage although the program did not: its event is then kept back."""
        if self.api not in ("chat", "completions") or not self._requested.get("stream"):
            return False
        options = self._requested.get("stream_options")
        told = isinstance(options, Mapping) and options.get(_ASK_USAGE)
        return not told and _NO_OPTIONS not in self.rules.negotiator.adaptations(self.model)

    def _outgoing(self) -> bytes:
        if not self.asks_usage:
            self._effective = self._requested
            return self._content
        options = self._requested.get("stream_options")
        kept = dict(options) if isinstance(options, Mapping) else {}
        self._effective = {**self._requested, "stream_options": {**kept, _ASK_USAGE: True}}
        return json.dumps(self._effective).encode()

    def answered(self) -> Delivered | Again:
        reading = self._read()
        self._require_asked_model(reading)
        asked_usage = self.asks_usage
        self._close(reading)
        try:
            if asked_usage and lesson(reading, self._effective) == _NO_OPTIONS:
                self.rules.negotiator.learn(self.model, _NO_OPTIONS)
                return Again(0.0)
            if reading.error_kind == "auth" and self._has_other_style():
                return Again(0.0)
            self._record(reading)
            return self._as_received(reading)
        finally:
            self._book()

    def _flaw_of_relayed(self, reading: Reading) -> str | None:
        return None if self._is_asked_model(reading.model) else "model_mismatch"

    def failed(self, kind: str) -> Reading:
        return self._broken(kind)

    def _has_other_style(self) -> bool:
        if self.api not in ("messages", "count_tokens") or self._tried_styles >= len(_STYLES):
            return False
        self._tried_styles += 1
        self.transport.try_other_style()
        return True

    def _record(self, reading: Reading) -> None:
        if reading.error_kind in MODELS_OWN_ERRORS:
            self._keep(reading, None)
        elif reading.error_kind is None and isinstance(reading.body, Mapping) and self.model:
            self._keep(reading, reading.body)


class ForwardTransport(DirectTransport):
    """Puts the key where the gateway wants it: as a bearer, or for Anthropic's API perhaps as ``x-api-key``.

    Gateways differ, so the first 401 of the messages API tries the other way, which is then remembered.
    """

    encodings = "identity"
    """What is only passed on is not to be packed for us."""

    def __init__(self, rules: Rules, endpoint: Endpoint | None) -> None:
        super().__init__(rules, endpoint)
        self._style = 1 if endpoint is not None and endpoint.host.endswith("anthropic.com") else 0

    def try_other_style(self) -> None:
        self._style = 1 - self._style

    def _credentials(self, request: Any, key: str) -> tuple[str, str]:
        style = _STYLES[self._style] if "/messages" in request.url.path else _STYLES[0]
        return style, key if style == "x-api-key" else f"Bearer {key}"


async def without_usage(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A stream of chat chunks without the event that only tells the usage, which its reader did not ask for."""
    pending = b""
    async for chunk in chunks:
        pending += chunk
        end = max((at + len(mark) for mark in _EVENT_ENDS if (at := pending.rfind(mark)) >= 0), default=0)
        complete, pending = pending[:end], pending[end:]
        if kept := _without_usage_events(complete):
            yield kept
    if pending:
        yield pending


_EVENT_ENDS = (b"\n\n", b"\r\n\r\n")


def _without_usage_events(events: bytes) -> bytes:
    if b'"usage"' not in events:
        return events
    parts = re.split(rb"(\r\n\r\n|\n\n)", events)
    pairs = zip(parts[::2], [*parts[1::2], b""], strict=True)  # each event and its end, at last what has none
    return b"".join(event + end for event, end in pairs if not _is_usage_event(event))


def _is_usage_event(event: bytes) -> bool:
    data = event.strip()
    if not data.startswith(b"data:"):
        return False
    try:
        body = parse_json(data[5:])
    except ValueError:
        return False
    return isinstance(body, dict) and body.get("choices") == [] and isinstance(body.get("usage"), dict)


async def without_secret(chunks: AsyncIterator[bytes], secret: bytes) -> AsyncIterator[bytes]:
    """A stream without the key, should the gateway echo it; only what may be its beginning is held back."""
    held = b""
    async for chunk in chunks:
        data = (held + chunk).replace(secret, b"[key]")
        n = next((n for n in range(min(len(secret) - 1, len(data)), 0, -1) if data.endswith(secret[:n])), 0)
        held = data[len(data) - n :]
        if sent := data[: len(data) - n]:
            yield sent
    if held:
        yield held
