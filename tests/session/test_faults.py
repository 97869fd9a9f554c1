"""What happens around a run: full and read-only disks, a clock that goes back, other runs, a network that is gone.

``docs/running.md`` has a table of faults; each of its rows names the test that holds it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness import KEY, Run, Suite
from tests.loopback import LoopbackGateway, Request, Response, error

UNSHARE = ["unshare", "--mount", "--map-root-user"]


@pytest.fixture
def small_disk(suite, tmp_path):
    """Runs stand on a disk of 96 kB that is gone with the session."""
    require_namespaces()
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


@pytest.fixture
def read_only(suite):
    """``.elo`` is a file system that takes nothing."""
    require_namespaces()
    (suite.path / ".elo").mkdir()
    suite.within = [*UNSHARE, "sh", "-c", 'mount -t tmpfs -o ro none .elo && exec "$@"', "sh"]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_read_only_directory_is_refused_before_anything_is_bought(suite: Suite, answer, read_only, workers) -> None:
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "-n", workers)
        assert not gateway.requests
    assert run.exit_code == 4, run.output
    assert "the run directory cannot be written (Read-only file system); choose another with --elo-dir" in run.output
    assert "Traceback" not in run.output


BACKWARDS = """
import pathlib
import time

real = time.time
time.time = lambda: real() - (3600 if pathlib.Path("gone-back").exists() else 0)


def pytest_runtest_logreport(report):
    if report.when == "call" and "sum002" in report.nodeid:
        pathlib.Path("gone-back").touch()
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_clock_that_goes_back_an_hour_changes_no_number(suite: Suite, answer, workers) -> None:
    busy = Counter()

    def sometimes_busy(request: Request) -> Response:
        busy[str(request.body)] += 1
        is_first = busy[str(request.body)] == 1 and request.number % 5 == 4
        return error(429, "slow down", headers={"retry-after": "0.2"}) if is_first else answer(request)

    with LoopbackGateway(answer) as gateway:
        undisturbed = suite.live(gateway, "-n", workers)
    suite.file("evals/conftest.py", BACKWARDS)
    with LoopbackGateway(sometimes_busy) as gateway:
        run = suite.live(gateway, "-n", workers, "--elo-concurrency", "4")
        assert len(run.rows) == len(gateway.requests)
        assert sum(row["total_tokens"] for row in run.rows) == gateway.bill.total_tokens
    assert (suite.path / "gone-back").exists()
    assert run.exit_code == 0, run.output
    assert run.text("pairwise.json") == undisturbed.text("pairwise.json")
    assert run.text("elo.csv") == undisturbed.text("elo.csv")
    assert all(row["latency_s"] >= 0 for row in run.rows)


def test_two_runs_in_one_directory_and_two_side_by_side(suite: Suite, slow_answer) -> None:
    with LoopbackGateway(slow_answer) as gateway:
        suite.settings["gateway"] = {"base_url": gateway.base_url}
        key = {"TAOTOKEN_API_KEY": KEY}
        first = suite.start("-n", "2", "--elo-dir", ".elo/mine", "--elo-concurrency", "2", env=key)
        until(lambda: len(gateway.requests) > 3)
        intruder = suite.live(gateway, "--elo-dir", ".elo/mine")
        beside = suite.live(gateway)
        output, _ = first.communicate(timeout=120)
    assert intruder.exit_code == 4, intruder.output
    assert ".elo/mine: another run is writing here; give each run its own --elo-dir" in intruder.output
    assert (first.returncode, beside.exit_code) == (0, 0), output
    assert "recovered" not in beside.output, "a live run is no killed one"
    mine = Run(0, output, suite.path / ".elo/mine")
    assert len(mine.outcomes) == len(beside.outcomes) == 16
    assert {row["run_id"] for row in mine.charged} == {"mine"}
    assert mine.text("pairwise.json") == beside.text("pairwise.json")


def test_two_runs_of_one_id_are_told_apart(suite: Suite, answer) -> None:
    """As two machines make them that take the build's number for the directory."""

    def join(*folders: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest_elo", "merge", *folders, "--out", "joined"]
        return subprocess.run(command, cwd=suite.path, capture_output=True, text=True, check=False)

    with LoopbackGateway(answer) as gateway:
        one = suite.live(gateway, "--elo-dir", "one/build7")
        rows = (suite.path / "one/build7/runs.jsonl").read_text()
        again = suite.live(gateway, "--elo-dir", "one/build7")
        other = suite.live(gateway, "--elo-dir", "other/build7")
        for shard in ("1", "2"):
            suite.live(gateway, "--elo-shard", f"{shard}/2", "--elo-dir", f"machine{shard}/build8")
    assert (one.exit_code, again.exit_code, other.exit_code) == (0, 4, 0)
    assert "one/build7 holds a run already; go on with it by --elo-resume=" in again.output
    assert (suite.path / "one/build7/runs.jsonl").read_text() == rows
    mixed = join("one/build7", "other/build7")
    assert mixed.returncode == 4, mixed.stderr
    assert "two outcomes of sums/sum000 under baseline, repeat 0: one in one/build7, another in other/" in mixed.stderr
    assert not (suite.path / "joined").exists()
    parts = join("machine1/build8", "machine2/build8")
    assert parts.returncode == 0, parts.stderr
    assert (suite.path / "joined/elo.csv").read_text() == (suite.path / "one/build7/elo.csv").read_text()


class Outage:
    """Stops a gateway after some requests; another answers on its port after ``seconds``, or only after ``end``."""

    def __init__(self, gateway: LoopbackGateway, script, after: int, seconds: float | None = None) -> None:
        self.second = LoopbackGateway(script, port=gateway.port)
        self._first, self._after, self._seconds = gateway, after, seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        until(lambda: len(self._first.requests) >= self._after)
        self._first.stop()
        self._over.wait(self._seconds)
        self.second.__enter__()

    @property
    def requests(self) -> list[Request]:
        return [*self._first.requests, *self.second.requests]

    def end(self) -> None:
        self._over.set()
        self._thread.join(60)
        self.second.stop()


def assert_accounted(run: Run, outage: Outage) -> None:
    """What the gateway saw is a row each; besides there are rows of what reached nobody, and of what broke off in a
    connection that was just going down, of which nobody knows whether it was seen."""
    unseen = len(run.rows) - len(lost(run)) - len(outage.requests)
    assert 0 <= unseen <= sum(row["error_kind"] == "reset" for row in run.rows)


def lost(run: Run) -> list[dict[str, object]]:
    """Rows of attempts that reached nobody."""
    return [row for row in run.rows if row["error_kind"] == "connect"]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_network_that_is_gone_for_a_while_is_waited_for(suite: Suite, slow_answer, workers) -> None:
    suite.set(gateway={"max_retries": 1, "patience_s": 30})
    with LoopbackGateway(slow_answer) as gateway:
        outage = Outage(gateway, slow_answer, after=9, seconds=5)
        run = suite.live(gateway, "-n", workers, "--elo-concurrency", "4")
        outage.end()
    assert run.exit_code == 0, run.output
    assert len(run.outcomes) == 16
    assert all(outcome["status"] in ("correct", "wrong") for outcome in run.outcomes)
    assert_accounted(run, outage)
    assert len(lost(run)) > 4
    assert sum(row["total_tokens"] for row in lost(run)) == 0
    assert f"({len([row for row in run.rows if row['status'] != 'ok'])} failed)" in run.output


def test_a_network_that_does_not_come_back_costs_its_items_and_no_more(suite: Suite, slow_answer) -> None:
    suite.set(gateway={"max_retries": 1, "patience_s": 0})
    with LoopbackGateway(slow_answer) as gateway:
        outage = Outage(gateway, slow_answer, after=9)
        run = suite.live(gateway, "-n", "0", "--elo-concurrency", "4")
        assert run.exit_code == 1, run.output
        kept = {(o["item_id"], o["strategy"]) for o in run.outcomes if o["status"] != "infra_error"}
        assert 0 < len(kept) < 16
        assert f"{16 - len(kept)} infra_error" in run.output
        outage.end()
    with LoopbackGateway(slow_answer, port=gateway.port) as back:
        resumed = suite.live(back, "--elo-resume")
        assert {(item, strategy) for item, strategy in map(place, back.requests)} & kept == set()
    assert resumed.exit_code == 0, resumed.output
    assert len(resumed.outcomes) == 16


def test_a_gateway_that_restarts_in_mid_run_costs_rows_and_no_item(suite: Suite, slow_answer) -> None:
    with LoopbackGateway(slow_answer) as gateway:
        outage = Outage(gateway, slow_answer, after=9, seconds=0.1)
        run = suite.live(gateway, "-n", "2", "--elo-concurrency", "4")
        outage.end()
    assert run.exit_code == 0, run.output
    assert len(run.outcomes) == 16
    broken = [row for row in run.rows if row["error_kind"] == "reset"]
    assert_accounted(run, outage)
    # what broke off was billed by the gateway perhaps: the row says from nothing to how much
    assert all(row["total_tokens"] < row["total_tokens_high"] for row in broken)


def test_journals_as_a_network_file_system_leaves_them(suite: Suite, answer) -> None:
    """Writes that are not atomic across clients: lines torn in the middle, holes of NUL, lines late and twice."""
    hold = {"sum006": True}

    def held(request: Request) -> Response:
        is_held = hold["sum006"] and "What is 6 " in request.body["messages"][-1]["content"]
        return replace(answer(request), delay_s=60 if is_held else 0)

    with LoopbackGateway(held) as gateway:
        suite.settings["gateway"] = {"base_url": gateway.base_url, "timeout_s": 90}
        process = suite.start("-n", "0", env={"TAOTOKEN_API_KEY": KEY})
        until(lambda: len(gateway.requests) >= 33)  # with preflight's
        time.sleep(1)
        process.kill()
        process.communicate()
        hold["sum006"] = False
        (killed,) = (suite.path / ".elo").glob("2*")
        (shard,) = (path for path in (killed / "shards").glob("*.jsonl") if path.name != "controller.jsonl")
        (store,) = (killed / "responses").glob("recorded-*.jsonl")
        n_torn = mangle(shard)
        mangle(store)
        bought = len(gateway.requests)
        resumed = suite.live(gateway, "--elo-resume")
        again = len(gateway.requests) - bought
    assert resumed.exit_code == 0, resumed.output
    assert len(resumed.outcomes) == 16
    assert f"{n_torn} lines of the journals are torn: what only they told is in no sum and no rating" in resumed.output
    assert "3 replies in responses/ are torn: not found, bought anew" in resumed.output
    assert f"note: {n_torn} lines of the journals are torn" in resumed.output, "in the report, not only at the start"
    assert 4 < again < 16
    known = sum(row["total_tokens"] for row in resumed.rows)
    assert (
        known
        <= gateway.bill.total_tokens
        <= known + 15 * n_torn + sum(row["total_tokens_high"] - row["total_tokens"] for row in resumed.rows)
    )
    with LoopbackGateway(answer) as gateway:
        suite.settings["gateway"] = {}
        undisturbed = suite.live(gateway)
    assert resumed.text("pairwise.json") == undisturbed.text("pairwise.json")


def mangle(path: Path) -> int:
    """Tear two lines, cover a stretch with NUL, repeat one and turn the order round; returns how many are torn."""
    lines = path.read_bytes().splitlines()
    lines[3] = lines[3][: len(lines[3]) // 2] + lines[4]
    lines[8] = lines[8][len(lines[8]) // 3 :]
    lines[12] = b"\0" * len(lines[12] + lines[13]) + lines[14]
    del lines[13:15], lines[4]
    path.write_bytes(b"\n".join([*reversed(lines), lines[0]]) + b"\n")
    return 3


def place(request: Request) -> tuple[str, str]:
    """(item, strategy) that a request is made for: several samples are asked warm."""
    number = request.body["messages"][-1]["content"].split()[2]
    return f"sum{int(number):03d}" if number.isdigit() else "", "r3" if request.body["temperature"] else "baseline"


def require_namespaces() -> None:
    if shutil.which("unshare") is None or subprocess.run([*UNSHARE, "true"], check=False).returncode:
        pytest.skip("needs user and mount namespaces (unshare --mount --map-root-user)")


def until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()
