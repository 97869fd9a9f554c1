"""The report as Markdown: gates first, then tables, then the sentences; fits a pull request's summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_elo.gates.results import GateResult
from pytest_elo.gates.words import summary
from pytest_elo.report.arena import Arena
from pytest_elo.report.arena_text import arena_columns, arena_sentences, arena_title, bias_columns, warnings_of
from pytest_elo.report.budget import budget_lines, budgets_of
from pytest_elo.report.build import Report
from pytest_elo.report.details import detail_columns
from pytest_elo.report.flags import labels
from pytest_elo.report.online import online_lines
from pytest_elo.report.table import header_lines, remarks
from pytest_elo.report.tables import plain_columns, strategy_columns, task_columns
from pytest_elo.report.typeset import typeset

__all__ = ["markdown"]

NAMED_AT_MOST = 20
_SIGNS = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_[]<|~"})


def markdown(report: Report) -> str:
    """GitHub's and GitLab's dialect, without a clock; every text of the run is escaped."""
    header = header_lines(report)
    parts = [f"## {_text(header[0])}"]
    if report.gates:
        parts += [f"**{_text(summary(report.gates))}**", *_gates(report.gates)]
    if report.rating is None:
        parts.append(_table(*plain_columns(report)))
    else:
        names = labels(report)
        parts.append(_table(*strategy_columns(report.rating, [], names)))
        parts.append(_table(*task_columns(report.rating, names)))
        budgets = budgets_of(report)
        if budgets is not None:
            parts.append("\n".join(["```text", *budget_lines(budgets), "```"]))
        parts.append(_table(*detail_columns(report.rating, names)))
        if report.online is not None:
            parts.append("\n".join(["```text", *online_lines(report.online), "```"]))
    parts += [part for arena in report.arenas for part in _arena(arena)]
    parts.append("\n".join(f"- {_text(line)}" for line in [*header[1:], *remarks(report)]))
    return "\n\n".join(parts) + "\n"


def _arena(arena: Arena) -> Iterator[str]:
    yield f"### {_text(arena_title(arena))}"
    for rows, heads in (arena_columns(arena), bias_columns(arena)):
        if rows:
            yield _table(rows, heads)
    yield "\n".join(f"- {_text(line)}" for line in [*warnings_of(arena), *arena_sentences(arena)])


def _gates(results: Sequence[GateResult]) -> Iterator[str]:
    rows = [[f"**{result.answer.upper()}**", f"`{result.gate}`", _text(result.found)] for result in results]
    yield _piped(rows, ["", "gate", "found"])
    for result in results:
        changed = [*(f"{item} worse" for item in result.worse), *(f"{item} better" for item in result.better)]
        if result.answer in ("fail", "inconclusive") and (changed or result.remarks):
            yield f"<details><summary>{_html(result.gate)}: {len(changed)} items changed</summary>"
            lines = [*result.remarks, *changed[:NAMED_AT_MOST]]
            rest = len(changed) - NAMED_AT_MOST
            lines += [f"and {rest} more, all in gates.json"] if rest > 0 else []
            yield "\n".join(f"- {_text(line)}" for line in lines)
            yield "</details>"


def _table(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    return _piped([[_text(cell) for cell in row] for row in rows], [_text(head.replace("\n", " ")) for head in heads])


def _piped(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    align = ["left", *("right" for _ in heads[1:-1]), "left"]
    return typeset(rows, heads, align, "pipe")


def _text(value: str) -> str:
    return value.translate(_SIGNS)


def _html(value: str) -> str:
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
