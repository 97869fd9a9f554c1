"""One ledger row per HTTP attempt: opened when it starts, closed however it ends.

A row that is never closed (the process died) already holds the widest honest interval. Which attempts cost
nothing, which cost what the gateway says and which cost an unknown amount is decided here, in one place.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pytest_elo._text import text_hash
from pytest_elo.gateway.context import CallRecord
from pytest_elo.gateway.errors import redact
from pytest_elo.gateway.estimate import Estimator, Interval, completion_cap
from pytest_elo.gateway.reading import Reading
from pytest_elo.gateway.usage import Usage
from pytest_elo.records import Attempt, Sink

__all__ = ["Meter", "effective_parameters", "timestamp"]

_PROMPT_KEYS = frozenset(
    {
        "messages",
        "model",
        "input",
        "prompt",
        "instructions",
        "system",
        "user",
        "metadata",
        "safety_identifier",
    }
)
_UNPAID_APIS = frozenset({"count_tokens"})
_UNSENT = frozenset({"connect", "wrong_host"})
_GAVE_UP = frozenset({"timeout", "gateway_timeout", "aborted", "bad_json", "incomplete"})
"""Kinds of failure after which the model may have worked on, or did: at least the prompt was read."""


@dataclass(frozen=True, slots=True)
class _Cost:
    prompt: int
    completion: int
    high: int
    estimated: str | None


class Meter:
    """Writes the rows of one process to ``sink``; ``secret`` is kept out of every string in them."""

    def __init__(self, sink: Sink, *, run_id: str, secret: str = "", clock: Callable[[], float] = time.time) -> None:
        self._sink = sink
        self._run_id = run_id
        self._secret = secret
        self._clock = clock
        self._ticking = threading.Lock()
        self._latest_us = 0
        self.estimator = Estimator()

    def open(self, call: CallRecord, api: str, body: Mapping[str, Any], source: str) -> Attempt:
        """Journal the start of the call's next attempt, as costing anything from nothing to its most."""
        tag = call.tag
        model = str(body.get("model") or "")
        prompt, cap = self._bounds(api, model, body)
        row = Attempt(
            ts=self.now(),
            task_id=tag.task_id,
            strategy=tag.strategy,
            model=model,
            run_id=self._run_id,
            call_id=call.call_id,
            attempt=len(call.attempts),
            item_id=tag.item_id,
            repeat=tag.repeat,
            sample=tag.sample,
            role=tag.role,
            condition=tag.condition,
            estimated="interval" if prompt.high + cap else None,
            total_tokens_high=prompt.high + cap,
            parameters=effective_parameters(body),
            source=source,
        )
        self._sink.open(row)
        return row

    def end(
        self,
        call: CallRecord,
        row: Attempt,
        reading: Reading,
        *,
        api: str,
        body: Mapping[str, Any],
        latency_s: float,
    ) -> Attempt:
        """The attempt's row with what it cost, as far as that is known; ``close`` journals it."""
        cost = self._cost(row.model, api, body, reading)
        usage = reading.usage
        closed = replace(
            row,
            prompt_tokens=cost.prompt,
            completion_tokens=cost.completion,
            total_tokens=cost.prompt + cost.completion,
            total_tokens_high=cost.high,
            estimated=cost.estimated,
            latency_s=round(latency_s, 3),
            finish_reason=self._clean(reading.finish_reason),
            status="ok" if reading.error_kind is None else "error",
            error_kind=reading.error_kind,
            http_status=reading.http_status,
            cached_tokens=usage.cached if usage else None,
            reasoning_tokens=usage.reasoning if usage else None,
            response_model=self._clean(reading.model),
        )
        call.attempts.append(closed)
        if (
            usage
            and not reading.is_usage_partial
            and not usage.repaired
            and not usage.reasoning
            and reading.error_kind is None
        ):
            self.estimator.learn(row.model, reading.n_bytes, usage.completion)
        return closed

    def close(self, row: Attempt) -> None:
        """Journal the end of an attempt, once its reply is in the response store."""
        self._sink.close(row)

    def replayed(self, call: CallRecord, row: Attempt) -> None:
        """Journal a recorded attempt: it has no start of its own."""
        call.attempts.append(row)
        self._sink.close(row)

    def now(self) -> str:
        """Now, later than ever before in this process: which row was the last is known from the rows alone."""
        with self._ticking:
            self._latest_us = max(round(self._clock() * 1e6), self._latest_us + 1)
            return timestamp(self._latest_us / 1e6)

    @property
    def run_id(self) -> str:
        return self._run_id

    def _clean(self, text: str | None) -> str | None:
        return None if text is None else redact(text, self._secret)

    def _bounds(self, api: str, model: str, body: Mapping[str, Any]) -> tuple[Interval, int]:
        if not model or api in _UNPAID_APIS:  # a request that names no model buys no tokens
            return Interval(0, 0), 0
        cap = 0 if api == "embeddings" else completion_cap(body)
        return self.estimator.prompt(model, body), cap

    def _cost(self, model: str, api: str, body: Mapping[str, Any], reading: Reading) -> _Cost:
        if reading.usage is not None:
            usage = reading.usage
            if reading.is_usage_partial:
                return self._partial_cost(model, body, reading, usage)
            return _Cost(usage.prompt, usage.completion, usage.total, "repaired" if usage.repaired else None)
        if not model or api in _UNPAID_APIS or _is_free(reading):
            return _Cost(0, 0, 0, None)
        prompt, cap = self._bounds(api, model, body)
        text = self.estimator.text(model, reading.n_bytes)
        if reading.error_kind is None and (reading.has_output or api == "embeddings"):
            return _Cost(prompt.low, text.low, prompt.high + text.high, self.estimator.method(model))
        high = prompt.high + max(cap, text.low)
        has_begun = reading.error_kind == "reset" and reading.http_status is not None
        if reading.error_kind is None or reading.error_kind in _GAVE_UP or has_begun or reading.has_output:
            return _Cost(prompt.low, text.low, high, "interval")
        return _Cost(0, 0, high, "interval")

    def _partial_cost(self, model: str, body: Mapping[str, Any], reading: Reading, usage: Usage) -> _Cost:
        """Of a stream that broke off after it had told a part of its usage: the prompt is known, the end is not."""
        completion = max(usage.completion, self.estimator.text(model, reading.n_bytes).low)
        return _Cost(usage.prompt, completion, usage.prompt + max(completion, completion_cap(body)), "interval")


def _is_free(reading: Reading) -> bool:
    """Attempts that never reached a model: not sent, or turned away at the door."""
    status = reading.http_status
    if reading.error_kind in _UNSENT:
        return True
    return status is not None and ((300 <= status < 500 and status != 408) or status in (503, 529))


def effective_parameters(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request's parameters without any text of the prompt; structures stand as a short digest."""
    return {
        key: value if value is None or isinstance(value, str | int | float | bool) else _digest(value)
        for key, value in body.items()
        if key not in _PROMPT_KEYS
    }


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return "sha256:" + text_hash(text).hexdigest()[:12]


def timestamp(unix_time: float) -> str:
    """ISO 8601 in UTC, to the microsecond: ``2026-01-02T03:04:05.678901Z``."""
    return datetime.fromtimestamp(unix_time, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
