"""All plots of a report, or the one sentence that says why there are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_elo.errors import ConfigError
from pytest_elo.report.build import Report
from pytest_elo.report.plots.bars import draw_marginals, draw_tokens
from pytest_elo.report.plots.scatter import draw_elo, draw_tasks
from pytest_elo.report.plots.theme import drawing, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MISSING_LIBRARY", "Plot", "has_library", "plots", "write_png"]

MISSING_LIBRARY = "plots need matplotlib, which is not installed: pip install 'pytest-elo[report]'"


@dataclass(frozen=True, slots=True)
class Plot:
    key: str
    title: str
    caption: str
    svg: str


Draw = Callable[[Report, "Figure"], bool]

_PLOTS: tuple[tuple[str, str, str, tuple[float, float], Draw], ...] = (
    (
        "elo",
        "Elo against tokens",
        "Bars are intervals both ways; to the right they reach to the high end of what unknown attempts may have cost. "
        "The dark line is a ladder, the broad step the Pareto frontier: grey points cost as much as something better. "
        "Dotted curves join equal Elo per 1,000 tokens. Hollow points chose with the right answer at hand; "
        "triangles are bounds where a strategy never lost or never won.",
        (8.6, 5.2),
        draw_elo,
    ),
    (
        "tasks",
        "Elo against tokens in each task",
        "One scale for all; an Elo of one task says nothing in another.",
        (8.6, 5.0),
        draw_tasks,
    ),
    (
        "marginals",
        "What more tokens bring",
        "From one tier of a ladder to the next; a step whose token gap is not resolved has no number.",
        (8.6, 3.0),
        draw_marginals,
    ),
    (
        "spent",
        "Where the tokens went",
        "By what calls were for; hatched is what was paid for and not used: discarded samples and failed attempts.",
        (8.6, 3.0),
        draw_tokens,
    ),
)


def has_library() -> bool:
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def plots(report: Report) -> list[Plot]:
    """The plots that have something to show; none without matplotlib."""
    if not has_library():
        return []
    from matplotlib.figure import Figure

    found = []
    with drawing():
        for key, title, caption, size, draw in _PLOTS:
            figure = Figure(figsize=size)
            if draw(report, figure):
                found.append(Plot(key, title, caption, svg(figure, title, caption)))
    return found


def write_png(report: Report, path: Path) -> None:
    """The main plot as PNG. Raises ``ConfigError`` without matplotlib or without two rated strategies."""
    if not has_library():
        raise ConfigError(f"{path}: {MISSING_LIBRARY}")
    from matplotlib.figure import Figure

    with drawing():
        figure = Figure(figsize=(8.6, 5.2), dpi=200)
        if not draw_elo(report, figure):
            raise ConfigError(f"{path}: no plot, fewer than two strategies are rated")
        figure.savefig(path, facecolor="white", metadata={"Software": None})
