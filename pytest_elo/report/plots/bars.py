"""What more tokens bring from tier to tier, and where the tokens of each strategy went."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_elo.report.build import Report
from pytest_elo.report.plots.theme import INK, MUTED, PAPER, SERIES, grid
from pytest_elo.report.tables import ordered

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pytest_elo.rating.results import Measure

__all__ = ["draw_marginals", "draw_tokens", "tokens_by_use"]

ROLES = ("generate", "reflect", "vote", "select", "tool", "agent", "overhead")
HATCHES = {"used": "", "discarded": "///", "failed": "xxx"}
USES = tuple(HATCHES)


def draw_marginals(report: Report, figure: Figure) -> bool:
    """Elo per further 1,000 tokens with its interval; open ends are arrows, unresolved steps say so."""
    steps = [step for ladder in report.rating.ladders for step in ladder.steps] if report.rating else []
    if not steps:
        return False
    figure.set_size_inches(8.6, 1.1 + 0.5 * len(steps))
    axes = figure.subplots()
    names = [f"{step.lower} → {step.upper}" for step in steps]
    known = [m for step in steps if (m := step.marginal).value is not None]
    ends = [end for measure in known for end in _ends(measure)]
    span = (max(ends, default=1.0) - min(ends, default=-1.0)) or 10.0
    left, right = min([*ends, 0.0]) - 0.1 * span, max([*ends, 0.0]) + 0.1 * span
    for row, step in enumerate(steps):
        measure = step.marginal
        if measure.value is None:
            _note(axes, "not resolved", (0.0, row), MUTED)
            continue
        interval = measure.interval
        if interval is not None and interval.shape == "between":
            low = left if interval.low is None else interval.low
            high = right if interval.high is None else interval.high
            axes.plot([low, high], [row, row], color=SERIES[0], linewidth=2.2, solid_capstyle="butt")
            for end, marker, position in ((interval.low, "<", low), (interval.high, ">", high)):
                if end is None:
                    axes.plot(position, row, marker, color=SERIES[0], clip_on=False)
        axes.plot(measure.value, row, "o", color=SERIES[0], markersize=7)
    worth = float(report.header.get("rating", {}).get("worth_elo_per_1k", 5.0))
    axes.axvline(0.0, color=MUTED, linewidth=0.9)
    if left < worth < right:
        axes.axvline(worth, color=SERIES[1], linewidth=1.1, linestyle=(0, (4, 3)))
        _note(axes, f"worth it: {worth:g}", (worth, -0.42), SERIES[1])
    axes.set_xlim(left, right)
    axes.set_ylim(len(steps) - 0.4, -0.6)
    axes.set_yticks(range(len(steps)), names, color=INK)
    axes.set_xlabel("Elo for each further 1,000 tokens")
    grid(axes, "x")
    return True


def _ends(measure: Measure) -> Iterator[float]:
    interval = measure.interval
    ends = (measure.value, interval.low if interval else None, interval.high if interval else None)
    yield from (end for end in ends if end is not None)


def _note(axes: Axes, text: str, place: tuple[float, float], colour: str) -> None:
    axes.annotate(text, place, xytext=(5, 0), textcoords="offset points", va="center", fontsize=9.5, color=colour)


def tokens_by_use(report: Report) -> dict[str, dict[tuple[str, str], int]]:
    """strategy -> (role, use) -> tokens; ``use`` is one of ``USES``. Judges and pings are no part of it."""
    found: dict[str, dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    rated = {outcome.strategy for outcome in report.outcomes}
    for (_, strategy), tier in report.totals.tiers.items():
        if strategy in rated:
            for place, tokens in tier.uses.items():
                found[strategy][place] += tokens
    order = [row.policy for row in ordered(report.rating)] if report.rating else []
    names = [name for name in order if name in found] + sorted(found.keys() - set(order))
    return {name: dict(found[name]) for name in names}


def draw_tokens(report: Report, figure: Figure) -> bool:
    """One stacked bar a strategy: colour is the role, hatching what was paid for and not used."""
    found = tokens_by_use(report)
    if not found:
        return False
    figure.set_size_inches(8.6, 1.5 + 0.42 * len(found))
    axes = figure.subplots()
    roles = [role for role in ROLES if any((role, use) in uses for uses in found.values() for use in USES)]
    trials = Counter(outcome.strategy for outcome in report.outcomes)
    for row, (strategy, uses) in enumerate(found.items()):
        start = 0.0
        for role in roles:
            colour = SERIES[ROLES.index(role) % len(SERIES)]
            for use in USES:
                tokens = uses.get((role, use), 0) / trials[strategy]
                if tokens:
                    axes.barh(
                        row, tokens, left=start, height=0.62, hatch=HATCHES[use],
                        edgecolor=PAPER, facecolor=colour, linewidth=0.8,
                    )  # fmt: skip
                    start += tokens
        _note(axes, f"{start:,.0f}", (start, row), INK)
    axes.set_yticks(range(len(found)), list(found), color=INK)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("tokens an item and repeat")
    grid(axes, "x")
    _legend(figure, roles, {use for uses in found.values() for _, use in uses})
    return True


def _legend(figure: Figure, roles: list[str], uses: set[str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=SERIES[ROLES.index(role) % len(SERIES)], label=role) for role in roles]
    if "discarded" in uses:
        handles.append(Patch(facecolor=MUTED, edgecolor=PAPER, hatch="///", label="discarded"))
    if "failed" in uses:
        handles.append(Patch(facecolor=MUTED, edgecolor=PAPER, hatch="xxx", label="failed attempts"))
    figure.legend(handles=handles, loc="outside upper left", ncols=6, fontsize=10)
