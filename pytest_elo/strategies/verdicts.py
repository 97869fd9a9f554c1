"""A model's verdicts on candidates: a score each, the better of two, the best of several.

Used by strategies to select and to prune, with role ``select``: what they cost is charged to the policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_elo.records import Ask, Problem
from pytest_elo.strategies.prompts import question_of, read_letter, read_number
from pytest_elo.strategies.samples import all_of

__all__ = ["Critic", "Verdict"]

SCORE = "Rate it from 1 (certainly wrong) to 10 (certainly right). Reply with one line: SCORE: <number>"
COMPARE = "Which one is better? Reply with one line: BEST: A or BEST: B"
PICK = "Which one is best? Reply with one line: BEST: <number>"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one call said about candidates (by position); ``value`` is ``None`` when it cannot be read.

    A score from 1 to 10 where one candidate was rated, else the position of the best.
    """

    call_id: str
    about: tuple[int, ...]
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Critic:
    """Asks for verdicts on one item's candidates."""

    problem: Problem
    ask: Ask
    noun: str = "answer"
    """What the candidates are."""
    rubric: str = ""
    model: str | None = None
    max_tokens: int = 64
    temperature: float = 0.0
    _options: dict[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        options: dict[str, Any] = {"role": "select", "max_tokens": self.max_tokens, "temperature": self.temperature}
        if self.model is not None:
            options["model"] = self.model
        object.__setattr__(self, "_options", options)

    async def rate(self, texts: Sequence[str]) -> list[Verdict]:
        """A score for each, one call each, all at once."""
        return await all_of(self._rate(i, text) for i, text in enumerate(texts))

    async def _rate(self, i: int, text: str) -> Verdict:
        said, call_id = await self._say(f"{self.noun.capitalize()}:\n{text}", SCORE, sample=i)
        return Verdict(call_id, (i,), read_number(said, 1, 10))

    async def compare(self, texts: Sequence[str], shown_first: int, shown_second: int) -> Verdict:
        """The better of two candidates, in the order in which they are shown."""
        shown = "\n\n".join(
            f"{self.noun.capitalize()} {letter}:\n{texts[i]}" for letter, i in (("A", shown_first), ("B", shown_second))
        )
        said, call_id = await self._say(shown, COMPARE, sample=0)
        best = {"A": shown_first, "B": shown_second, None: None}[read_letter(said)]
        return Verdict(call_id, (shown_first, shown_second), best)

    async def pick(self, texts: Sequence[str], vote: int = 0) -> Verdict:
        """The best of all, in one call; ``vote`` numbers independent verdicts on the same candidates."""
        shown = "\n\n".join(f"{self.noun.capitalize()} {i}:\n{text}" for i, text in enumerate(texts, start=1))
        said, call_id = await self._say(shown, PICK, sample=vote)
        number = read_number(said, 1, len(texts))
        return Verdict(call_id, tuple(range(len(texts))), None if number is None else int(number) - 1)

    async def _say(self, shown: str, request: str, sample: int) -> tuple[str, str]:
        parts = [f"Question:\n{question_of(self.problem)}", shown]
        if self.rubric:
            parts.append(f"What counts:\n{self.rubric.strip()}")
        content = "\n\n".join([*parts, request])
        reply = await self.ask([{"role": "user", "content": content}], sample=sample, **self._options)
        return reply.text, reply.call_id
