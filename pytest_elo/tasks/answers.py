"""The answer inside a free reply, when two answers are the same text, and the number an answer states.

The answer is what follows the last ``ANSWER:`` mark on its line (or after it, when that line is empty).
A mark is ``ANSWER:`` anywhere, or ``answer:`` / ``Final answer:`` in any case at the start of a line;
Markdown around it is ignored. A reply without a mark is answered by its last line that is not blank, or,
for checks that read the whole, by all of its text.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from pytest_elo.tasks.parsing import visible

__all__ = ["ANSWERS_VERSION", "Found", "canonical_number", "find_answer", "normalised", "read_number"]

ANSWERS_VERSION: Final = 1
"""Part of every own task's fingerprint: raise it with any change of the rules here."""

_MARK = re.compile(
    r"(?:^[ \t>*_#`-]{0,8}(?:(?i:the|my) )?(?:(?i:final) )?(?i:answer)|(?<![A-Za-z_])ANSWER)"
    r"[*_` \t]{0,4}[:\uff1a]",
    re.MULTILINE,
)
_MARKUP = " \t\r\n*`"
_QUOTES = "\"'\u2018\u2019\u201c\u201d"


@dataclass(frozen=True, slots=True)
class Found:
    """An answer and whether an ``ANSWER:`` mark stated it (else it was taken from the end or the whole)."""

    text: str
    stated: bool


def find_answer(text: str, *, whole: bool) -> Found | None:
    """The answer in a reply's text; ``None`` when there is nothing to read.

    ``whole`` says what stands for an answer without a mark: all of the text, or only its last line.
    """
    seen = visible(text)
    marks = list(_MARK.finditer(seen))
    if marks:
        after = seen[marks[-1].end() :]
        answer = after.partition("\n")[0].strip(_MARKUP) or after.strip(_MARKUP)
        return Found(answer, stated=True) if answer else None
    seen = seen.strip()
    unmarked = seen if whole else seen.rpartition("\n")[2].strip(_MARKUP)
    return Found(unmarked, stated=False) if unmarked else None


def normalised(answer: str) -> str:
    """The form in which answers are compared: NFKC, lower case (casefold), single spaces, without Markdown
    stars and backticks, quotes and a full stop around it."""
    folded = " ".join(unicodedata.normalize("NFKC", answer).casefold().split())
    bare = folded.strip(_MARKUP + _QUOTES).rstrip(".").strip(_MARKUP + _QUOTES)
    return bare or folded


_GROUPING_SPACE = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3})")
_SUPERSCRIPT_POWER = re.compile("10([\u207b\u207a]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]{1,3})")
_EQUALS = re.compile(r"[=\u2248]")
_NUMBER = re.compile(
    r"(?<![\w.,\u221a])(?<!\d:)(?<!\d/)(?P<sign>(?<![\w)])[-+])?[$\u20ac\u00a3]?"
    r"(?P<body>\d{1,3}(?:,\d{3}){1,20}(?:\.\d{1,60})?|\d{1,60}(?:\.\d{1,60})?|\.\d{1,60})"
    r"(?:[eE](?P<e>[-+]?\d{1,3})|\s?[x\u00d7*\u00b7]\s?10(?:\^|\*\*)\{?(?P<power>[-+]?\d{1,3})\}?"
    r"|\s?/\s?(?P<denominator>\d{1,60})(?!/))?"
    r"(?![\d]|[.,:/]\d|x[0-9a-fA-F]|\s?[\u03c0\u221a])"
)


@lru_cache(maxsize=8)  # grading reads an answer twice: for its key and for its score
def read_number(found: Found) -> Fraction | None:
    """The exact number an answer states, or ``None``.

    Read are signs, decimals with a point, thousands as ``1,234``, ``1.5e3``, ``1.5 x 10^3``, ``3/4`` and
    currency signs; units and ``%`` are ignored (``50%`` is 50). Digits inside a word, a time, a date, a
    version, a decimal comma or a product with a symbol (``H2O``, ``7:25``, ``1/2/2024``, ``1.2.3``, ``3,5``,
    ``14\u03c0``) are no number.

    Of several numbers the first after the last ``=`` counts; without ``=`` a stated answer's first,
    otherwise the last.
    """
    plain = _GROUPING_SPACE.sub("", found.text)
    plain = _SUPERSCRIPT_POWER.sub(r"10^\1", plain)
    plain = unicodedata.normalize("NFKC", plain).replace("\u2212", "-").replace("**", "^")
    result = _numbers(_EQUALS.split(plain)[-1])
    if result:
        equation = _EQUALS.search(plain) is not None
        return result[0] if found.stated or equation else result[-1]
    everywhere = _numbers(plain)
    return everywhere[-1] if everywhere else None


def _numbers(text: str) -> list[Fraction]:
    return [value for match in _NUMBER.finditer(text) if (value := _value(match)) is not None]


def _value(match: re.Match[str]) -> Fraction | None:
    value = Fraction((match["sign"] or "") + match["body"].replace(",", ""))
    if match["denominator"]:
        below = int(match["denominator"])
        return value / below if below else None
    return value * Fraction(10) ** int(match["e"] or match["power"] or 0)


def canonical_number(value: Fraction) -> str:
    """The one way to write a number: a plain decimal where it ends, else ``p/q``."""
    twos = fives = 0
    rest = value.denominator
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    places = max(twos, fives)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    sign = "-" if value < 0 else ""
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)
