"""What a CI system is told by itself: GitHub's job summary."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from pytest_elo.report.build import Report
from pytest_elo.report.markdown import markdown

__all__ = ["write_step_summary"]


def write_step_summary(report: Report, environment: Mapping[str, str] = os.environ) -> None:
    """Append the report to ``$GITHUB_STEP_SUMMARY``; a summary that cannot be written breaks no run."""
    path = environment.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as stream:
        stream.write(markdown(report) + "\n")
