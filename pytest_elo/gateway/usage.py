"""Token usage as gateways report it, folded into one shape and repaired by rule.

The rules: reasoning tokens are part of completion, cached tokens part of prompt, total is their sum; the
three Anthropic inputs add up. A report that breaks a rule is repaired and marked; one that says nothing
(absent, null, all zero though there is text) is ``None``, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Usage", "fold_usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one attempt; ``total == prompt + completion`` always holds."""

    prompt: int
    completion: int
    cached: int | None = None
    reasoning: int | None = None
    repaired: bool = False

    @property
    def total(self) -> int:
        return self.prompt + self.completion


def fold_usage(raw: object, *, has_text: bool) -> Usage | None:
    """Fold a ``usage`` object of any known API; ``has_text`` says whether the model generated anything.

    Returns ``None`` when the object holds no usable number.
    """
    if not isinstance(raw, Mapping):
        return None
    usage = _fold_anthropic(raw) if _is_anthropic(raw) else _fold_openai(raw)
    if usage is None or (usage.total == 0 and has_text):
        return None
    return usage


def _is_anthropic(raw: Mapping[str, object]) -> bool:
    return "input_tokens" in raw and "total_tokens" not in raw


def _fold_anthropic(raw: Mapping[str, object]) -> Usage | None:
    fresh, completion = _count(raw.get("input_tokens")), _count(raw.get("output_tokens"))
    if fresh is None and completion is None:
        return None
    read = _count(raw.get("cache_read_input_tokens"))
    written = _count(raw.get("cache_creation_input_tokens"))
    return Usage(
        prompt=(fresh or 0) + (read or 0) + (written or 0),
        completion=completion or 0,
        cached=read,
        repaired=fresh is None or completion is None,
    )


def _fold_openai(raw: Mapping[str, object]) -> Usage | None:
    reported = {name: _first(raw, name) for name in ("prompt", "completion", "total")}
    counts = {name: _count(value) for name, value in reported.items()}
    prompt, completion, total = counts["prompt"], counts["completion"], counts["total"]
    if prompt is None and completion is None and total is None:
        return None
    cached = _detail(raw, ("prompt_tokens_details", "input_tokens_details"), "cached_tokens")
    reasoning = _detail(raw, ("completion_tokens_details", "output_tokens_details"), "reasoning_tokens")
    if completion is None and total is not None and total == prompt:
        completion = 0  # embeddings report prompt and total only
        counts["completion"] = 0
    known_prompt, known_completion = _settle(prompt, completion, total, cached, reasoning)
    told = (prompt, counts["completion"], total)
    return Usage(
        prompt=known_prompt,
        completion=known_completion,
        cached=cached,
        reasoning=reasoning,
        repaired=told != (known_prompt, known_completion, known_prompt + known_completion)
        or any(not isinstance(value, int) for value in reported.values() if value is not None),
    )


def _settle(
    prompt: int | None, completion: int | None, total: int | None, cached: int | None, reasoning: int | None
) -> tuple[int, int]:
    """Prompt and completion tokens that the rules allow, from three numbers that may contradict."""
    if prompt is None:
        prompt = max((total or 0) - (completion or 0), 0)
    if completion is None:
        completion = max((total or 0) - prompt, 0)
    surplus = (total or 0) - prompt - completion
    if cached and (cached > prompt or surplus == cached):
        prompt += cached  # the prompt was reported without its cached part
        surplus -= cached
    if surplus > 0:
        completion += surplus  # thoughts left out of completion
    elif reasoning and reasoning > completion:
        completion += reasoning
    return prompt, completion


def _first(raw: Mapping[str, object], name: str) -> object:
    other = {"prompt": "input", "completion": "output"}.get(name, name)
    value = raw.get(f"{name}_tokens")
    return raw.get(f"{other}_tokens") if value is None else value


def _detail(raw: Mapping[str, object], groups: tuple[str, ...], name: str) -> int | None:
    for group in groups:
        details = raw.get(group)
        if isinstance(details, Mapping):
            return _count(details.get(name))
    return _count(raw.get(name))


def _count(value: object) -> int | None:
    """A token count from a number or a numeric string; ``None`` for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        value = value.strip()
        if not value.isdecimal():
            return None
        return int(value)
    if isinstance(value, int) and value >= 0:
        return value
    if isinstance(value, float) and value >= 0 and value.is_integer():
        return int(value)
    return None
