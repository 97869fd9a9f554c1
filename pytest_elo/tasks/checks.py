"""The ways an own task can check an answer: one small class each, registered in ``CHECKS``.

A new kind is a class with the members of :class:`Check` and an entry in ``CHECKS`` that builds it from the
value the user wrote.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Protocol

from pytest_elo.tasks.answers import Found, canonical_number, normalised, read_number
from pytest_elo.tasks.function_check import Function
from pytest_elo.tasks.rubric import Rubric
from pytest_elo.tasks.schema_check import Schema
from pytest_elo.tasks.yaml_file import Entry

__all__ = ["CHECKS", "Check", "Contains", "Exact", "Function", "Numeric", "Regex", "Rubric", "Schema"]


class Check(Protocol):
    """How one item's answer is judged."""

    @property
    def whole(self) -> bool:
        """Whether a reply without an ``ANSWER:`` mark is read whole (else only its last line)."""
        ...

    @property
    def expected(self) -> str | None:
        """What the report shows as expected; ``None`` when there is no single text."""
        ...

    @property
    def rule(self) -> Any:
        """Everything that decides the score, as JSON: part of the task's fingerprint."""
        ...

    def key(self, answer: Found) -> Hashable | None:
        """What makes two answers the same when votes are counted; it never looks at what is expected."""
        ...

    def score(self, answer: Found) -> float:
        """0 to 1. Raises ``CheckError`` when the check itself fails."""
        ...


class _TextKey:
    __slots__ = ()

    def key(self, answer: Found) -> Hashable | None:
        return normalised(answer.text) or None


@dataclass(frozen=True, slots=True)
class Exact(_TextKey):
    """The answer is one of the accepted texts after normalisation (case, spaces, quotes, a full stop)."""

    accepted: tuple[str, ...]
    whole = False

    @property
    def expected(self) -> str:
        return self.accepted[0]

    @property
    def rule(self) -> Any:
        return self.accepted

    def score(self, answer: Found) -> float:
        return float(normalised(answer.text) in map(normalised, self.accepted))

    @classmethod
    def build(cls, entry: Entry) -> Exact:
        return cls(entry.texts())


@dataclass(frozen=True, slots=True)
class Contains(_TextKey):
    """The answer contains every given text after normalisation; with ``partial`` the share found counts."""

    needles: tuple[str, ...]
    partial: bool = False
    whole = True

    @property
    def expected(self) -> str:
        return " and ".join(self.needles)

    @property
    def rule(self) -> Any:
        return [self.needles, "share"] if self.partial else self.needles

    def score(self, answer: Found) -> float:
        text = normalised(answer.text)
        found = sum(normalised(needle) in text for needle in self.needles)
        return found / len(self.needles) if self.partial else float(found == len(self.needles))

    @classmethod
    def build(cls, entry: Entry) -> Contains:
        """``contains: text``, ``contains: [text, ...]``, or ``contains: {share: [text, ...]}`` for a partial score."""
        if not entry.is_mapping:
            return cls(entry.texts())
        fields = entry.known_fields(("share",))
        if "share" not in fields:
            raise entry.error("has no 'share'; write contains: {share: [text, ...]}")
        return cls(fields["share"].texts(), partial=True)


@dataclass(frozen=True, slots=True)
class Regex(_TextKey):
    """A Python regular expression is found in the answer as written (flags go inside: ``(?i)``)."""

    pattern: re.Pattern[str]
    whole = True

    @property
    def expected(self) -> str:
        return self.pattern.pattern

    @property
    def rule(self) -> Any:
        return self.pattern.pattern

    def score(self, answer: Found) -> float:
        return float(self.pattern.search(answer.text) is not None)

    @classmethod
    def build(cls, entry: Entry) -> Regex:
        text = entry.text()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", FutureWarning)  # it would mean something else in a later Python
                return cls(re.compile(text))
        except re.error as error:
            at = "" if error.pos is None else f" at character {error.pos + 1}"
            raise entry.error(f"not a regular expression: {' '.join(error.msg.split())}{at}") from None
        except (OverflowError, FutureWarning, RecursionError) as error:
            raise entry.error(f"not a regular expression that can be relied on: {error}") from None


@dataclass(frozen=True, slots=True)
class Numeric:
    """The number stated differs from ``value`` by at most ``tolerance`` (absolute, in the value's unit)."""

    value: Fraction
    tolerance: Fraction
    whole = False

    @property
    def expected(self) -> str:
        spread = f" ± {canonical_number(self.tolerance)}" if self.tolerance else ""
        return canonical_number(self.value) + spread

    @property
    def rule(self) -> Any:
        return [str(self.value), str(self.tolerance)]

    def key(self, answer: Found) -> Hashable | None:
        number = read_number(answer)
        return None if number is None else canonical_number(number)

    def score(self, answer: Found) -> float:
        number = read_number(answer)
        return float(number is not None and abs(number - self.value) <= self.tolerance)

    @classmethod
    def build(cls, entry: Entry) -> Numeric:
        """``numeric: 12.5``, or ``numeric: {value: 12.5, tolerance: 0.1}``; ``tolerance: 2%`` is relative."""
        if not entry.is_mapping:
            return cls(_number(entry), Fraction(0))
        fields = entry.known_fields(("value", "tolerance"))
        if "value" not in fields:
            raise entry.error("has no 'value'; write numeric: {value: ..., tolerance: ...}")
        value = _number(fields["value"])
        if "tolerance" not in fields:
            return cls(value, Fraction(0))
        return cls(value, _tolerance(fields["tolerance"], value))


_PLAIN_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,60}(?:\.[0-9]{0,60})?|\.[0-9]{1,60})(?:[eE][-+]?[0-9]{1,3})?")


def _number(entry: Entry) -> Fraction:
    text = entry.text()
    if not _PLAIN_NUMBER.fullmatch(text):
        raise entry.error(f"is {text!r}; use a number such as 12.5 or 3e8")
    return Fraction(text)


def _tolerance(entry: Entry, value: Fraction) -> Fraction:
    text = entry.text()
    number = text.removesuffix("%").rstrip()
    if not _PLAIN_NUMBER.fullmatch(number) or Fraction(number) < 0:
        raise entry.error(f"is {text!r}; use a number of at least 0, or a share of the value such as 2%")
    return abs(value) * Fraction(number) / 100 if text.endswith("%") else Fraction(number)


CHECKS: Final[Mapping[str, Callable[[Entry], Check]]] = {
    "exact": Exact.build,
    "contains": Contains.build,
    "regex": Regex.build,
    "numeric": Numeric.build,
    "function": Function.build,
    "schema": Schema.build,
    "rubric": Rubric.build,
}
"""Builders by the key a user writes. Each raises ``DataError`` for a value it cannot use."""
