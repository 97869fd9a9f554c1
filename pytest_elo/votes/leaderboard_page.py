"""A leaderboard as one self-contained HTML page: no script, nothing fetched."""

from __future__ import annotations

from html import escape

from pytest_elo.votes.leaderboard import Leaderboard, Standing
from pytest_elo.votes.leaderboard_text import elo_text, rank_text

__all__ = ["to_html"]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #3b82f6; --faint: #8888; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } .name { text-align: left; overflow-wrap: anywhere; }
svg { display: block; width: 12rem; height: 1.1rem; }
li { margin: .3rem 0; } .warning { color: #b45309; } p, li { overflow-wrap: anywhere; }
"""


def to_html(board: Leaderboard) -> str:
    """The page. Every name and note is escaped; intervals are drawn on one common scale."""
    ends = [e for s in board.standings for e in (s.low, s.high, s.elo) if e is not None]
    low, high = min(ends), max(ends)
    controlled = "<th>style controlled</th>" if board.style else ""
    rows = "\n".join(_row(s, low, high, with_style=board.style is not None) for s in board.standings)
    bias = "\n".join(_lines(block.lines()) for block in board.bias)
    more = [*map(str, board.self_preference), *map(str, board.agreement), *board.notes]
    statuses = ", ".join(f"{count} {status}" for status, count in board.results.items())
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Arena leaderboard</title><style>{_STYLE}</style></head><body>
<h1>Arena leaderboard</h1>
<p>{escape(board.anchor)} stands at 1000. Ties: {escape(board.ties)}. Results: {escape(statuses)}.
Intervals at {board.level:.0%}; ranks hold all at once.</p>
<table><thead><tr><th>rank</th><th class="name">policy</th><th>Elo</th><th></th>
<th>results</th><th>won</th><th>tied</th><th>lost</th>{controlled}</tr></thead><tbody>
{rows}
</tbody></table>
<h2>Judges</h2>
{bias}
<h2>Notes</h2>
{_lines(more)}
</body></html>
"""


def _row(standing: Standing, low: float, high: float, *, with_style: bool) -> str:
    cells = [
        f"<td>{rank_text(standing)}</td>",
        f'<td class="name">{escape(standing.policy)}</td>',
        f"<td>{elo_text(standing)}</td>",
        f"<td>{_bar(standing, low, high)}</td>",
        *(f"<td>{n}</td>" for n in (standing.results, standing.won, standing.tied, standing.lost)),
    ]
    if with_style:
        value = standing.controlled_elo
        cells.append(f"<td>{'-' if value is None else f'{value:.0f}'}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _bar(standing: Standing, low: float, high: float) -> str:
    if standing.elo is None:
        return ""
    span = max(high - low, 1e-9)

    def x(value: float | None, missing: float) -> float:
        return 2 + 96 * ((missing if value is None else value) - low) / span

    left, right = (
        (x(standing.low, low), x(standing.high, high))
        if standing.low is not None or standing.high is not None
        else (x(standing.elo, low),) * 2
    )
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none">'
        f'<line x1="{left:.2f}" x2="{right:.2f}" y1="5" y2="5" stroke="var(--faint)" stroke-width="2"/>'
        f'<rect x="{x(standing.elo, low) - 1:.2f}" y="1" width="2" height="8" fill="var(--bar)"/></svg>'
    )


def _lines(lines: list[str]) -> str:
    items = "\n".join(
        f"<li{' class=warning' if line.strip().startswith('warning') else ''}>{escape(line.strip())}</li>"
        for line in lines
    )
    return f"<ul>{items}</ul>"
