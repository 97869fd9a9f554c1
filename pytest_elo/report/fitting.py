"""Tables that fit the terminal: columns that a reader can do without go first, and what went is said."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from pytest_elo.report.typeset import typeset

__all__ = ["WIDEST", "fitted", "table", "terminal_width"]

WIDEST = 100
NARROWEST = 40


def terminal_width() -> int:
    """Columns that a table may take: what the terminal has (``COLUMNS`` where there is none), at most 100."""
    return max(NARROWEST, min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST))


def table(rows: Sequence[Sequence[str]], heads: Sequence[str], last: str = "left") -> str:
    """Plain text: the first column to the left, the last one as ``last`` says, all others to the right."""
    align = ["left", *("right" for _ in heads[1:-1]), last]
    return typeset(rows, heads, align)


def fitted(
    rows: Sequence[Sequence[str]], heads: Sequence[str], dispensable: Sequence[str], width: int, last: str = "left"
) -> list[str]:
    """Lines of the table, without empty columns and as many of ``dispensable`` (heads, in order) as do not fit."""
    empty = [
        i for i, head in enumerate(heads) if rows and head in dispensable and all(row[i] in ("", "-") for row in rows)
    ]
    rows, heads = _without(rows, heads, empty)
    dropped: list[str] = []
    for name in (head for head in dispensable if head in heads):
        if _width(rows, heads) <= width:
            break
        rows, heads = _without(rows, heads, [heads.index(name)])
        dropped.append(name.replace("-\n", "").replace("\n/", "/").replace("\n", " "))
    lines = table(rows, heads, last).splitlines()
    return [*lines, f"(no room for: {', '.join(dropped)}; report.md has all)"] if dropped else lines


def _without(
    rows: Sequence[Sequence[str]], heads: Sequence[str], places: Sequence[int]
) -> tuple[list[list[str]], list[str]]:
    keep = [i for i in range(len(heads)) if i not in places]
    return [[row[i] for i in keep] for row in rows], [heads[i] for i in keep]


def _width(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> int:
    return max(len(line.rstrip()) for line in table(rows, heads).splitlines() if not line.startswith("-"))
