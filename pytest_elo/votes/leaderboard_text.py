"""A leaderboard as a table for the terminal, as CSV and as JSON. Pure functions, no clock."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Sequence
from typing import Any

from pytest_elo.rating.style import StyleControl
from pytest_elo.votes.bias import BiasBlock
from pytest_elo.votes.leaderboard import Leaderboard, Standing

__all__ = ["bias_document", "board_document", "style_lines", "to_csv", "to_json", "to_table"]

_COLUMNS = [field.name for field in dataclasses.fields(Standing)]


def to_table(board: Leaderboard) -> str:
    """Ratings, then what the judges' votes tell about the judges, then every note."""
    from tabulate import tabulate  # only where a table is printed

    controlled = board.style is not None
    header = ["rank", "policy", f"Elo [{board.level:.0%}]", "results", "won", "tied", "lost"]
    rows = [_cells(standing) for standing in board.standings]
    if controlled:
        header.append("Elo, style controlled")
        rows = [[*row, _controlled(s)] for row, s in zip(rows, board.standings, strict=True)]
    statuses = ", ".join(f"{count} {status}" for status, count in board.results.items())
    return "\n".join(
        [
            f"anchor {board.anchor} = 1000, ties {board.ties}, results: {statuses}",
            tabulate(rows, headers=header, disable_numparse=True),
            *style_lines(board.style),
            *(line for block in board.bias for line in block.lines()),
            *map(str, board.self_preference),
            *map(str, board.agreement),
            *(f"note: {note}" for note in board.notes),
        ]
    )


def to_csv(board: Leaderboard) -> str:
    """One line a policy, with the fields of :class:`Standing`; empty where a number is missing."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for standing in board.standings:
        writer.writerow(["" if v is None else v for v in (getattr(standing, name) for name in _COLUMNS)])
    return out.getvalue()


def to_json(board: Leaderboard) -> str:
    """Everything in the board, with the derived numbers and warnings of each bias block."""
    return json.dumps(board_document(board), indent=2, sort_keys=True, default=list) + "\n"


def board_document(board: Leaderboard) -> dict[str, Any]:
    """The board as plain values."""
    return dataclasses.asdict(board) | {"bias": [bias_document(block) for block in board.bias]}


def bias_document(block: BiasBlock) -> dict[str, Any]:
    """A bias block as plain values, with what follows from them."""
    return dataclasses.asdict(block) | {"slot_z": block.slot_z, "warnings": list(block.warnings)}


def rank_text(standing: Standing) -> str:
    """``2`` or ``1-4``: the simultaneous interval of the rank."""
    if standing.best_rank is None:
        return "-"
    if standing.best_rank == standing.worst_rank:
        return str(standing.best_rank)
    return f"{standing.best_rank}-{standing.worst_rank}"


def elo_text(standing: Standing) -> str:
    """``1012 [980, 1044]``; a missing end is unbounded, a missing number is a dash."""
    if standing.elo is None:
        return "-"
    if standing.low is None and standing.high is None:
        return f"{standing.elo:.0f}"
    low = "-inf" if standing.low is None else f"{standing.low:.0f}"
    high = "inf" if standing.high is None else f"{standing.high:.0f}"
    return f"{standing.elo:.0f} [{low}, {high}]"


def _cells(standing: Standing) -> list[str]:
    return [
        rank_text(standing),
        standing.policy,
        elo_text(standing),
        str(standing.results),
        str(standing.won),
        str(standing.tied),
        str(standing.lost),
    ]


def _controlled(standing: Standing) -> str:
    if standing.controlled_elo is None:
        return "-"
    width = standing.controlled_half_width
    return f"{standing.controlled_elo:.0f}" + (f" ±{width:.0f}" if width else "")


def style_lines(style: StyleControl | None) -> Sequence[str]:
    """What one standard deviation of each covariate is worth; empty without style control."""
    if style is None:
        return []
    parts = [
        f"{c.name} {c.elo_per_sd:+.0f}" + (f" ±{c.half_width:.0f}" if c.half_width is not None else "")
        for c in style.coefficients
    ]
    clusters = ", ".join(f"{count} {kind}s" for kind, count in style.clusters.items())
    return [f"style, Elo per standard deviation: {', '.join(parts) or 'nothing varies'} (clusters: {clusters})"]
