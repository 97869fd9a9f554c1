"""One logical request and its attempts, without I/O.

The state machine that the sync and the async driver (``transport.py``) share: they ask whether they may
send, send, feed back what came, and are told what to do next. Metering, limits, negotiation, retries and
recordings meet here and nowhere else.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from pytest_elo.gateway.exchange import Again, Delivered, Exchange
from pytest_elo.gateway.negotiate import adapt, lesson
from pytest_elo.gateway.reading import Reading
from pytest_elo.gateway.replaying import MODELS_OWN_ERRORS
from pytest_elo.gateway.rules import Rules
from pytest_elo.records import Tag

__all__ = ["Call"]


class Call(Exchange):
    """One request of ``api`` with JSON ``body`` (empty for none), charged to ``tag`` with all its attempts.

    ``content`` is the body as the caller wrote it, ``key`` where the call is recorded, ``adaptations`` what
    the caller wants changed on the way (``stream``: ask for a stream and assemble it).
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
        adaptations: tuple[str, ...] = (),
    ) -> None:
        super().__init__(rules, tag, api=api, body=body, content=content, key=key)
        known = rules.negotiator.adaptations(self.model) if self.model else ()
        self._adaptations: tuple[str, ...] = tuple(dict.fromkeys((*adaptations, *known)))
        self._parts: list[Mapping[str, Any]] = []
        self._failures: Counter[str] = Counter()

    def answered(self) -> Delivered | Again:
        reading = self._read()
        self._require_asked_model(reading)
        self._close(reading)
        try:
            return self._next(reading)
        finally:
            self._book()

    def failed(self, kind: str) -> Again | Reading:
        reading = self._broken(kind)
        delay = self._retry_delay(reading)
        return reading if delay is None else Again(delay)

    def _outgoing(self) -> bytes:
        if not (self._adaptations or self._parts):
            return self._content
        self._effective = self._adapted()
        return json.dumps(self._effective).encode()

    def _next(self, reading: Reading) -> Delivered | Again:
        adaptation = lesson(reading, self._effective)
        if adaptation is not None and adaptation not in self._adaptations:
            self.rules.negotiator.learn(self.model, adaptation)
            self._adaptations = (*self._adaptations, adaptation)
            return Again(0.0)
        if reading.error_kind is not None:
            delay = self._retry_delay(reading)
            if delay is not None:
                return Again(delay)
            if reading.error_kind in MODELS_OWN_ERRORS:
                self._keep(reading, None)
            return self._delivered(reading, None)
        return self._complete(reading)

    def _complete(self, reading: Reading) -> Delivered | Again:
        body = reading.body
        if self._n_missing(reading) > 0:
            self.rules.negotiator.learn(self.model, "single_n")
            if "single_n" not in self._adaptations:
                self._adaptations = (*self._adaptations, "single_n")
            self._parts.append(body)
            return Again(0.0)
        merged = None
        if self._parts:
            merged = body = _merged([*self._parts, body])
        elif self._stream is not None:
            merged = body = reading.body
        if isinstance(body, Mapping):
            self._keep(reading, body)
        return self._delivered(reading, merged)

    def _n_missing(self, reading: Reading) -> int:
        """Choices still to be asked for one by one, because the gateway ignores ``n``."""
        n = self._requested.get("n")
        if self.api != "chat" or not isinstance(n, int) or n <= 1:
            return 0
        return n - reading.n_choices - sum(len(part["choices"]) for part in self._parts)

    def _adapted(self) -> dict[str, Any]:
        body = adapt(self._requested, self._adaptations)
        seed = body.get("seed")
        if self._parts and isinstance(seed, int):
            # the same seed again would bring the same choice again
            body["seed"] = seed + sum(len(part["choices"]) for part in self._parts)
        return body

    def _retry_delay(self, reading: Reading) -> float | None:
        sort = reading.error_kind if reading.error_kind in ("rate_limit", "connect") else "other"
        self._failures[sort] += 1
        return self.rules.retry.delay(
            reading.error_kind or "",
            failures=self._failures[sort],
            headers=self._headers,
            now=time.time(),
            time_left_s=self._time_left_s(),
            jitter=random.Random(f"{self.record.call_id}/{len(self.record.attempts)}").random(),
            unreached_s=self.rules.unreached_s,
        )

    def _delivered(self, reading: Reading, body: Mapping[str, Any] | None) -> Delivered:
        if body is None:
            return self._as_received(reading)
        content = json.dumps(body).encode()
        return Delivered(self._status, [("content-type", "application/json")], content, reading)


def _merged(parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    """One completion out of several single ones: choices in order, usage summed where it is numbers."""
    choices = [choice for part in parts for choice in part["choices"]]
    merged = {**parts[0], "choices": [{**choice, "index": i} for i, choice in enumerate(choices)]}
    usages = [part["usage"] for part in parts if isinstance(part.get("usage"), Mapping)]
    if len(usages) == len(parts):
        names = ("prompt_tokens", "completion_tokens", "total_tokens")
        merged["usage"] = {name: sum(int(usage.get(name) or 0) for usage in usages) for name in names}
    return merged
