"""A report in the forms that other tools read: Markdown, CSV, JSON, LaTeX and a page."""

from __future__ import annotations

from collections.abc import Callable

from pytest_elo.report.build import Report
from pytest_elo.report.files import elo_csv, elo_json
from pytest_elo.report.flags import labels
from pytest_elo.report.markdown import markdown
from pytest_elo.report.table import header_lines, lines
from pytest_elo.report.tables import plain_columns, strategy_columns

__all__ = ["FORMATS", "render"]


def render(report: Report, form: str) -> str:
    """The report as one of ``FORMATS``, ending in a newline."""
    return FORMATS[form](report)


def latex(report: Report) -> str:
    """The strategy table for a paper (package booktabs), with the facts it needs as comments and caption."""
    rows, heads = plain_columns(report)
    if report.rating is not None:
        rows, heads = strategy_columns(report.rating, [task.task for task in report.rating.tasks], labels(report))
    facts = header_lines(report)
    out = [f"% {line}" for line in facts]
    out += [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * (len(heads) - 2)}l}}", r"\toprule"]
    out += [" & ".join(_tex(head.replace("\n", " ")) for head in heads) + r" \\", r"\midrule"]
    out += [" & ".join(_tex(cell) for cell in row) + r" \\" for row in rows]
    out += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{_tex('; '.join(facts[-3:]))}.}}", r"\end{table}"]
    return "\n".join(out) + "\n"


_TEX = {
    "\\": r"\textbackslash{}",
    "Δ": r"$\Delta$",
    "±": r"$\pm$",
    "->": r"$\to$",
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
}


def _tex(text: str) -> str:
    out, rest = "", text
    while rest:
        sign = next((sign for sign in _TEX if rest.startswith(sign)), rest[0])
        out, rest = out + _TEX.get(sign, sign), rest[len(sign) :]
    return out


def _text(report: Report) -> str:
    return "\n".join(lines(report)) + "\n"


def _page(report: Report) -> str:
    from pytest_elo.report.page import page

    return page(report)


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": _text,
    "md": markdown,
    "csv": elo_csv,
    "json": elo_json,
    "latex": latex,
    "html": _page,
}
