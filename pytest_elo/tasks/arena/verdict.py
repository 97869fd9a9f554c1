"""Reading a judge's verdict, and what two verdicts in swapped order are worth together.

A verdict names the *slot* of the better answer (``A``: shown first, ``B``: shown second, ``C``: neither).
It becomes a result for a policy only when a second verdict, with the slots swapped, is laid beside it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from pytest_elo.records import Reply
from pytest_elo.tasks.parsing import visible

__all__ = [
    "Reading",
    "Settlement",
    "Slot",
    "mask_verdicts",
    "panel_majority",
    "read_verdict",
    "settle_orders",
]

Slot = Literal["A", "B", "C"]

_LABELS: dict[str, Slot] = {
    "A": "A",
    "B": "B",
    "C": "C",
    "TIE": "C",
    "A>B": "A",
    "A>>B": "A",
    "B>A": "B",
    "B>>A": "B",
    "A=B": "C",
    "B=A": "C",
}
_LABEL = r"(?:A\s{0,8}>{1,2}\s{0,8}B|B\s{0,8}>{1,2}\s{0,8}A|A\s{0,8}=\s{0,8}B|B\s{0,8}=\s{0,8}A|TIE|[ABC])"
_DECLARED = re.compile(
    rf"\[\s{{0,8}}\[\s{{0,8}}\*{{0,3}}\s{{0,8}}({_LABEL})\s{{0,8}}\*{{0,3}}\s{{0,8}}\]\s{{0,8}}\]", re.IGNORECASE
)
_LONGEST_GAP = 40
_MENU_GAP = re.compile(r"""[\s"'`*,;:/|()\-]*(?:or|and)?[\s"'`*,;:/|()\-]*""", re.IGNORECASE)
_CONDITION = re.compile(r"""[\s"'`*]{0,8}if\b""", re.IGNORECASE)
_BARE = re.compile(
    r"(?:(?:my\s+|the\s+|final\s+)*(?:verdict|answer|winner|choice|preference|judge?ment|output|better)"
    r"\s*(?::|=|-|is)\s*)?"
    r"(?:(?:assistant|answer|response|option|slot)\s+)?"
    rf"({_LABEL})(?:\s+(?:is\s+better|wins))?",
    re.IGNORECASE,
)
_DECORATION = " \t*_`\"'().:[]#>"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a judge's reply says: a slot, or ``None`` with the reason why it says nothing.

    ``reason`` is ``declared``, ``bare``, ``unparsable``, ``truncated``, ``empty`` or ``refused``.
    """

    slot: Slot | None
    reason: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a pair judged in both orders is worth: the share won by the policy shown first in order 1.

    ``status`` is ``consistent``, ``inconsistent`` (a tie) or ``incomplete`` (``share`` is ``None``).
    """

    status: Literal["consistent", "inconsistent", "incomplete"]
    share: float | None


def read_verdict(reply: Reply) -> Reading:
    """The last verdict that the judge itself declares.

    ``[[A]]``, ``[[B]]``, ``[[C]]`` in either case; without any, a last line that is nothing but a letter
    (``B``, ``Verdict: a``). Reasoning blocks, the menu of labels quoted from the prompt
    (``[[A]], [[B]] or [[C]]``) and conditions (``[[A]] if ...``) declare nothing. A reply cut by the token
    cap counts only when it ends with its verdict: anything after it may have been a change of mind.
    """
    if reply.refusal:
        return Reading(None, "refused")
    text = visible(reply.text).strip()
    if not text:
        return Reading(None, "truncated" if reply.finish_reason == "length" else "empty")
    declared = _declarations(text)
    last_line = text.splitlines()[-1].strip(_DECORATION)
    bare = _BARE.fullmatch(last_line)
    if reply.finish_reason == "length":
        declared = [match for match in declared if not text[match.end() :].strip(_DECORATION)]
        if not declared and not bare:
            return Reading(None, "truncated")
    if declared:
        return Reading(_slot(declared[-1]), "declared")
    if bare and not _DECLARED.search(text.splitlines()[-1]):
        return Reading(_slot(bare), "bare")
    return Reading(None, "unparsable")


def mask_verdicts(text: str) -> str:
    """Contestant text in which nothing reads as a verdict: ``[[A]]`` becomes ``[(A)]``.

    A judge that quotes an answer then cannot declare anything in that answer's words.
    """
    return _DECLARED.sub(lambda match: f"[({match[1]})]", text)


def panel_majority(slots: Sequence[Slot | None]) -> Slot | None:
    """The verdict of one or several judges on one order.

    One judge speaks for itself. Of several, the slot named most often wins and a draw between slots is
    ``C``; fewer than two readable verdicts are none (after PoLL, Verga et al. 2024, arXiv:2404.18796).
    """
    read = [slot for slot in slots if slot is not None]
    if len(slots) <= 1:
        return read[0] if read else None
    if len(read) < 2:
        return None
    ranking = Counter(read).most_common()
    drawn = len(ranking) > 1 and ranking[0][1] == ranking[1][1]
    return "C" if drawn else ranking[0][0]


def settle_orders(first: Slot | None, swapped: Slot | None) -> Settlement:
    """Both orders, or nothing: agreement decides, disagreement is an inconsistent tie.

    ``first`` is the verdict with policy a in slot A, ``swapped`` the one with policy a in slot B.
    """
    if first is None or swapped is None:
        return Settlement("incomplete", None)
    share = {"A": 1.0, "B": 0.0, "C": 0.5}
    if share[first] != 1.0 - share[swapped]:
        return Settlement("inconsistent", 0.5)
    return Settlement("consistent", share[first])


def _slot(match: re.Match[str]) -> Slot:
    return _LABELS[re.sub(r"\s+", "", match[1]).upper()]


def _declarations(text: str) -> list[re.Match[str]]:
    matches = list(_DECLARED.finditer(text))
    in_menu: set[int] = set()
    for i, (left, right) in enumerate(pairwise(matches)):
        gap = text[left.end() : right.start()]
        if len(gap) <= _LONGEST_GAP and "\n" not in gap and _MENU_GAP.fullmatch(gap) and _slot(left) != _slot(right):
            in_menu |= {i, i + 1}
    return [match for i, match in enumerate(matches) if i not in in_menu and not _CONDITION.match(text[match.end() :])]
