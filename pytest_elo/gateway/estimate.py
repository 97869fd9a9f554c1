"""Offline token estimates as intervals, for attempts whose usage the gateway did not tell.

Without anything known about the model a token is taken as three bytes of UTF-8, good to a factor of two
either way: English prose runs at 4-5 bytes a token, Chinese at 1.5-4 (characters/4 was off by two on mixed
Chinese and code). Attempts that do have usage teach the model's own ratio, good to a quarter.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["UNCAPPED_COMPLETION_TOKENS", "Estimator", "Interval", "completion_cap", "prompt_bytes"]

UNCAPPED_COMPLETION_TOKENS = 4096
"""High end for a completion of which nothing is known, when the request set no cap."""

_BYTES_PER_TOKEN = 3.0
_FACTOR_UNKNOWN = 2.0
_FACTOR_LEARNT = 1.25
_ENOUGH_TOKENS = 2000
_TEMPLATE_TOKENS = 32
_MESSAGE_TOKENS = 8
_IMAGE_TOKENS = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    """An integer range of tokens, both ends included."""

    low: int
    high: int


class Estimator:
    """Tokens from bytes, by a ratio learnt per model from the attempts that did report usage."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def learn(self, model: str, n_bytes: int, n_tokens: int) -> None:
        """Add one completion whose text and token count are both known."""
        if n_bytes > 0 and n_tokens > 0:
            total_bytes, total_tokens = self._seen.get(model, (0, 0))
            self._seen[model] = (total_bytes + n_bytes, total_tokens + n_tokens)

    def method(self, model: str) -> str:
        """How tokens of ``model`` are estimated now: ``bytes/<ratio>``."""
        return f"bytes/{self._ratio(model)[0]:.3g}"

    def text(self, model: str, n_bytes: int) -> Interval:
        ratio, factor = self._ratio(model)
        return Interval(math.floor(n_bytes / ratio / factor), math.ceil(n_bytes / ratio * factor))

    def prompt(self, model: str, body: Mapping[str, object]) -> Interval:
        """The prompt of a request: its text, plus what templates, message frames and images may add."""
        n_bytes, n_messages, n_images = prompt_bytes(body)
        text = self.text(model, n_bytes)
        extra = _TEMPLATE_TOKENS + _MESSAGE_TOKENS * n_messages + _IMAGE_TOKENS * n_images
        return Interval(text.low, text.high + extra)

    def _ratio(self, model: str) -> tuple[float, float]:
        n_bytes, n_tokens = self._seen.get(model, (0, 0))
        if n_tokens < _ENOUGH_TOKENS:
            return _BYTES_PER_TOKEN, _FACTOR_UNKNOWN
        return n_bytes / n_tokens, _FACTOR_LEARNT


def prompt_bytes(body: Mapping[str, object]) -> tuple[int, int, int]:
    """(bytes of text, messages, images or other media) of a request body."""
    n_bytes = n_media = 0
    messages = body.get("messages")
    n_messages = len(messages) if isinstance(messages, list) else 1
    pending = [body.get(key) for key in ("messages", "input", "prompt", "instructions", "system")]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            n_bytes += len(part.encode("utf-8", "replace"))
        elif isinstance(part, list):
            pending.extend(part)
        elif isinstance(part, Mapping):
            if any(key in part for key in ("image_url", "input_audio", "file", "source")):
                n_media += 1
            else:
                pending.extend(value for key, value in part.items() if key not in ("role", "type", "id"))
    tools = body.get("tools")
    if tools:
        n_bytes += len(json.dumps(tools, ensure_ascii=False).encode("utf-8", "replace"))
    return n_bytes, n_messages, n_media


def completion_cap(body: Mapping[str, object]) -> int:
    """The most completion tokens one attempt of this request can be billed for, all choices together."""
    for key in ("max_completion_tokens", "max_tokens", "max_output_tokens"):
        cap = body.get(key)
        if isinstance(cap, int) and not isinstance(cap, bool) and cap > 0:
            break
    else:
        cap = UNCAPPED_COMPLETION_TOKENS
    n = body.get("n")
    return cap * (n if isinstance(n, int) and not isinstance(n, bool) and n > 1 else 1)
