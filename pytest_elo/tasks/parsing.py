"""What a reply answered: reasoning removed, the chosen letter read, or the reason why there is none.

Every pattern has bounded repetitions, so reading is linear in the length of the reply.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final

from pytest_elo.records import Reply

__all__ = [
    "LETTERS",
    "PARSERS",
    "PARSING_VERSION",
    "lenient_letter",
    "strict_letter",
    "unanswered",
    "visible",
]

PARSING_VERSION: Final = 1
"""Part of every task's fingerprint: raise it with any change of what a reply is taken to say."""

LETTERS: Final = "ABCD"

_THINK_TAG = re.compile(r"(</?think>)")

_STRICT = re.compile(r"ANSWER: ([A-D])")

_OPENER = r"(?:[^\S\n]|[*_`$(\[{\"]|\\(?:boxed|text|textbf|mathrm|mathbf)(?![a-zA-Z])){0,24}"
_CLOSER = r"(?:[^\S\n]|[*_`$)\]}\".]){0,12}"
_OPTION = rf"(?:(?i:option|choice)\b{_OPENER})?"
_ALONE = r"(?![A-Za-z0-9'\u2019])"
_OR = r"(?:,|/|&|(?i:or|and)\b)"
_RIVAL = rf"{_CLOSER}{_OR}{_OPENER}(?:{_OR}{_OPENER})?{_OPTION}[A-D]{_ALONE}"
_DECLARATION = re.compile(
    rf"(?i:answer){_OPENER}(?::|=|(?i:is)\b){_OPENER}{_OPTION}(?P<stated>[A-D]){_ALONE}(?P<rival>{_RIVAL})?"
    r"|^[^\S\n]{0,8}(?i:answer)[^\S\n]{0,8}:[^\S\n]{0,8}(?P<line>[a-d])[^\S\n]{0,8}$"
    rf"|\\boxed\{{(?:\\text\{{)?\s{{0,4}}(?P<boxed>[A-D])\s{{0,4}}\}}(?P<boxed_rival>{_RIVAL})?",
    re.MULTILINE,
)
_BARE_LETTER = re.compile(rf"{_OPENER}([A-D]){_CLOSER}")

_REFUSAL = re.compile(
    r"(?:i'm sorry|i am sorry|sorry|i apologi[sz]e)?[,.]?\s{0,4}(?:but )?"
    r"(?:i (?:can'?t|cannot|can not|won't|will not)|i(?: am|'m) (?:unable|not able) to)\s"
    r"(?:help|assist|answer|provide|comply|discuss|fulfil|support|respond|engage)",
    re.IGNORECASE,
)


def visible(text: str) -> str:
    """``text`` without ``<think>`` blocks.

    A ``</think>`` that nothing opened ends reasoning that began before the text, so only what follows it
    stays; a ``<think>`` that nothing closes hides all the rest.
    """
    kept: list[str] = []
    thinking = False
    for piece in _THINK_TAG.split(text):
        if piece == "<think>":
            thinking = True
        elif piece == "</think>":
            if not thinking:
                kept.clear()
            thinking = False
        elif not thinking:
            kept.append(piece)
    return "".join(kept)


def strict_letter(text: str) -> str | None:
    """The letter of a text that ends in ``ANSWER: X``: exact case, one space, only white space after it."""
    found = _STRICT.fullmatch(visible(text).rstrip()[-len("ANSWER: X") :])
    return found[1] if found else None


def lenient_letter(text: str) -> str | None:
    """The letter of the last declaration (``Answer: **C**``, ``\\boxed{C}``, ``the answer is (C)``, ...).

    Without a declaration, a last line that holds nothing but a letter. Two letters (``C or D``) are no
    answer, nor is a lower-case letter in prose ("the answer is a small shift").
    """
    readable = unicodedata.normalize("NFKC", visible(text)).rstrip()
    last = None
    for last in _DECLARATION.finditer(readable):  # noqa: B007 - only the last declaration counts
        pass
    if last is not None:
        if last["rival"] or last["boxed_rival"]:
            return None
        return (last["stated"] or last["line"] or last["boxed"]).upper()
    bare = _BARE_LETTER.fullmatch(readable.rpartition("\n")[2])
    return bare[1] if bare else None


PARSERS: Final[Mapping[str, Callable[[str], str | None]]] = {
    "strict": strict_letter,
    "lenient": lenient_letter,
}


def unanswered(reply: Reply) -> str:
    """Why a reply holds no answer, as a status: what the gateway says first, then what the text shows."""
    if reply.finish_reason == "content_filter":
        return "filtered"
    if reply.refusal:
        return "refused"
    if reply.finish_reason == "length":
        return "truncated"
    if not reply.text.strip():
        return "empty"
    if _REFUSAL.match(visible(reply.text).lstrip()[:200].replace("\u2019", "'")):
        return "refused"
    return "no_answer"
