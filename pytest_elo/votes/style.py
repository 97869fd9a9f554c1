"""What an answer looks like, apart from what it says: length, headers, lists, bold."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["STYLE_FEATURES", "style_of"]

STYLE_FEATURES = ("chars", "headers", "lists", "bold")

_CODE_BLOCK = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_HEADER = re.compile(r"^ {0,3}#{1,6}[ \t]+\S", re.MULTILINE)
_LIST_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\S", re.MULTILINE)
_BOLD = re.compile(r"\*\*(?=\S)[^*\n]+?(?<=\S)\*\*|(?<!\w)__(?=\S)[^_\n]+?(?<=\S)__(?!\w)")


def style_of(text: str) -> Mapping[str, float]:
    """Counts of :data:`STYLE_FEATURES`. Code blocks count as length, never as Markdown."""
    prose = _CODE_BLOCK.sub("", text)
    return {
        "chars": float(len(text)),
        "headers": float(len(_HEADER.findall(prose))),
        "lists": float(len(_LIST_ITEM.findall(prose))),
        "bold": float(len(_BOLD.findall(prose))),
    }
