"""How an outcome shows in pytest's progress and summary: its own letter and word, never a failure."""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["test_status"]

LETTERS = {
    "wrong": "W",
    "partial": "P",
    "no_answer": "N",
    "truncated": "T",
    "empty": "O",
    "refused": "R",
    "filtered": "L",
    "context_exceeded": "C",
    "limit_exceeded": "X",
}


def test_status(report: pytest.TestReport) -> tuple[str, str, Any] | None:
    """(category, letter, word) for a graded item that passed as a test; ``None`` leaves it to pytest."""
    status = getattr(report, "elo_status", None)
    if report.when != "call" or not report.passed or status not in LETTERS:
        return None
    word = str(status).replace("_", " ")
    return word, LETTERS[status], (word.upper(), {"yellow": True})


test_status.__test__ = False  # type: ignore[attr-defined]
