"""What stands behind each ΔElo: its rank, the other routes, the tasks one by one, and other denominators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pytest_elo.report.numbers import MISSING, plain, signed
from pytest_elo.report.tables import ordered

if TYPE_CHECKING:
    from pytest_elo.rating.results import PolicyReport, RatingReport

__all__ = ["detail_columns", "detail_lines"]

Column = tuple[str, dict[str, str]]


def detail_columns(rating: RatingReport, names: Mapping[str, str]) -> tuple[list[list[str]], list[str]]:
    """Rows and heads; a column in which nobody has anything is left out."""
    policies = ordered(rating)
    columns = [
        (head, cells)
        for head, cells in _columns(rating, policies)
        if any(cells[policy.policy] != MISSING for policy in policies if not policy.is_anchor)
    ]
    rows = [
        [names.get(policy.policy, policy.policy), *(cells[policy.policy] for _, cells in columns)]
        for policy in policies
    ]
    return rows, ["strategy", *(head for head, _ in columns)]


def detail_lines(rating: RatingReport, prices_date: str | None) -> Iterator[str]:
    """How to read the table, and what the tasks have in common."""
    if rating.critical_value is not None:
        yield f"ranks: all of them hold together with {rating.level:.0%} (max-t, c = {rating.critical_value:.2f})"
    if rating.tau is not None:
        text = f"between tasks: SD of a rating (tau) {rating.tau:.1f} Elo by the hierarchical model"
        if rating.homogeneity_p is not None:
            text += f"; p = {rating.homogeneity_p:.2g} that all tasks share one set of ratings"
        yield text
    if any(policy.elo_per_usd.value for policy in rating.policies):
        yield f"USD by the settings' prices of {prices_date or 'no date'}, at the high end where tokens are unknown"


def _columns(rating: RatingReport, policies: list[PolicyReport]) -> Iterator[Column]:
    yield "rank", {row.policy: _rank(row) for row in policies}
    yield "ties", {row.policy: MISSING if row.tie_share is None else f"{row.tie_share:.0%}" for row in policies}
    for route in ("anchored", "pooled", "hierarchical"):
        if route != rating.route:
            cells = {row.policy: _route(row, route) for row in policies}
            yield {"hierarchical": "hier-\narchical"}.get(route, route), cells
    yield "tasks\n+ = -", {row.policy: _signs(row) for row in policies}
    yield "SD tasks,\nno noise", {row.policy: plain(row.between_task_sd_net, 1) for row in policies}
    yield "without\none task", {row.policy: _without(row) for row in policies}
    for head, name, digits in (
        ("Elo per\ndoubling", "elo_per_doubling", 1),
        ("Elo/1k\ncompletion", "elo_per_1k_completion", 2),
        ("Elo\n/USD", "elo_per_usd", 0),
    ):
        yield head, {row.policy: signed(getattr(row, name).value, digits) for row in policies}


def _rank(row: PolicyReport) -> str:
    return MISSING if row.rank is None else f"{row.rank.best}-{row.rank.worst}"


def _route(row: PolicyReport, route: str) -> str:
    measure = dict(row.by_route).get(route)
    return MISSING if measure is None else signed(measure.value)


def _signs(row: PolicyReport) -> str:
    if row.is_anchor or sum(row.signs) < 2:
        return MISSING
    return " ".join(str(count) for count in row.signs)


def _without(row: PolicyReport) -> str:
    """From the lowest to the highest mean that leaving out one task gives."""
    values = [value for _, value in row.leave_one_out]
    return f"{signed(min(values))}..{signed(max(values))}" if values else MISSING
