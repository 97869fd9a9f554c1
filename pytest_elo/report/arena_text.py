"""An arena as rows and lines of text, for the terminal, Markdown and the page alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_elo.rating.scale import ANCHOR_ELO
from pytest_elo.report.arena import Arena
from pytest_elo.report.numbers import MISSING, plain, signed
from pytest_elo.report.typeset import typeset

if TYPE_CHECKING:
    from pytest_elo.votes.leaderboard import Leaderboard, Standing

__all__ = ["arena_columns", "arena_lines", "arena_sentences", "arena_title", "bias_columns", "warnings_of"]

SMALLEST_SHIFT = 0.05
"""Elo; what rounds to nothing is nothing."""


def arena_title(arena: Arena) -> str:
    """What became of the pairs."""
    counts = ", ".join(f"{count} {status}" for status, count in arena.results.items())
    return f"{arena.task_id}, judged in pairs: {counts or 'no pair was judged'}"


def arena_columns(arena: Arena) -> tuple[list[list[str]], list[str]]:
    """Rows and heads: ΔElo within the task, then raw and with style controlled, fitted alike (both carry a prior)."""
    board = arena.board
    if board is None:
        return [], []
    styled = {rating.policy: rating for rating in board.style.ratings} if board.style is not None else {}
    rows = []
    for standing in board.standings:
        rating = styled.get(standing.policy)
        rows.append(
            [
                standing.policy,
                str(standing.results),
                f"{standing.won}/{standing.tied}/{standing.lost}",
                _delta(standing, board.anchor),
                _with_width(rating.raw, rating.raw_half_width) if rating else MISSING,
                _with_width(rating.controlled, rating.controlled_half_width) if rating else MISSING,
            ]
        )
    heads = [
        "strategy",
        "verdicts",
        "won/tied/\nlost",
        f"ΔElo\n[{board.level:.0%} interval]",
        "raw,\nwith prior",
        "style\ncontrolled",
    ]
    return rows, heads


def bias_columns(arena: Arena) -> tuple[list[list[str]], list[str]]:
    """Rows and heads of the bias block: one row a model judge, and one for all people."""
    rows = [
        [
            block.judge,
            f"{block.complete}/{block.pairs}" if block.pairs else MISSING,
            str(block.single_votes),
            str(block.consistency),
            str(block.flips),
            f"{block.first_slot}" + ("" if block.slot_z is None else f" (z {block.slot_z:.1f})"),
            str(block.ties),
            f"{block.unparsable}/{block.errors}/{block.nulls}",
            f"{block.identical}/{block.excluded}",
            MISSING if block.length_r is None else f"{block.length_r:.2f}",
            f"{block.longer_wins} of {block.longer_wins.n}",
            str(block.self_judged),
            str(block.imitations),
        ]
        for block in arena.bias
    ]
    heads = [
        "judge",
        "pairs\ncomplete",
        "single\nvotes",
        "consis-\ntency",
        "flips",
        "first\nslot",
        "ties",
        "unparsable/\nerrors/none",
        "identical/\nexcluded",
        "length\nr",
        "longer\nwins",
        "self-\njudged",
        "verdict-\nlike",
    ]
    return rows, heads


def warnings_of(arena: Arena) -> list[str]:
    """What the bias block warns of, judge by judge."""
    return [f"warning: {block.judge}: {text}" for block in arena.bias for text in block.warnings]


def arena_sentences(arena: Arena) -> list[str]:
    """What style is worth, agreement, and everything that is not settled."""
    from pytest_elo.votes.leaderboard_text import style_lines

    out: list[str] = []
    if arena.board is not None:
        out += style_lines(arena.board.style)
        out += [_control_changes(arena)] if arena.board.style is not None else []
        out += [*_self_preference(arena.board), *map(str, arena.board.agreement)]
    return out + [f"note: {note}" for note in arena.notes]


def arena_lines(arena: Arena) -> list[str]:
    """The block as the terminal shows it."""
    rows, heads = arena_columns(arena)
    out = [arena_title(arena)]
    if rows:
        align = ("left", *("right" for _ in heads[1:]))
        out += typeset(rows, heads, align).splitlines()
    return [*out, *(line for block in arena.bias for line in block.lines()), *arena_sentences(arena)]


def _with_width(value: float, width: float | None) -> str:
    return signed(value) if not width else f"{signed(value)} ±{plain(width, 1)}"


def _delta(standing: Standing, anchor: str) -> str:
    if standing.policy == anchor:
        return "0 (anchor)"
    if standing.elo is None:
        return MISSING
    low, high = (None if end is None else signed(end - ANCHOR_ELO) for end in (standing.low, standing.high))
    between = "" if low is None and high is None else f" [{low or '-inf'}, {high or '+inf'}]"
    return f"{signed(standing.elo - ANCHOR_ELO)}{between}"


def _self_preference(board: Leaderboard) -> Iterator[str]:
    """A judge that is all contestants has no rival to be measured by."""
    for judge in sorted({found.judge for found in board.self_preference if not found.matched}):
        yield f"self-preference of {judge} cannot be told: every contestant that others judged is the judge itself"
    yield from (str(found) for found in board.self_preference if found.matched)


def _control_changes(arena: Arena) -> str:
    """Whether holding the look of the answers equal moves a rating by more than its own uncertainty."""
    assert arena.board is not None
    assert arena.board.style is not None
    style = arena.board.style
    if not style.coefficients:
        return "style control: no covariate varies, so raw and controlled ratings are the same"
    moved = max(style.ratings, key=lambda rating: abs(rating.controlled - rating.raw))
    shift = moved.controlled - moved.raw
    if abs(shift) < SMALLEST_SHIFT:
        return "style control moves no rating"
    width = moved.raw_half_width
    beyond = width is not None and abs(shift) > width
    text = f"style control moves {moved.policy} most, by {signed(shift)} Elo, "
    text += "more than its interval: its looks are part of its rating" if beyond else "within its interval"
    if moved.controlled_half_width is not None and abs(moved.controlled) <= moved.controlled_half_width:
        text += "; controlled, it is not resolved"
    return text
