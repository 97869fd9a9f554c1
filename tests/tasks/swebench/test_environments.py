"""Environments and other folders that are built once: by one of many, whole, and anew after a kill."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.local.archives import commit_archive, read_archive
from pytest_elo.tasks.swebench.local.environments import (
    EnvironmentSpec,
    build_environment,
    known_specs,
    spec_for,
)
from pytest_elo.tasks.swebench.locks import build_once, exclusive, prune, slot
from pytest_elo.tasks.swebench.rows import load_instances
from pytest_elo.tasks.swebench.sandbox import choose_sandbox
from tests.walls import needs_walls

ROOT = Path(__file__).parents[3]
DATA = ROOT / "evals" / "data" / "swebench"
THIS = f"{sys.version_info.major}.{sys.version_info.minor}"

BUILD = """
import subprocess, sys
from pathlib import Path
from pytest_elo.tasks.swebench.locks import build_once, prune
from pytest_elo.tasks.swebench.sandbox import choose_sandbox
folder, seconds = Path(sys.argv[1]), sys.argv[2]
def build(target):
    command = ["bash", "-c", f"touch {target}/begun-$RANDOM$RANDOM; sleep {seconds}; touch {target}/done"]
    subprocess.run(choose_sandbox().contain(command), check=True)
print(build_once(folder, build))
"""


def build(folder: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BUILD, str(folder), str(seconds)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def processes_naming(folder: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


@needs_walls
def test_a_folder_is_built_by_one_and_anew_after_a_kill(tmp_path: Path) -> None:
    """A builder is killed half-way: nothing of it runs on; of two others one builds for both."""
    folder = tmp_path / "thing"
    killed = build(folder, 300)
    deadline = time.monotonic() + 60
    while not list(folder.glob("begun-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    (half,) = folder.glob("begun-*")
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    while processes_naming(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_naming(folder) == []
    assert not (folder / ".complete").exists()
    pair = [build(folder, 0.5), build(folder, 0.5)]
    outputs = [process.communicate()[0].strip() for process in pair]
    assert outputs == [str(folder)] * 2
    assert {path.name for path in folder.iterdir()} > {".complete", "done"}
    assert half not in folder.glob("begun-*")
    assert len(list(folder.glob("begun-*"))) == 1


@needs_walls
def test_failed_build_leaves_nothing_and_tells_the_end_of_the_output(tmp_path: Path) -> None:
    spec = EnvironmentSpec(python=THIS, requirements=("no-such-wheel @ file:///nowhere.whl",))
    with pytest.raises(ConfigError, match="an environment could not be built"):
        build_environment(spec, tmp_path, choose_sandbox().contain([]))
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_build_once_keeps_what_is_complete(tmp_path: Path) -> None:
    built: list[Path] = []
    for _ in range(2):
        build_once(tmp_path / "thing", built.append)
    assert built == [tmp_path / "thing"]

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_once(tmp_path / "other", fail)
    assert not (tmp_path / "other").exists()


def test_prune_removes_what_was_used_longest_ago(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "data").write_bytes(b"x" * 1000)

    for age, name in enumerate(("new", "middle", "old")):
        folder = build_once(tmp_path / name, build)
        then = time.time() - age * 86400
        os.utime(folder / ".complete", (then, then))
    assert prune([tmp_path], 3000) == []
    assert prune([tmp_path], 2500) == [tmp_path / "old"]
    assert prune([tmp_path], 0) == [tmp_path / "middle"]  # the newest may be in use
    build_once(tmp_path / "old", build)
    assert (tmp_path / "old" / "data").exists()
    (tmp_path / "killed" / "bin").mkdir(parents=True)
    (tmp_path / "building").mkdir()
    with exclusive(tmp_path / "building.lock"):
        assert prune([tmp_path], 10_000) == [tmp_path / "killed"]
    assert not (tmp_path / "killed").exists()


def test_slots_are_shared_by_whoever_names_the_folder(tmp_path: Path) -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def work(_: int) -> None:
        nonlocal running, most
        with slot(tmp_path / "slots", 2):
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.05)
            with lock:
                running -= 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert most == 2


@needs_walls
def test_pytest_may_stand_outside_of_the_interpreters_prefix(tmp_path: Path) -> None:
    """As after ``pip install --user``: the interpreter has no pytest, neither as module nor as command."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    code = "from pytest_elo.tasks.swebench import load; import pathlib\n"
    code += f"task = load({str(DATA / 'instances.jsonl')!r}, only=['mini__tables-1'], cache='cache')\n"
    code += "print(task.pose('mini__tables-1', 0).preflight())"
    site = sysconfig.get_path("purelib")
    done = subprocess.run(
        [str(tmp_path / "bare" / "bin" / "python"), "-c", code],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "None\n", done.stdout + done.stderr


def test_most_specific_spec_wins(suite: dict[str, Instance], tmp_path: Path) -> None:
    path = tmp_path / "environments.json"
    path.write_text('{"mini/poly": {"python": "3.11", "requirements": ["a==1"], "network": "sink"}}')
    specs = known_specs(path)
    assert spec_for(suite["poly"], specs).requirements == ("a==1",)
    flask = dataclasses.replace(suite["poly"], repo="pallets/flask", instance_id="pallets__flask-5063")
    assert "blinker==1.6.2" in spec_for(flask, specs).requirements
    other = dataclasses.replace(flask, instance_id="pallets__flask-1")
    assert "blinker==1.6.2" not in spec_for(other, specs).requirements
    pylint = dataclasses.replace(other, repo="pylint-dev/pylint", version="9.9")
    with pytest.raises(ConfigError, match=r"pallets__flask-1 \(pylint-dev/pylint 9.9\)"):
        spec_for(pylint, specs)


def test_archives_give_the_commits_that_the_rows_name(tmp_path: Path) -> None:
    for instance in load_instances(DATA / "instances.jsonl"):
        archive = DATA / "repositories" / f"{instance.repo.replace('/', '__')}.txtar"
        os.environ.pop("GIT_DIR", None)
        assert commit_archive(archive, tmp_path / f"{instance.instance_id}.git") == instance.base_commit


def test_archives_stay_inside_the_tree(tmp_path: Path) -> None:
    path = tmp_path / "a.txtar"
    for name in ("../x", "/x", ".git/config", "a//b"):
        path.write_text(f"comment\n-- {name} --\n")
        with pytest.raises(DataError, match=r"a.txtar:2: .* is not a path inside the tree"):
            read_archive(path)
    path.write_text("no file\n")
    with pytest.raises(DataError, match="holds no"):
        read_archive(path)


@needs_walls
def test_two_workers_share_one_cache(tmp_path: Path) -> None:
    """The same items in two processes of pytest-xdist: equal verdicts from one environment and one tree."""
    (tmp_path / "test_pair.py").write_text(f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import pytest
from pathlib import Path
from pytest_elo.tasks.swebench import load
DATA = Path({str(DATA)!r})

@pytest.mark.parametrize("copy", range(4))
def test_gold(copy):
    task = load(DATA / "instances.jsonl", only=["mini__money-1"], cache={str(tmp_path / "cache")!r})
    problem = task.pose("mini__money-1", copy)
    assert problem.preflight() is None
    task = load(DATA / "instances.jsonl", cache={str(tmp_path / "cache")!r})
    gold = task.pose("mini__money-1", copy).predicted(DATA / "predictions" / "gold.jsonl")
    assert problem.grade(gold.reply).status == "correct"
""")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "2",
            "-p",
            "no:cacheprovider",
            str(tmp_path / "test_pair.py"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "4 passed" in done.stdout, done.stdout
    assert len(list((tmp_path / "cache" / "verdicts").rglob("*.json.gz"))) == 2
    assert len(list((tmp_path / "cache" / "trees").glob("*/.complete"))) == 1
