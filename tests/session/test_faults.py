"""What happens around a run: a full disk, a clock that goes back, a gateway that is gone for a while."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness import Suite
from tests.loopback import LoopbackGateway

UNSHARE = ["unshare", "--mount", "--map-root-user"]


@pytest.fixture
def small_disk(suite, tmp_path):
    """Runs stand on a disk of 96 kB that is gone with the session."""
    if shutil.which("unshare") is None or subprocess.run([*UNSHARE, "true"], check=False).returncode:
        pytest.skip("needs user and mount namespaces (unshare --mount --map-root-user)")
    (suite.path / ".elo").mkdir()
    suite.within = [*UNSHARE, "sh", "-c", 'mount -t tmpfs -o size=96k none .elo && exec "$@"', "sh"]
    return tmp_path


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_full_disk_stops_the_run_and_its_ledger_stands_elsewhere(suite: Suite, answer, small_disk, workers) -> None:
    suite.items(60)
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "-n", workers, env={"TMPDIR": str(small_disk)})
        assert run.exit_code in (2, 4), run.output
        assert "cannot be written (No space left on device)" in run.output
        assert "INTERNALERROR" not in run.output
        assert "Traceback" not in run.output
        (rescued,) = small_disk.glob("pytest-elo-*")
        assert str(rescued) in run.output
        known, bought = len(_lines(rescued / "runs.jsonl")), len(gateway.requests)
        assert known == bought < 60 * 4
        suite.within = []
        shutil.copytree(rescued, suite.path / ".elo" / rescued.name.removeprefix("pytest-elo-"))
        resumed = suite.live(gateway, f"--elo-resume=.elo/{rescued.name.removeprefix('pytest-elo-')}")
    assert resumed.exit_code == 0, resumed.output
    assert len(resumed.outcomes) == 120
    assert sum(row["total_tokens"] for row in resumed.rows) == gateway.bill.total_tokens


def test_a_directory_that_holds_a_run_is_not_written_over(suite: Suite, answer) -> None:
    with LoopbackGateway(answer) as gateway:
        first = suite.live(gateway, "--elo-dir", "mine")
        rows = (suite.path / "mine/runs.jsonl").read_text()
        bought = len(gateway.requests)
        second = suite.live(gateway, "--elo-dir", "mine")
        assert len(gateway.requests) == bought
    assert (first.exit_code, second.exit_code) == (0, 4)
    assert "mine holds a run already; go on with it by --elo-resume=" in second.output
    assert (suite.path / "mine/runs.jsonl").read_text() == rows


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()
