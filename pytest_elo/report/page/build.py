"""The page from its template, its data and its plots. Text of a run only ever becomes text."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from pytest_elo.gates.results import GateResult
from pytest_elo.gates.words import summary
from pytest_elo.report.budget import budget_lines, budgets_of
from pytest_elo.report.build import Report
from pytest_elo.report.details import detail_columns
from pytest_elo.report.flags import labels
from pytest_elo.report.online import online_lines
from pytest_elo.report.page.cases import page_data
from pytest_elo.report.plots.draw import MISSING_LIBRARY, Plot, has_library, plots
from pytest_elo.report.table import header_lines, remarks
from pytest_elo.report.tables import plain_columns, strategy_columns, task_columns

__all__ = ["page"]

FLIPS_AT_MOST = 60


def page(report: Report) -> str:
    """One self-contained HTML document; the same report gives the same bytes."""
    style, script = _asset("page.css"), _asset("page.js")
    drawn = plots(report)
    values = {
        "CSP": (
            f"default-src 'none'; img-src data:; style-src {_sha256(style)}; script-src {_sha256(script)}; "
            "base-uri 'none'; form-action 'none'"
        ),
        "STYLE": style,
        "SCRIPT": script,
        "TITLE": escape(_title(report)),
        "FACTS": "".join(f"<li>{escape(line)}</li>" for line in header_lines(report)),
        "GATES": "".join(_gates(report.gates)),
        "TABLES": "".join(_tables(report)),
        "PLOTS": "".join(_figure(plot) for plot in drawn) if drawn else f"<p class=missing>{escape(_why(report))}</p>",
        "REMARKS": "".join(f"<li>{escape(line)}</li>" for line in remarks(report)),
        "DATA": _inert_json(page_data(report)),
    }
    text = _asset("page.html")
    for name, value in values.items():
        text = text.replace(f"<!--{name}-->", value)
    return text


def _title(report: Report) -> str:
    names = sorted({outcome.task_id for outcome in report.outcomes})
    return f"Elo per token: {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}"


def _why(report: Report) -> str:
    return MISSING_LIBRARY if not has_library() else f"no plots: {report.unrated or 'nothing to draw'}"


def _tables(report: Report) -> Iterator[str]:
    if report.rating is None:
        yield _table(*plain_columns(report), "Scores and tokens")
        return
    names = labels(report)
    yield _table(*strategy_columns(report.rating, [], names), "Strategies over all tasks")
    yield _table(*task_columns(report.rating, names), "Strategies in each task", "numbers tasks")
    budgets = budgets_of(report)
    if budgets is not None:
        yield f"<pre>{escape(chr(10).join(budget_lines(budgets)))}</pre>"
    yield _table(*detail_columns(report.rating, names), "Behind each ΔElo", "numbers tasks")
    if report.online is not None:
        yield f"<pre>{escape(chr(10).join(online_lines(report.online)))}</pre>"


def _table(rows: Sequence[Sequence[str]], heads: Sequence[str], caption: str, kind: str = "numbers") -> str:
    head = "".join(f"<th scope=col>{escape(text)}</th>" for text in heads)
    body = "".join(
        f"<tr><th scope=row>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>"
        for row in rows
    )
    return (
        f'<div class=wide tabindex=0 role=region aria-label="{escape(caption)}"><table class="{kind}">'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _figure(plot: Plot) -> str:
    return (
        f'<figure id="plot-{plot.key}"><h3>{escape(plot.title)}</h3><div class=wide tabindex=0 role=region '
        f'aria-label="{escape(plot.title)}">{plot.svg}</div><figcaption>{escape(plot.caption)}</figcaption></figure>'
    )


def _gates(results: Sequence[GateResult]) -> Iterator[str]:
    if not results:
        return
    head = escape(summary(results).capitalize())
    yield f"<section id=gates aria-labelledby=gates-head><h2 id=gates-head>{head}</h2><ul>"
    for result in results:
        yield f'<li class="gate {result.answer}"><b>{result.answer.upper()}</b> <code>{escape(result.gate)}</code>'
        yield f"<p>{escape(result.found)}</p>"
        yield "".join(f"<p>{escape(remark)}</p>" for remark in result.remarks)
        for word, flips in (("worse", result.worse), ("better", result.better)):
            if flips:
                rest = f" and {len(flips) - FLIPS_AT_MOST} more" if len(flips) > FLIPS_AT_MOST else ""
                shown = escape(", ".join(flips[:FLIPS_AT_MOST]))
                yield f"<details><summary>{len(flips)} items {word}</summary><p>{shown}{rest}</p></details>"
        yield "</li>"
    yield "</ul></section>"


def _inert_json(data: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever the model wrote."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode("utf-8", "replace").decode()  # half a surrogate pair is no character


def _asset(name: str) -> str:
    return files("pytest_elo.report.page").joinpath(name).read_text(encoding="utf-8")


def _sha256(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
