"""A rubric: a judge model says what an answer fulfils. Its calls are no policy's and stand apart.

Two forms: a list of criteria, each met or not, where the score is the share met; or a text, on which the
answer is rated from 1 to 5, where the score is (rating - 1) / 4.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pytest_elo._text import shorten
from pytest_elo.records import Ask, Message
from pytest_elo.tasks.answers import Found, normalised
from pytest_elo.tasks.function_check import CheckError
from pytest_elo.tasks.yaml_file import Entry

__all__ = ["Judged", "Rubric"]

WORDING_VERSION: Final = 1
"""Part of the fingerprint: raise it with any change of what the judge is asked or how it is read."""

MAX_ASKINGS: Final = 2

_MET = re.compile(r"^[ \t>*_#-]{0,8}(\d{1,3})[*_` \t]{0,4}[:.)][*_` \t]{0,4}(YES|NO)\b", re.IGNORECASE | re.MULTILINE)
_RATING = re.compile(r"RATING[*_` \t]{0,4}:[*_` \t]{0,4}([1-5])(?![\d.])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Judged:
    """A judge's verdict: the score in [0, 1] and what it rests on."""

    score: float
    detail: str


class _Form(Protocol):
    def request(self) -> str: ...

    def read(self, text: str) -> Judged | None: ...


@dataclass(frozen=True, slots=True)
class _Criteria:
    criteria: tuple[str, ...]

    def request(self) -> str:
        listed = "\n".join(f"{number}. {text}" for number, text in enumerate(self.criteria, start=1))
        return (
            f"Criteria:\n{listed}\n\nFor each criterion write one line, <number>: YES if the answer fulfils it, "
            "<number>: NO if not. Write nothing else."
        )

    def read(self, text: str) -> Judged | None:
        met: Mapping[int, bool] = {int(number): said.upper() == "YES" for number, said in _MET.findall(text)}
        numbers = range(1, len(self.criteria) + 1)
        if any(number not in met for number in numbers):
            return None
        missed = [number for number in numbers if not met[number]]
        detail = f"criteria not met: {', '.join(map(str, missed))}" if missed else "all criteria are met"
        return Judged(1 - len(missed) / len(self.criteria), detail)


@dataclass(frozen=True, slots=True)
class _Scale:
    text: str

    def request(self) -> str:
        return (
            f"What counts:\n{self.text}\n\nRate the answer from 1 (fulfils nothing of it) to 5 (fulfils all of it). "
            "Reply with one line: RATING: <number>"
        )

    def read(self, text: str) -> Judged | None:
        found = _RATING.findall(text)
        return Judged((int(found[-1]) - 1) / 4, f"rated {found[-1]} of 5") if found else None


@dataclass(frozen=True, slots=True)
class Rubric:
    """The check ``rubric``: needs a model to grade, so ``score`` cannot be called without one."""

    form: _Criteria | _Scale
    judge: str | None = None
    """The model that judges; ``None``: the one named for the task, else the run's own."""
    whole = True
    expected = None

    @property
    def rule(self) -> Any:
        return [WORDING_VERSION, self.form.request(), self.judge]

    def key(self, answer: Found) -> Hashable | None:
        return normalised(answer.text) or None

    def score(self, answer: Found) -> float:
        raise CheckError("a rubric needs a judge model to grade")

    async def judged(self, ask: Ask, question: str, answer: Found, judge: str | None) -> Judged:
        """Ask the judge, once more where its verdict cannot be read. Raises ``CheckError`` if it stays so."""
        content = f"Grade an answer to a task.\n\nTask:\n{question}\n\nAnswer:\n{answer.text}\n\n{self.form.request()}"
        messages: list[Message] = [{"role": "user", "content": content}]
        options: dict[str, Any] = {"temperature": 0.0, "max_tokens": 256}
        if model := self.judge or judge:
            options["model"] = model
        said = ""
        for asking in range(MAX_ASKINGS):
            said = (await ask(messages, role="judge", sample=asking, **options)).text
            verdict = self.form.read(said)
            if verdict is not None:
                return verdict
        raise CheckError(f"the judge's verdict cannot be read: {shorten(said)!r}")

    @classmethod
    def build(cls, entry: Entry) -> Rubric:
        """``rubric: text``, ``rubric: [criterion, ...]``, or either as ``{criteria: ..., judge: model}``."""
        if not entry.is_mapping:
            return cls(_form(entry))
        fields = entry.known_fields(("criteria", "judge"))
        if "criteria" not in fields:
            raise entry.error("has no 'criteria'; write rubric: {criteria: ..., judge: <model>}")
        return cls(_form(fields["criteria"]), fields["judge"].text() if "judge" in fields else None)


def _form(entry: Entry) -> _Criteria | _Scale:
    return _Criteria(entry.texts()) if entry.is_list else _Scale(entry.text())
