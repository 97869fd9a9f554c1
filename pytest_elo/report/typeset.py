"""Rows and heads of text as one table, in any of tabulate's styles."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["typeset"]


def typeset(rows: Sequence[Sequence[str]], heads: Sequence[str], align: Sequence[str], style: str = "simple") -> str:
    """``align`` may be longer than the table is wide, and the table may be empty: tabulate 0.9 knows neither."""
    from tabulate import tabulate  # only where a table is printed

    columns = align[: max(map(len, rows), default=0)] or None
    return tabulate(rows, heads, tablefmt=style, disable_numparse=True, colalign=columns)
