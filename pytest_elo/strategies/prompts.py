"""What strategies add to a task's own prompt, and how the model's verdicts are read.

Wordings are part of a strategy's definition: a changed word is another strategy, and its recordings are void.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_elo.records import Message, Problem
from pytest_elo.tasks.parsing import visible

__all__ = ["finds_nothing", "question_of", "read_letter", "read_number", "with_note"]

_VERDICT = re.compile(r"VERDICT[*_` \t]{0,4}:[*_` \t]{0,4}(OK|REVISE)\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?:SCORE|BEST)[*_` \t]{0,4}:[*_` \t]{0,4}(\d{1,3}(?:\.\d{1,3})?)", re.IGNORECASE)
_LETTER = re.compile(r"BEST[*_` \t]{0,4}:[*_` \t]{0,4}(?:answer[ \t])?([AB])\b", re.IGNORECASE)


def question_of(problem: Problem) -> str:
    """What the item asks, for a judge: the text of the last user message, without worked examples."""
    asked = [message for message in problem.messages if message.get("role") == "user"]
    return _text(asked[-1].get("content")) if asked else ""


def with_note(messages: Sequence[Message], note: str) -> list[Message]:
    """The conversation with a note at the end of its last message."""
    *before, last = messages
    content = last.get("content")
    if isinstance(content, str):
        return [*before, {**last, "content": f"{content}\n\n{note}"}]
    return [*before, {**last, "content": [*(content or ()), {"type": "text", "text": note}]}]


def finds_nothing(critique: str) -> bool:
    """Whether a critique ends in ``VERDICT: OK``; one without a verdict found something."""
    verdicts = _VERDICT.findall(visible(critique))
    return bool(verdicts) and verdicts[-1].upper() == "OK"


def read_number(text: str, low: float, high: float) -> float | None:
    """The last ``SCORE: n`` or ``BEST: n`` within bounds; ``None`` when there is none."""
    numbers = _NUMBER.findall(visible(text))
    if not numbers or not low <= float(numbers[-1]) <= high:
        return None
    return float(numbers[-1])


def read_letter(text: str) -> str | None:
    """The last ``BEST: A`` or ``BEST: B``."""
    letters = _LETTER.findall(visible(text))
    return letters[-1].upper() if letters else None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [part.get("text", "") for part in content or () if isinstance(part, Mapping)]
    return "\n".join(part for part in parts if part)
