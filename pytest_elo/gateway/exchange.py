"""One request on its way to the gateway and back: its place in flight, its row on the ledger, its reading.

What follows an attempt is the business of the classes built on this one: ``call.Call`` retries for our own clients,
``proxy.forward.Forwarded`` leaves that to the program that asks. Without I/O: transports send what ``prepare`` gives
and feed back what comes.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pytest_elo.gateway.context import CallRecord, current_calls
from pytest_elo.gateway.limits import AdaptiveLimit
from pytest_elo.gateway.reading import Reading, read_response
from pytest_elo.gateway.replaying import record_of
from pytest_elo.gateway.retry import retry_after_s
from pytest_elo.gateway.rules import Rules
from pytest_elo.gateway.stream import StreamReader
from pytest_elo.records import Attempt, Tag

__all__ = ["Again", "Delivered", "Exchange", "OutOfTimeError", "same_model"]


@dataclass(frozen=True, slots=True)
class Delivered:
    """The call is over: what the caller gets (an error response included)."""

    status: int
    headers: list[tuple[str, str]]
    content: bytes
    reading: Reading


@dataclass(frozen=True, slots=True)
class Again:
    """Another attempt follows after ``delay_s`` seconds."""

    delay_s: float


class OutOfTimeError(Exception):
    """The call's time is over although the gateway is still sending."""


class Exchange(ABC):
    """One request of ``api`` with JSON ``body`` (empty for none), charged to ``tag``.

    ``content`` is the body as the caller wrote it, ``key`` where the reply is recorded. ``record`` is the call that a
    further attempt belongs to; without it this is the first of a new call.
    """

    def __init__(
        self,
        rules: Rules,
        tag: Tag,
        *,
        api: str,
        body: Mapping[str, Any],
        content: bytes,
        key: tuple[str, int] | None = None,
        record: CallRecord | None = None,
    ) -> None:
        self.rules = rules
        self.api = api
        self.record = CallRecord(call_id=uuid4().hex, tag=tag) if record is None else record
        self.model = str(body.get("model") or "")
        self._requested = body
        self._content = content
        self._secret = rules.secret.encode()
        self._limit: AdaptiveLimit = rules.limits.of(rules.host, self.model)
        self._deadline = time.monotonic() + rules.call_budget_s
        self._sent = 0.0
        self._holds_slot = False
        self._row: Attempt | None = None
        self._ended: Attempt | None = None
        self._effective: Mapping[str, Any] = body
        self._stream: StreamReader | None = None
        self._chunks: list[bytes] = []
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._key = key
        watchers = current_calls.get()
        if watchers is not None and record is None:
            watchers.append(self.record)

    def prepare(self) -> bytes:
        """Get ready for an attempt; returns the request content to send."""
        content = self._outgoing()
        self._stream, self._chunks = None, []
        self._status, self._headers = 0, {}
        self._sent = time.perf_counter()
        return content

    @property
    def key(self) -> tuple[str, int] | None:
        """Where the reply is recorded."""
        return self._key

    @abstractmethod
    def _outgoing(self) -> bytes:
        """The content of the next attempt; ``_effective`` is what it says."""

    @abstractmethod
    def answered(self) -> Delivered | Again:
        """The response is complete."""

    @abstractmethod
    def failed(self, kind: str) -> Again | Reading:
        """The attempt ended without a complete response. A reading means that no other attempt follows."""

    def admit(self) -> float:
        """0 when the next attempt may be sent, else seconds after which to ask again."""
        wait = self._limit.admit(time.time())
        self._holds_slot = wait == 0.0
        return wait

    def sending(self) -> None:
        """The request's first byte is about to leave: open the attempt's row.

        As late as that, because of a process killed while it was still connecting the gateway knows nothing;
        and not later, because what was sent must not be lost.
        """
        if self._row is None:
            self._row = self.rules.meter.open(self.record, self.api, self._effective, self.rules.source)
            self._sent = time.perf_counter()

    def begin(self, status: int, headers: Mapping[str, str]) -> bool:
        """The response's head came. ``True`` when its chunks go to the caller as they come."""
        self.sending()
        self._status, self._headers = status, headers
        is_stream = status < 300 and "text/event-stream" in headers.get("content-type", "")
        if is_stream:
            self._stream = StreamReader(self.api, status)
        return is_stream and bool(self._requested.get("stream"))

    def feed(self, chunk: bytes) -> None:
        """A part of the response's content. Raises ``OutOfTimeError`` when the call's time is over."""
        if time.monotonic() > self._deadline:
            # keep-alives can go on for ever without the connection ever timing out
            raise OutOfTimeError
        if self._stream is not None:
            self._stream.feed(chunk)
        else:
            self._chunks.append(chunk)

    def relayed(self, kind: str | None) -> None:
        """A stream that was handed on ended: ``kind`` says how, when not at its own end."""
        reading = self._read()
        # who stops reading after an error or after the last event has not aborted anything
        if kind is not None and (kind != "aborted" or reading.error_kind == "incomplete"):
            reading.error_kind = kind
        reading.error_kind = reading.error_kind or self._flaw_of_relayed(reading)
        self._close(reading)
        try:
            if reading.error_kind is None:
                assert self._stream is not None
                self._keep(reading, self._stream.assembled() if self.api == "chat" else None)
        finally:
            self._book()

    def abandoned(self) -> None:
        """The caller went away (cancelled, interrupted): close what is open."""
        if self._row is not None:
            reading = self._read() if self._stream is not None or self._chunks else Reading()
            reading.http_status, reading.error_kind = self._status or None, "aborted"
            self._close(reading)
            self._book()
        self._free_slot()

    def _flaw_of_relayed(self, reading: Reading) -> str | None:
        """The error kind of a stream that was handed on whole, if its row is to have one."""
        return None

    def _broken(self, kind: str) -> Reading:
        """The reading of an attempt that ended without a complete response, its row closed."""
        reading = self._read() if self._stream is not None or self._chunks else Reading()
        reading.http_status = self._status or None
        # nothing was sent: whatever broke did so while connecting
        reading.error_kind = "connect" if self._row is None else kind
        self._close(reading)
        self._book()
        return reading

    def _require_asked_model(self, reading: Reading) -> None:
        if reading.error_kind is None and not self._is_asked_model(reading.model):
            reading.error_kind = "model_mismatch"

    def _as_received(self, reading: Reading) -> Delivered:
        headers = [(name, value) for name, value in self._headers.items() if name not in _HOP_HEADERS]
        return Delivered(self._status, headers, self._received(), reading)

    def _read(self) -> Reading:
        if self._stream is not None:
            reading = self._stream.reading()
            if self.api == "chat":
                reading.body = self._stream.assembled()
            return reading
        content_type = self._headers.get("content-type", "")
        return read_response(self.api, self._status, content_type, self._received())

    def _received(self) -> bytes:
        """The body so far, without the key should the gateway have echoed it."""
        if len(self._chunks) != 1 or self._secret in self._chunks[0]:
            content = b"".join(self._chunks)
            self._chunks = [content.replace(self._secret, b"[key]") if self._secret else content]
        return self._chunks[0]

    def _is_asked_model(self, answered: str | None) -> bool:
        return answered is None or same_model(self.model, answered, self.rules.allowed_models)

    def _close(self, reading: Reading) -> None:
        latency_s = time.perf_counter() - self._sent
        self.sending()
        row, self._row = self._row, None
        assert row is not None
        try:
            self._tell_limit(reading, latency_s)
            self._ended = self.rules.meter.end(
                self.record, row, reading, api=self.api, body=self._effective, latency_s=latency_s
            )
        finally:
            self._free_slot()

    def _book(self) -> None:
        """Close the row on the ledger, after the reply is kept: a process killed in between owes, it does not lose."""
        row, self._ended = self._ended, None
        if row is not None:
            self.rules.meter.close(row)

    def _tell_limit(self, reading: Reading, latency_s: float) -> None:
        self.rules.heard(reading.error_kind)
        if reading.error_kind is None:
            self._limit.succeeded()
        elif reading.error_kind == "rate_limit":
            now = time.time()
            pause = retry_after_s(self._headers, now)
            if pause is not None and pause >= self._time_left_s():
                pause = None  # nobody is kept waiting for what this call does not wait for
            self._limit.rate_limited(now, pause, sent=now - latency_s)

    def _time_left_s(self) -> float:
        return min(self._deadline - time.monotonic(), self.rules.time_left_s())

    def _free_slot(self) -> None:
        if self._holds_slot:
            self._holds_slot = False
            self._limit.release()

    def _keep(self, reading: Reading, body: Mapping[str, Any] | None) -> None:
        recordings = self.rules.recordings
        if recordings is None or recordings.replays or self._key is None:
            return
        if body is None and reading.error_kind is None:
            return  # a relayed stream of an API that is not assembled
        key, occurrence = self._key
        recordings.add(
            record_of(
                self.record,
                key=key,
                occurrence=occurrence,
                api=self.api,
                requested=self._requested,
                reading=reading,
                body=body,
                secret=self.rules.secret,
            )
        )


_DATE = re.compile(r"(-\d{4}-\d{2}-\d{2}|-\d{8}|-\d{4})$")
_HOP_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection", "set-cookie"})


def same_model(asked: str, answered: str, allowed: frozenset[str]) -> bool:
    """Whether ``answered`` is the model asked for: itself, a dated release of it, or an allowed name.

    Vendor prefixes (``openai/gpt-x``) and letter case carry no meaning; ``-2025-01-01``, ``-20250101`` and
    ``-0613`` are dates. Who asks for a dated model gets no other date.
    """
    if not asked or "*" in allowed or answered in allowed:
        return True
    wanted, got = (name.lower().rsplit("/", 1)[-1] for name in (asked, answered))
    return got == wanted or _DATE.sub("", got) == wanted.removesuffix("-latest")
