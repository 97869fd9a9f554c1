"""What a model's gateway refuses or ignores, learnt once per model and remembered.

An *adaptation* is a word: ``max_completion_tokens``, ``max_tokens``, ``fold_system``, ``single_n``,
``stream``, ``no_stream_options`` or ``drop:<parameter>``. A lesson is drawn from one refusal; the adapted
request is sent at once (its row stands in the ledger like any other), and later requests start adapted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.gateway.reading import Reading

__all__ = ["Negotiator", "adapt", "lesson"]

_DROPPABLE = (
    "temperature",
    "top_p",
    "seed",
    "logprobs",
    "top_logprobs",
    "presence_penalty",
    "frequency_penalty",
)
_REFUSALS = re.compile(
    r"unsupported|not support|n't support|unknown|unrecogni[sz]ed|not allowed|not permitted|unexpected|"
    r"only the default|deprecated|extra inputs|invalid_?\s?parameter|cannot be (?:used|set)"
)
_STREAM_ONLY = re.compile(
    r"only supports? stream|stream(?:ing)? (?:mode )?(?:is )?(?:required|only)|stream=true|"
    r"enable_thinking must be set to false for non-streaming"
)


class Negotiator:
    """The adaptations known per model. Handed to workers as ``snapshot()``, a plain string."""

    def __init__(self, snapshot: str = "") -> None:
        known = parse_json(snapshot) if snapshot else {}
        self._known: dict[str, tuple[str, ...]] = {model: tuple(words) for model, words in known.items()}

    def adaptations(self, model: str) -> tuple[str, ...]:
        return self._known.get(model, ())

    def learn(self, model: str, adaptation: str) -> None:
        known = self._known.get(model, ())
        if adaptation not in known:
            self._known[model] = tuple(sorted((*known, adaptation)))

    def snapshot(self) -> str:
        """All that is known, as JSON with sorted keys: the same knowledge gives the same string."""
        return json.dumps(self._known, sort_keys=True) if self._known else ""


def lesson(reading: Reading, body: Mapping[str, Any]) -> str | None:
    """The adaptation that may turn this refusal of ``body`` into an answer; ``None`` when there is none."""
    if reading.http_status not in (400, 422) or reading.error_kind not in ("bad_request", "bad_parameter"):
        return None
    words = f"{reading.code} {reading.message}".lower()
    refused = bool(_REFUSALS.search(words))
    if "stream_options" in words and "stream_options" in body:
        return "no_stream_options"
    if _STREAM_ONLY.search(words) and not body.get("stream"):
        return "stream"
    if "max_completion_tokens" in words and "max_completion_tokens" in body and refused:
        return "max_tokens"
    if "max_tokens" in words and "max_tokens" in body and refused:
        return "max_completion_tokens"
    if refused and _names(words, "system|developer") and _has_system(body.get("messages")):
        return "fold_system"
    if refused and isinstance(body.get("n"), int) and body["n"] > 1 and _names(words, "n"):
        return "single_n"
    for parameter in _DROPPABLE:
        if refused and parameter in body and _names(words, parameter):
            return f"drop:{parameter}"
    return None


def _names(words: str, pattern: str) -> bool:
    return re.search(rf"(?<![\w.])(?:{pattern})(?!\w)", words) is not None


def adapt(body: Mapping[str, Any], adaptations: Iterable[str]) -> dict[str, Any]:
    """A copy of the request ``body`` with the adaptations applied."""
    adapted = dict(body)
    for adaptation in adaptations:
        if adaptation == "max_completion_tokens" and "max_tokens" in adapted:
            adapted["max_completion_tokens"] = adapted.pop("max_tokens")
        elif adaptation == "max_tokens" and "max_completion_tokens" in adapted:
            adapted["max_tokens"] = adapted.pop("max_completion_tokens")
        elif adaptation == "fold_system" and isinstance(adapted.get("messages"), list):
            adapted["messages"] = _fold_system(adapted["messages"])
        elif adaptation == "single_n":
            adapted.pop("n", None)
        elif adaptation == "stream":
            adapted["stream"] = True
            adapted["stream_options"] = {"include_usage": True}
        elif adaptation.startswith("drop:"):
            adapted.pop(adaptation.removeprefix("drop:"), None)
    if "no_stream_options" in adaptations:
        adapted.pop("stream_options", None)
    return adapted


def _has_system(messages: object) -> bool:
    return isinstance(messages, list) and any(_is_system(message) for message in messages)


def _is_system(message: object) -> bool:
    return isinstance(message, Mapping) and message.get("role") in ("system", "developer")


def _fold_system(messages: Sequence[Any]) -> list[Any]:
    """The system text, put before the first user message's own text."""
    system = [message["content"] for message in messages if _is_system(message)]
    text = "\n\n".join(part for part in system if isinstance(part, str))
    rest = [message for message in messages if not _is_system(message)]
    for index, message in enumerate(rest):
        if text and message.get("role") == "user":
            rest[index] = {**message, "content": _prepend(text, message.get("content"))}
            return rest
    return [{"role": "user", "content": text}, *rest] if text else rest


def _prepend(text: str, content: object) -> object:
    if isinstance(content, list):
        return [{"type": "text", "text": text}, *content]
    return f"{text}\n\n{content or ''}"
