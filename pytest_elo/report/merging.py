"""``pytest-elo merge``: join run directories, rate them as one, and judge the gates that shards left open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_elo.gates.judge import Judging, judge
from pytest_elo.gates.language import parse
from pytest_elo.gates.results import exit_code
from pytest_elo.ledger.merge import join
from pytest_elo.report.build import Report, build
from pytest_elo.report.ci import write_step_summary
from pytest_elo.report.files import write_files
from pytest_elo.report.judging import judged_run, stored_run
from pytest_elo.report.table import lines

__all__ = ["merge_runs"]

INCOMPLETE = 1


def merge_runs(directories: Sequence[Path], target: Path, *, gates: Sequence[str], with_page: bool) -> int:
    """Join, report and judge; returns the exit code: 0, or 1 for a failed gate and for what is missing."""
    joined = join(directories, target)
    report = build(target)
    if not joined.missing:
        report = _judged(report, [(text, "--gate") for text in gates])
    write_files(report, target, with_page=with_page)
    write_step_summary(report)
    for line in lines(report):
        print(line)
    runs = "1 run" if joined.runs == 1 else f"{joined.runs} runs"
    print(f"joined {runs}: {joined.rows:,} attempts and {joined.outcomes:,} outcomes in {target}")
    for sentence in joined.missing:
        print(f"MISSING: {sentence}")
    if joined.missing:
        print("not all is there, so no gate was judged")
        return INCOMPLETE
    return exit_code(report.gates)


def _judged(report: Report, more: Sequence[tuple[str, str]]) -> Report:
    stored: Mapping[str, Any] = report.header.get("gates") or {}
    rules = [*((text, "run.json: gates") for text in stored.get("rules", ())), *more]
    if not rules:
        return report
    folder = Path(stored.get("baselines") or "baselines")
    how = Judging(
        strict=bool(stored.get("strict", False)),
        allowed=tuple(stored.get("allow", ())),
        selection=str(stored.get("selection", "")),
        baseline=lambda name: stored_run(name, folder, Path.cwd()),
    )
    parsed = [parse(text, where) for text, where in rules]
    return replace(report, gates=judge(parsed, judged_run(report, list(report.header.get("strategies", {}))), how))
