"""Colours and sizes shared by all plots, and the way from a figure to SVG that a page can style.

Figures are drawn in the light theme. In the SVG every theme colour becomes a CSS variable and every style
attribute a presentation attribute, so that the page may be dark, printed, and forbid inline styles.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["INK", "MUTED", "PAPER", "SERIES", "STYLE", "drawing", "grid", "svg"]

INK, MUTED, GRID, PAPER = "#1b1f24", "#656d76", "#d8dee4", "#fdfdfe"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#b65a97", "#c98500", "#3a9bd8", "#7f3c8d", "#5b7f16")
"""Okabe and Ito's colours, two of them darkened to stand on white."""

_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    PAPER: "--paper",
    **{colour: f"--series{i}" for i, colour in enumerate(SERIES)},
}

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it is found, read aloud, and small
    "svg.hashsalt": "pytest-elo",  # the same report gives the same bytes
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


@contextmanager
def drawing() -> Iterator[None]:
    """matplotlib set up for these plots, whatever the user's own settings are."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        for name, value in STYLE.items():
            matplotlib.rcParams[name] = value
        yield


def grid(axes: Axes, axis: Any = "both") -> None:
    axes.grid(visible=True, axis=axis, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)


def svg(figure: Figure, title: str, description: str) -> str:
    """The figure as an inline SVG element with a name and a description for those who cannot see it."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<style type="text/css">.*?</style>', "", text, flags=re.DOTALL)
    text = re.sub(r'style="([^"]*)"', lambda found: _attributes(found[1]), text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    text = re.sub(r"\n\s*", "\n", text)
    slug = re.sub(r"\W+", "-", title.lower()).strip("-")
    text = _own_ids(text, slug)
    head, _, rest = text.partition(">")
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    named = f'{head} role="img" aria-labelledby="{slug}-title {slug}-desc" class="plot">'
    titles = f'<title id="{slug}-title">{escape(title)}</title><desc id="{slug}-desc">{escape(description)}</desc>'
    return named + titles + rest


def _attributes(style: str) -> str:
    """``fill: red; font: 10px X`` as ``fill="red" font-size="10px"``."""
    out = []
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":
            size = re.search(r"[\d.]+px", value)
            weight = "bold" if re.search(r"\b(bold|[6-9]00)\b", value) else ""
            out.append(f'font-size="{size[0] if size else "11px"}"')
            out += ['font-weight="bold"'] if weight else []
        elif name and name != "font-family":
            out.append(f'{name}="{value}"')
    return " ".join(out)


def _own_ids(text: str, slug: str) -> str:
    """Ids of several figures must not meet on one page."""
    text = re.sub(r'\bid="([^"]+)"', rf'id="{slug}-\1"', text)
    text = re.sub(r'xlink:href="#([^"]+)"', rf'xlink:href="#{slug}-\1"', text)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{slug}-\1)", text)
