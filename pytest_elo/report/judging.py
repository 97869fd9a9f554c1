"""From reports and files to what gates judge: this run, and the stored ones it is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_elo.errors import DataError
from pytest_elo.gates.baseline import baseline_path, load, stored_names
from pytest_elo.gates.judged import JudgedRun
from pytest_elo.gates.snapshot import Snapshot, snapshot_of
from pytest_elo.ledger.lines import present
from pytest_elo.ledger.prices import prices_of
from pytest_elo.ledger.read import read_outcomes
from pytest_elo.ledger.rundir import RunDir
from pytest_elo.ledger.stream import read_sums
from pytest_elo.ledger.totals import totals_of
from pytest_elo.report.build import Report, rating_at

if TYPE_CHECKING:
    from pytest_elo.rating.results import RatingReport

__all__ = ["judged_run", "run_snapshot", "stored_run"]


def judged_run(report: Report, declared: Sequence[str]) -> JudgedRun:
    """A report as gates see it; ratings at other levels are computed when one is asked for."""

    @lru_cache
    def rate(level: float | None) -> RatingReport | None:
        return report.rating if level is None else rating_at(report, level)

    judges = {task: set(models) for task, models in report.totals.judges.items()}
    for arena in report.arenas:
        judges.setdefault(arena.task_id, set()).update(arena.judges)
    return JudgedRun(
        snapshot=snapshot_of("this run", report.header, report.outcomes, report.totals),
        outcomes=report.outcomes,
        totals=report.totals,
        rate=rate,
        unrated=report.unrated,
        declared=declared,
        judges=report.totals.judges,
    )


def stored_run(name: str, folder: Path, cwd: Path) -> Snapshot | None:
    """The run a user calls ``name``: a baseline of ``folder``, a run directory or a baseline file.

    ``None`` where ``folder`` holds no baseline at all. Raises ``ConfigError`` or ``DataError``.
    """
    path = cwd / name
    if path.is_dir():
        return run_snapshot(path, name)
    if path.is_file():
        return load(path, name)
    if "/" in name:
        raise DataError(f"{path}: no run directory and no baseline file")
    if not stored_names(folder):
        return None
    return load(baseline_path(folder, name), name)


def run_snapshot(path: Path, name: str) -> Snapshot:
    """A run directory as a snapshot. Raises ``DataError``."""
    run = RunDir(path)
    if not present(run.outcomes).is_file():
        raise DataError(f"{path}: no outcomes.jsonl, so this is no finished run; runs stand under .elo/")
    outcomes = list(read_outcomes(run.outcomes, lambda _: None))
    header = run.checked_header()
    totals = totals_of(read_sums(run.runs, lambda _: None), prices_of(header))
    return snapshot_of(name, header, outcomes, totals)
