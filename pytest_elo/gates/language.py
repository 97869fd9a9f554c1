"""The language of gates: one line of text to one frozen record, or one error that points at its column.

::

    gate      = scope? metric (">=" | ">" | "<=" | "<") number "%"? tail
              | scope? ("not_worse_than" | "better_than") run ("by" number ("points" | "elo"))? tail
              | "verdict" "(" strategy ")" ("==" | "!=") code tail
    tail      = ("at" number "%")? "strict"?
    scope     = strategy | task | task "/" strategy                     (none: the whole run)
    run       = name of a stored baseline | path of a run directory or baseline file

Names with spaces or signs stand in double quotes. Which names exist is known only to a run, so they are
resolved when the gate is judged (``scope.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from pytest_elo._text import did_you_mean
from pytest_elo.errors import ConfigError
from pytest_elo.gates.metrics import METRICS, Metric

__all__ = ["AgainstRun", "Gate", "Operator", "Relation", "Threshold", "VerdictIs", "parse"]

Operator = Literal[">=", ">", "<=", "<"]
Relation = Literal["not_worse_than", "better_than"]
MarginUnit = Literal["points", "elo"]

RELATIONS: tuple[str, ...] = get_args(Relation)
OPERATORS: tuple[str, ...] = get_args(Operator)
VERDICTS = ("HARMFUL", "PLATEAU", "DECAY", "CONTINUE", "UNDECIDED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A measured number against a fixed one; on the point, or on the interval at ``level``."""

    text: str
    scope: str
    metric: Metric
    operator: Operator
    value: float
    level: float | None
    strict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstRun:
    """This run against a stored one, paired on items, by a one-sided test at ``level``."""

    text: str
    scope: str
    relation: Relation
    reference: str
    margin: float | None
    """in ``unit``; ``None`` asks for evidence of any difference"""
    unit: MarginUnit
    level: float
    strict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictIs:
    """The verdict of the ladder that holds ``scope``."""

    text: str
    scope: str
    code: str
    negated: bool
    strict: bool


Gate = Threshold | AgainstRun | VerdictIs

DEFAULT_LEVEL = 0.95

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<quoted>"[^"]*")
    | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?=[\s%()<>=!]|$)
    | (?P<sign>>=|<=|==|!=|[<>()%])
    | (?P<name>[^\s"()<>=!%]+)
    | (?P<bad>\S)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    """``name``, ``number``, ``sign`` or ``end``"""
    text: str
    column: int
    """1-based"""
    quoted: bool = False


def parse(text: str, where: str) -> Gate:
    """The gate that ``text`` says.

    Raises ``ConfigError`` naming ``where`` it stands (an option or a key of a file), the column, what was
    expected and the closest known word.
    """
    return _Parser(text, where).gate()


class _Parser:
    def __init__(self, text: str, where: str) -> None:
        self._text = " ".join(text.split())
        self._where = where
        self._tokens = list(self._scan())
        self._position = 0

    def gate(self) -> Gate:
        first, second = self._peek(), self._peek(1)
        if first.kind == "end":
            raise self._error(first, "is empty; write a gate such as 'r3 score >= 0.45'")
        if first.text == "verdict" and second.text == "(":
            return self._verdict()
        scope = "" if self._starts_statement(first, second) else self._name("a strategy, a task or task/strategy")
        word = self._take()
        if word.text in METRICS and word.kind == "name":
            return self._threshold(scope, METRICS[word.text])
        if word.text in RELATIONS and word.kind == "name":
            return self._against_run(scope, word)
        wrong = first if word.text in OPERATORS else word
        known = [*METRICS, *RELATIONS]
        if wrong.kind == "name":
            raise self._error(wrong, f"{wrong.text!r} is no metric{_suggest(wrong.text, known)}")
        raise self._error(wrong, f"expected one of {', '.join(known)}")

    def _starts_statement(self, first: _Token, second: _Token) -> bool:
        if first.quoted or first.kind != "name":
            return False
        if first.text in METRICS or first.text in RELATIONS:
            # A strategy may be called like a metric: then another statement word follows it.
            return second.text not in METRICS and second.text not in RELATIONS
        return second.text in OPERATORS

    def _threshold(self, scope: str, metric: Metric) -> Threshold:
        sign = self._take()
        if sign.text not in OPERATORS:
            if sign.text in ("==", "!="):
                raise self._error(sign, "a measured number is never exactly another; use >=, >, <= or <")
            raise self._error(sign, f"expected >=, >, <= or < after {metric.name!r}")
        value = self._value(metric)
        level, strict = self._tail()
        return Threshold(
            text=self._text,
            scope=scope,
            metric=metric,
            operator=sign.text,  # type: ignore[arg-type]
            value=value,
            level=level,
            strict=strict,
        )

    def _value(self, metric: Metric) -> float:
        number, value = self._number()
        percent = self._skip("%")
        if metric.unit != "share":
            if percent:
                raise self._error(number, f"{metric.name} is measured in {metric.unit}, not in percent")
            return value
        share = value / 100 if percent else value
        if not 0 <= share <= 1:
            raise self._error(number, f"{metric.name} is a share: write {value:g}% or a number from 0 to 1")
        return share

    def _against_run(self, scope: str, word: _Token) -> AgainstRun:
        reference = self._name("the name of a stored baseline such as main, or a run directory")
        margin, unit = self._margin(word)
        level, strict = self._tail()
        return AgainstRun(
            text=self._text,
            scope=scope,
            relation=word.text,  # type: ignore[arg-type]
            reference=reference,
            margin=margin,
            unit=unit,
            level=DEFAULT_LEVEL if level is None else level,
            strict=strict,
        )

    def _margin(self, word: _Token) -> tuple[float | None, MarginUnit]:
        if not self._skip("by"):
            return None, "points"
        number, margin = self._number()
        if margin <= 0:
            raise self._error(number, "a margin is above 0; leave 'by' out to ask for any difference")
        unit = self._take()
        if unit.text not in get_args(MarginUnit):
            raise self._error(unit, f"expected 'points' or 'elo' after {number.text}")
        if unit.text == "points" and margin > 100:
            raise self._error(number, "a score has 100 points")
        return margin, unit.text  # type: ignore[return-value]

    def _verdict(self) -> VerdictIs:
        self._take(), self._take()
        scope = self._name("a strategy of a ladder")
        closing = self._take()
        if closing.text != ")":
            raise self._error(closing, "expected ')'")
        sign = self._take()
        if sign.text not in ("==", "!="):
            raise self._error(sign, "expected == or != after verdict(...)")
        code = self._take()
        if code.text not in VERDICTS:
            raise self._error(code, f"{code.text!r} is no verdict{_suggest(code.text, VERDICTS)}")
        level, strict = self._tail()
        if level is not None:
            raise self._error(code, "a verdict has its own level (90 %); leave 'at' out")
        return VerdictIs(text=self._text, scope=scope, code=code.text, negated=sign.text == "!=", strict=strict)

    def _tail(self) -> tuple[float | None, bool]:
        level = self._level() if self._skip("at") else None
        strict = self._skip("strict")
        extra = self._peek()
        if extra.kind != "end":
            known = ["at", "by", "strict"]
            raise self._error(extra, f"did not expect {extra.text!r}{_suggest(extra.text, known)}")
        return level, strict

    def _level(self) -> float:
        number, percent = self._number()
        if not self._skip("%") or not 50 < percent < 100:
            raise self._error(number, "a level is a percentage above 50 and below 100, such as 95%")
        return percent / 100

    def _number(self) -> tuple[_Token, float]:
        token = self._take()
        if token.kind != "number":
            raise self._error(token, "expected a number")
        return token, float(token.text)

    def _name(self, expected: str) -> str:
        token = self._take()
        if token.kind not in ("name", "number") or not token.text:
            raise self._error(token, f"expected {expected}")
        return token.text

    def _skip(self, text: str) -> bool:
        found = self._peek().text == text and not self._peek().quoted
        self._position += found
        return found

    def _take(self) -> _Token:
        token = self._peek()
        self._position += 1
        return token

    def _peek(self, ahead: int = 0) -> _Token:
        return self._tokens[min(self._position + ahead, len(self._tokens) - 1)]

    def _scan(self) -> Iterator[_Token]:
        for match in _TOKEN.finditer(self._text):
            kind = str(match.lastgroup)
            text, column = match.group(kind), match.start(kind) + 1
            if kind == "bad":
                raise self._error(_Token("bad", text, column), f"did not expect {text!r}")
            if kind == "quoted":
                yield _Token("name", text[1:-1], column, quoted=True)
            else:
                yield _Token(kind, text, column)
        yield _Token("end", "", len(self._text) + 1)

    def _error(self, token: _Token, problem: str) -> ConfigError:
        found = "" if token.kind != "end" or not self._text else ", but the gate ends here"
        return ConfigError(f"{self._where}: gate {self._text!r}, column {token.column}: {problem}{found}")


def _suggest(word: str, known: list[str] | tuple[str, ...]) -> str:
    return did_you_mean(word, known) or f"; known: {', '.join(known)}"
