"""The suite of sums that the benchmarks of a whole session run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["KEY", "TEST", "TIERS", "write_suite"]

KEY = "sk-canary-0b9d8c7e6f5a4b3c"
TIERS = {"baseline": {"kind": "single"}, "r3": {"kind": "vote", "n": 3}}
TEST = """
import pytest

@pytest.mark.elo("sums", kind="own", data="tasks.jsonl")
def test_sums(trial):
    trial.grade()
"""


def write_suite(
    folder: Path,
    base_url: str,
    items: int,
    strategies: Mapping[str, Mapping[str, Any]] = TIERS,
    *,
    ini: str = "",
    gateway: Mapping[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Write ``evals/`` with as many questions under ``folder``, replacing what stands there.

    ``gateway`` and ``settings`` are keys of ``elo.yaml``, ``ini`` lines of ``pytest.ini``.
    """
    evals = folder / "evals"
    evals.mkdir(parents=True, exist_ok=True)
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}")
    (evals / "test_sums.py").write_text(TEST)
    rows = ({"id": f"sum{i:05d}", "prompt": f"What is {i} + {i}?", "numeric": 2 * i} for i in range(items))
    (evals / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    access = {"base_url": base_url, **(gateway or {})}
    (evals / "elo.yaml").write_text(
        json.dumps({"model": "test-model", "gateway": access, "strategies": strategies, **settings})
    )
