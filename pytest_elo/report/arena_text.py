"""An arena as rows and lines of text, for the terminal, Markdown and the page alike."""

from __future__ import annotations

from pytest_elo.report.arena import Arena
from pytest_elo.report.numbers import MISSING, plain, signed

__all__ = ["arena_columns", "arena_lines", "arena_sentences", "arena_title", "bias_columns", "warnings_of"]


def arena_title(arena: Arena) -> str:
    """What became of the pairs."""
    counts = ", ".join(f"{count} {status}" for status, count in arena.results.items())
    return f"{arena.task_id}, judged in pairs: {counts or 'no pair was judged'}"


def arena_columns(arena: Arena) -> tuple[list[list[str]], list[str]]:
    """Rows and heads: raw and style-controlled ratings side by side, both in ΔElo within the task."""
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
                _with_width(rating.raw, rating.raw_half_width) if rating else MISSING,
                _with_width(rating.controlled, rating.controlled_half_width) if rating else MISSING,
            ]
        )
    heads = ["strategy", "pairs", "won/tied/\nlost", "ΔElo raw", "ΔElo, style\ncontrolled"]
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
        out += [*map(str, arena.board.self_preference), *map(str, arena.board.agreement)]
    return out + [f"note: {note}" for note in arena.notes]


def arena_lines(arena: Arena) -> list[str]:
    """The block as the terminal shows it."""
    from tabulate import tabulate

    rows, heads = arena_columns(arena)
    out = [arena_title(arena)]
    if rows:
        align = ("left", *("right" for _ in heads[1:]))
        out += tabulate(rows, heads, tablefmt="simple", disable_numparse=True, colalign=align).splitlines()
    return [*out, *(line for block in arena.bias for line in block.lines()), *arena_sentences(arena)]


def _with_width(value: float, width: float | None) -> str:
    return signed(value) if not width else f"{signed(value)} ±{plain(width, 1)}"


def _control_changes(arena: Arena) -> str:
    """Whether holding the look of the answers equal moves a rating by more than its own uncertainty."""
    assert arena.board is not None
    assert arena.board.style is not None
    style = arena.board.style
    if not style.coefficients:
        return "style control: no covariate varies, so raw and controlled ratings are the same"
    moved = max(style.ratings, key=lambda rating: abs(rating.controlled - rating.raw))
    shift = moved.controlled - moved.raw
    width = moved.raw_half_width
    beyond = width is not None and abs(shift) > width
    verdict = "more than its interval: the judge pays for looks" if beyond else "within its interval"
    return f"style control moves {moved.policy} most, by {signed(shift)} Elo, {verdict}"
