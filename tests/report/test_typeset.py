from __future__ import annotations

import pytest

from pytest_elo.report.typeset import typeset


@pytest.mark.parametrize("rows", [[], [["r3"]], [["r3"], ["r5"]]])
@pytest.mark.parametrize("style", ["simple", "pipe", "latex"])
def test_a_table_may_be_narrower_than_its_alignment_or_empty(rows: list[list[str]], style: str) -> None:
    lines = typeset(rows, ["strategy"], ["left", "right", "left"], style).splitlines()
    assert any("strategy" in line for line in lines)
    assert all(any(row[0] in line for line in lines) for row in rows)
