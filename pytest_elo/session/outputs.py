"""What a session leaves beside its rows once it is rated: the report's files, and copies where they were asked for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_elo.errors import EloError

if TYPE_CHECKING:
    from pytest_elo.report.build import Report

__all__ = ["load", "write_outputs"]


def load() -> None:
    """Import now what the items and the session's end will need, so that neither has to wait for it."""
    import tabulate  # noqa: F401

    import pytest_elo.engine
    import pytest_elo.rating.outcomes
    import pytest_elo.report.build
    import pytest_elo.report.ci
    import pytest_elo.report.files
    import pytest_elo.report.page
    import pytest_elo.report.table
    import pytest_elo.session.asking
    import pytest_elo.session.budget  # noqa: F401
    from pytest_elo.ledger.fast import decoder

    decoder()


def write_outputs(
    report: Report, run_dir: Path, *, with_page: bool, is_whole: bool, elo_json: Path | None, png: Path | None
) -> Iterator[str]:
    """Write all files; yields one sentence for each that could not be made. A part of a suite has no summary."""
    from pytest_elo.report.ci import write_step_summary
    from pytest_elo.report.files import write_files

    write_files(report, run_dir, with_page=with_page)
    if is_whole:
        write_step_summary(report)
    if png is not None:
        from pytest_elo.report.plots.draw import write_png

        try:
            write_png(report, png)
        except EloError as error:
            yield str(error)
    if elo_json is not None:
        elo_json.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run_dir / "elo.json", elo_json)
