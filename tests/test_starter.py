"""``pytest-elo init`` writes a suite into any repository; it passes as generated, without a key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_elo.config import load
from pytest_elo.starter import starter_files
from pytest_elo.tasks import own

ROOT = Path(__file__).parents[1]
STRICT = "[pytest]\naddopts = --strict-markers --strict-config\nfilterwarnings = error\ntestpaths = tests\n"


def command(cwd: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    names = ("PYTEST_", "TAOTOKEN", "OPENAI", "AGENT_MODEL", "COV_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=cwd, env=clean | env, capture_output=True, text=True, check=False
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Someone's repository, with tests and strict settings of its own."""
    (tmp_path / "pytest.ini").write_text(STRICT)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_own.py").write_text("def test_own():\n    assert True\n")
    return tmp_path


def test_it_passes_as_generated(repository: Path) -> None:
    written = command(repository, "pytest_elo", "init")
    assert written.returncode == 0, written.stderr
    assert "now run: pytest evals" in written.stdout
    run = command(repository, "pytest", "evals", "tests", "-p", "no:cacheprovider")
    assert run.returncode == 0, run.stdout
    assert "no model was called" in run.stdout
    table = [line.split()[0] for line in run.stdout.splitlines() if line.startswith(("baseline   ", "r3   "))]
    assert table == ["baseline", "r3"] * 2  # the strategies, and what stands behind each ΔElo


def test_it_overwrites_nothing(repository: Path) -> None:
    (repository / "evals").mkdir()
    (repository / "evals" / "elo.yaml").write_text("model: mine\n")
    process = command(repository, "pytest_elo", "init", "evals")
    assert process.returncode == 4
    assert process.stderr.splitlines() == [
        f"ERROR: {Path('evals', 'elo.yaml')} exists already; init overwrites nothing, name another folder"
    ]
    assert [path.name for path in (repository / "evals").iterdir()] == ["elo.yaml"]


def test_its_requests_are_a_part_of_the_shipped_suites(tmp_path: Path) -> None:
    """So its recordings are cut out of theirs (``tools/starter_recordings.py``)."""
    for name, text in starter_files().items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    starter, shipped = own.load(tmp_path / "tasks.yaml"), own.load(ROOT / "evals" / "data" / "own_tasks.yaml")
    for item_id in starter.item_ids:
        ours, theirs = starter.pose(item_id, 0), shipped.pose(item_id, 0)
        assert (ours.messages, ours.max_tokens, ours.grading) == (theirs.messages, theirs.max_tokens, theirs.grading)
    small, large = load(tmp_path / "elo.yaml"), load(ROOT / "evals" / "elo.yaml")
    assert set(map(repr, small.strategies)) <= set(map(repr, large.strategies))
    assert (small.seed, small.repeats, small.model) == (large.seed, large.repeats, large.model)
