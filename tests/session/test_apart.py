"""Workers that share no disk with the controller: each sees a folder of its own where the runs should stand.

A mount namespace makes the other disk; ``benchmarks/two_hosts.py`` does the same over ssh between network namespaces.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness import Suite
from tests.loopback import LoopbackGateway, Request, Response

UNSHARE = ["unshare", "--mount", "--map-root-user"]


@pytest.fixture
def apart(suite, tmp_path):
    """Options for two workers, each on a disk of its own; the disks are ``disk-*`` folders."""
    program = shutil.which("unshare")
    if program is None or subprocess.run([*UNSHARE, "mount", "--bind", tmp_path, tmp_path], check=False).returncode:
        pytest.skip("needs user and mount namespaces (unshare --mount --map-root-user)")
    runs = suite.path / ".elo"
    runs.mkdir()
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        f'disk={tmp_path}/disk-$$; mkdir -p "$disk"\n'
        f'exec {" ".join(UNSHARE)} sh -c \'mount --bind "$0" {runs} && exec {sys.executable} "$@"\' "$disk" "$@"\n'
    )
    python.chmod(0o755)
    return ["--dist", "load", "--tx", f"2*popen//python={python}"]


def disks(tmp_path: Path) -> list[Path]:
    return sorted(path for path in tmp_path.glob("disk-*") if any(path.iterdir()))


def test_rows_outcomes_and_replies_travel_in_reports(suite: Suite, answer, apart, tmp_path) -> None:
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, *apart)
        assert run.exit_code == 0, run.output
        assert len(disks(tmp_path)) == 2
        assert len(run.rows) == len(gateway.requests)
        assert sum(row["total_tokens"] for row in run.rows) == gateway.bill.total_tokens
        # the replies are here now: a run on this disk buys nothing but its preflight
        bought = len(gateway.requests)
        cached = suite.live(gateway, "--elo-cache", "-n", "0")
        assert len(gateway.requests) == bought + 1
        whole = suite.live(gateway, "-n", "0")
    assert {run.text("pairwise.json"), cached.text("pairwise.json")} == {whole.text("pairwise.json")}
    assert "note: worker" not in run.output


def test_each_has_its_part_of_a_budget(suite: Suite, slow_answer, apart) -> None:
    with LoopbackGateway(slow_answer) as gateway:
        run = suite.set(max_tokens=16).live(gateway, *apart, "--elo-token-budget", "300")
    assert run.exit_code == 2, run.output
    assert 0 < sum(row["total_tokens"] for row in run.charged) <= 300


def test_what_a_lost_one_bought_is_unknown_until_its_shard_is_brought(suite: Suite, answer, apart, tmp_path) -> None:
    suite.items(24).file(
        "evals/test_sums.py",
        """
        import os, pathlib, signal, time
        import pytest

        @pytest.mark.elo("sums", kind="own", data="tasks.yaml")
        def test_sums(trial):
            died = pathlib.Path("died")
            if not died.exists():
                died.touch()
                time.sleep(2)  # replies arrive that no report has carried yet
                os.kill(os.getpid(), signal.SIGKILL)
            trial.grade()
        """,
    )

    def later(request: Request) -> Response:
        said = request.body["messages"][-1]["content"].split()
        return replace(answer(request), delay_s=0.7 if said[0] == "What" and said[2] != "0" else 0.0)

    with LoopbackGateway(later) as gateway:
        run = suite.live(gateway, *apart, "--max-worker-restart", "0")
        assert run.exit_code != 0, run.output
        assert "on another disk was lost: what it bought since its last report is unknown" in run.output
        assert sum(row["total_tokens"] for row in run.rows) < gateway.bill.total_tokens
        for disk in disks(tmp_path):
            for name in ("shards", "responses"):
                shutil.copytree(disk / run.run_dir.name / name, run.run_dir / name, dirs_exist_ok=True)
        bought = len(gateway.requests)
        whole = suite.live(gateway, "--elo-resume", "-n", "0")
        assert whole.exit_code == 0, whole.output
        assert "was lost" not in whole.output
        assert len(gateway.requests) == bought + 1  # the preflight: everything else had been bought
        assert sum(row["total_tokens"] for row in whole.rows) == gateway.bill.total_tokens
    assert len(whole.outcomes) == 48
