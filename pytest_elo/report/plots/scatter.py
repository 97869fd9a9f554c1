"""ΔElo against tokens: over all tasks, and one small plot a task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_elo.report.build import Report
from pytest_elo.report.plots.points import Point, frontier, ladders, points, task_points
from pytest_elo.report.plots.theme import INK, MUTED, PAPER, SERIES, grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["TASKS_AT_MOST", "draw_elo", "draw_tasks"]

TASKS_AT_MOST = 24
COLUMNS = 3
_NICE = (1.0, 2.0, 5.0)

Box = tuple[float, float, float, float]
"""left, bottom, right, top in pixels"""


def draw_elo(report: Report, figure: Figure) -> bool:
    """The main plot; returns whether there is anything to see."""
    shown = points(report)
    if report.rating is None or len(shown) < 2:
        return False
    axes = figure.subplots()
    _frame(axes, shown)
    _iso_lines(axes, shown)
    _frontier(axes, shown)
    for ladder in ladders(report.rating, shown):
        axes.plot([p.tokens for p in ladder], [p.elo for p in ladder], color=INK, linewidth=1.4, alpha=0.75, zorder=2)
    best = {point.strategy for point in frontier(shown)}
    for number, point in enumerate(shown):
        _mark(axes, point, SERIES[number % len(SERIES)], dominated=point.strategy not in best)
    _labels(axes, shown)
    axes.set_xlabel("tokens an item (log), every attempt counted")
    axes.set_ylabel(f"ΔElo against {report.rating.anchor}")
    return True


def draw_tasks(report: Report, figure: Figure) -> bool:
    """Small multiples over one scale; worth drawing for two tasks or more."""
    tasks = {task: found for task, found in task_points(report).items() if len(found) > 1}
    if len(tasks) < 2:
        return False
    chosen = list(tasks.items())[:TASKS_AT_MOST]
    rows = math.ceil(len(chosen) / COLUMNS)
    figure.set_size_inches(8.6, 2.4 * rows + 0.5)
    grid_of_axes = figure.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False)
    everything = [point for _, found in chosen for point in found]
    colours = _colours(report, everything)
    for axes in grid_of_axes.flat[len(chosen) :]:
        axes.remove()
    for axes, (task, found) in zip(grid_of_axes.flat, chosen, strict=False):
        _frame(axes, everything, ticks_at_most=4)
        axes.set_title(task)
        best = {point.strategy for point in frontier(found)}
        for point in found:
            _mark(axes, point, colours[point.strategy], dominated=point.strategy not in best, size=5.5)
        axes.label_outer()
    _legend(figure, everything, colours)
    figure.supxlabel("tokens an item (log)", fontsize=11, color=INK)
    figure.supylabel("ΔElo in the task", fontsize=11, color=INK)
    return True


def _colours(report: Report, everything: Sequence[Point]) -> Mapping[str, str]:
    names = list(dict.fromkeys([point.strategy for point in (*points(report), *everything)]))
    return {name: SERIES[number % len(SERIES)] for number, name in enumerate(names)}


def _legend(figure: Figure, everything: Sequence[Point], colours: Mapping[str, str]) -> None:
    from matplotlib.lines import Line2D

    names = list(dict.fromkeys(point.strategy for point in everything))
    handles = [Line2D([], [], marker="o", linestyle="", color=colours[name], label=name) for name in names]
    figure.legend(handles=handles, loc="outside upper left", ncols=min(6, len(names)), fontsize=10)


def _frame(axes: Axes, shown: Sequence[Point], ticks_at_most: int = 8) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    low = min(point.tokens_low for point in shown)
    high = max(point.tokens_high for point in shown)
    pad = max(1.15, (high / low) ** 0.12)
    axes.set_xscale("log")
    axes.set_xlim(low / pad, high * pad**1.6)
    axes.xaxis.set_major_locator(FixedLocator(_ticks(low / pad, high * pad, ticks_at_most)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: _short(value))
    ends = [end for point in shown for end in (point.elo_low, point.elo_high, point.elo, 0.0) if end is not None]
    span = max(ends) - min(ends) or 10.0
    axes.set_ylim(min(ends) - 0.12 * span, max(ends) + 0.14 * span)
    axes.axhline(0.0, color=MUTED, linewidth=0.9, zorder=1)
    grid(axes)


def _ticks(low: float, high: float, at_most: int) -> list[float]:
    """1, 2, 5, 10, ...; thinner, then powers of ten alone, where that would be too many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for digits in (_NICE, (1.0, 3.0), (1.0,)):
        found = [digit * 10.0**power for power in powers for digit in digits]
        found = [tick for tick in found if low <= tick <= high]
        if len(found) <= at_most:
            break
    return found


def _short(value: float) -> str:
    for scale, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:g}{unit}"
    return f"{value:g}"


def _iso_lines(axes: Axes, shown: Sequence[Point]) -> None:
    """Curves of equal Elo per 1,000 tokens: a strategy above a curve gives more for each token."""
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    steepest = max((abs(p.elo) / p.tokens * 1000 for p in shown if p.elo), default=0.0)
    if not steepest:
        return
    power = math.floor(math.log10(steepest))
    rates = [digit * 10.0**exponent for exponent in (power - 2, power - 1, power) for digit in (1.0, 3.0)]
    for rate in rates:
        for sign in (1, -1):
            end = min(right, (top if sign > 0 else -bottom) * 1000 / rate)
            if end <= left or sign * rate * end / 1000 < 0.18 * (top if sign > 0 else bottom) * sign:
                continue
            xs = [left * (end / left) ** (i / 60) for i in range(61)]
            ys = [sign * rate * x / 1000 for x in xs]
            axes.plot(xs, ys, color=MUTED, linewidth=0.8, linestyle=(0, (2, 3)), zorder=0)
            axes.annotate(
                f"{sign * rate:g}/1k", (end, sign * rate * end / 1000), xytext=(-2, -3 * sign),
                textcoords="offset points", ha="right", va="top" if sign > 0 else "bottom", fontsize=8.5, color=MUTED,
            )  # fmt: skip


def _frontier(axes: Axes, shown: Sequence[Point]) -> None:
    best = frontier(shown)
    xs, ys = [p.tokens for p in best], [p.elo for p in best]
    xs.append(axes.get_xlim()[1])
    ys.append(ys[-1])
    axes.plot(xs, ys, color=SERIES[2], linewidth=6, alpha=0.22, drawstyle="steps-post", solid_capstyle="butt", zorder=1)


def _mark(axes: Axes, point: Point, colour: str, *, dominated: bool, size: float = 8.0) -> None:
    """A full dot; hollow for an oracle, grey where something as cheap is better; bars both ways."""
    bar = MUTED if dominated and not point.is_anchor else colour
    below = point.elo - point.elo_low if point.elo_low is not None else 0.0
    above = point.elo_high - point.elo if point.elo_high is not None else 0.0
    axes.errorbar(
        point.tokens, point.elo,
        xerr=[[point.tokens - point.tokens_low], [point.tokens_high - point.tokens]], yerr=[[below], [above]],
        fmt="none", ecolor=bar, elinewidth=1.3, capsize=2.5, zorder=3,
    )  # fmt: skip
    marker: Any = {0: "o", 1: "^", -1: "v"}[point.arrow]
    face = PAPER if point.oracle else bar
    axes.plot(
        point.tokens, point.elo, marker, markersize=size, markerfacecolor=face, markeredgecolor=bar,
        markeredgewidth=1.6, zorder=4,
    )  # fmt: skip


def _labels(axes: Axes, shown: Sequence[Point]) -> None:
    """Names beside their points, at the first of eight places where none meets another label or point."""
    figure: Any = axes.figure
    figure.draw_without_rendering()
    dots = [tuple(axes.transData.transform((point.tokens, point.elo))) for point in shown]
    taken: list[Box] = [(x - 7, y - 7, x + 7, y + 7) for x, y in dots]
    box = axes.get_window_extent()
    for (x, y), point in sorted(zip(dots, shown, strict=True), key=lambda pair: -pair[0][1]):
        width, height = 6.4 * len(point.strategy) + 4, 13.0
        left, centre = -10 - width, -width / 2
        places = [(10.0, 6.0), (10.0, -19.0), (left, 6.0), (left, -19.0)]
        places += [(10.0, 20.0), (10.0, -33.0), (centre, 24.0), (centre, -37.0)]
        free = [place for place in places if not _meets(_box(x, y, place, width, height), taken)]
        inside = [place for place in free if box.x0 <= x + place[0] and x + place[0] + width <= box.x1]
        dx, dy = (inside or free or places)[0]
        taken.append(_box(x, y, (dx, dy), width, height))
        scale = 72.0 / figure.dpi
        axes.annotate(
            point.strategy, (point.tokens, point.elo), xytext=(dx * scale, dy * scale), textcoords="offset points",
            fontsize=11, color=INK, zorder=5,
        )  # fmt: skip


def _box(x: float, y: float, place: tuple[float, float], width: float, height: float) -> Box:
    return x + place[0], y + place[1], x + place[0] + width, y + place[1] + height


def _meets(box: Box, others: Sequence[Box]) -> bool:
    return any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in others)
