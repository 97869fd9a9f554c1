"""The docker runner by its command line, with a stand-in engine that runs the program in a local folder.

The stand-in shows that plan, program, grader and clean-up fit together. With ``ELO_CONTAINER_IMAGE`` the real
docker or podman of the machine is used: the name of an image with bash, git, patch, ``python`` and the tree of
``mini/money`` at ``/testbed``.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from pytest_elo.errors import ConfigError
from pytest_elo.tasks.swebench.containers import ContainerRunner, find_engine
from pytest_elo.tasks.swebench.errors import RunnerError
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.local.runner import LocalRunner
from pytest_elo.tasks.swebench.sandbox import Limits

IMAGE = os.environ.get("ELO_CONTAINER_IMAGE")

ENGINE = """#!/bin/bash
# run OPTIONS --entrypoint bash IMAGE -c PROGRAM: the tree of the "image" is copied to a folder of its own
echo "$@" | head -c 2000 | tr '\\n' ' ' >> {folder}/calls; echo >> {folder}/calls
[ "$1" = version ] && exit 0
[ "$1" = kill ] && exit 0
[ -e {folder}/broken ] && {{ echo "no space left on device" >&2; exit 125; }}
root=$(mktemp -d -p {folder}); mkdir $root/tmp; cp -a {tree} $root/testbed
exec env -i ELO_ROOT=$root PATH={path} HOME=$root/tmp PYTHONPATH=$root/testbed bash -c "${{@: -1}}"
"""


@pytest.fixture
def instance(suite: dict[str, Instance]) -> Instance:
    return dataclasses.replace(suite["money"], image="swebench/sweb.eval.x86_64.mini_1776_money-1:latest")


@pytest.fixture
def engine(tmp_path: Path, runner: LocalRunner, instance: Instance, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "bin" / "docker"
    path.parent.mkdir()
    tree = runner.workspace(instance).tree
    path.write_text(ENGINE.format(folder=tmp_path, tree=tree, path=os.environ["PATH"]))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    return find_engine("docker")


def test_verdicts_are_those_of_the_local_runner(engine: str, instance: Instance, tmp_path: Path) -> None:
    docker = ContainerRunner(engine=engine, cache=tmp_path, limits=Limits(wall_s=60, memory_mb=2048))
    assert docker.preflight(instance).faithful
    wrong = instance.patch.replace("divmod(cents, people)", "divmod(cents, 7)")
    assert docker.evaluate(instance, wrong, generated=True).verdict.reason == "unresolved"
    refused = docker.evaluate(instance, instance.patch.replace("a/money", "/money"), generated=True)
    assert refused.verdict.reason == "patch_refused"
    calls = (tmp_path / "calls").read_text().splitlines()
    run = next(call for call in calls if call.startswith("run "))
    for option in (
        "--rm",
        "--network none",
        "--memory 2048m",
        "--pids-limit 512",
        "--cap-drop ALL",
        instance.image,
    ):
        assert option in run
    assert sum(call.startswith("kill elo-") for call in calls) == 3
    with docker.session(instance, instance.patch, 5.0) as session:
        assert session.run("git diff --stat | tail -1").output.startswith(" 2 files changed")


def test_engine_failures_are_the_harnesss(engine: str, instance: Instance, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    docker = ContainerRunner(engine=engine, cache=tmp_path)
    with pytest.raises(RunnerError, match="docker could not run it: no space left"):
        docker.evaluate(instance, instance.patch, generated=True)
    with pytest.raises(ConfigError, match="has no 'image'"):
        docker.evaluate(dataclasses.replace(instance, image=""), instance.patch, generated=True)


def test_no_engine_says_what_each_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = tmp_path / "podman"
    silent.write_text("#!/bin/sh\necho 'Cannot connect to the daemon' >&2; exit 1\n")
    silent.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda name: str(silent) if name == "podman" else None)
    with pytest.raises(ConfigError, match=r"docker is not installed; podman does not answer \(Cannot connect"):
        find_engine()


@pytest.mark.skipif(IMAGE is None, reason="ELO_CONTAINER_IMAGE is not set: an image with mini/money at /testbed")
def test_a_real_engine_gives_the_same_verdicts_and_leaves_nothing(suite: dict[str, Instance], tmp_path: Path) -> None:
    instance = dataclasses.replace(suite["money"], image=IMAGE or "")
    engine = find_engine()
    docker = ContainerRunner(engine=engine, cache=tmp_path, limits=Limits(wall_s=60, memory_mb=2048))
    assert docker.preflight(instance).faithful
    wrong = instance.patch.replace("divmod(cents, people)", "divmod(cents, 7)")
    assert docker.evaluate(instance, wrong, generated=True).verdict.reason == "unresolved"
    with docker.session(instance, instance.patch, 10.0) as session:
        connect = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
        assert "Network is unreachable" in session.run(f'python -c "{connect}"').output
        assert session.diff().count("diff --git") == 2
    word = f"elo-contained-{os.getpid()}"
    hangs = "--- a/money/split.py\n+++ b/money/split.py\n@@ -1,2 +1,4 @@\n"
    hangs += ' """Share a sum without losing a cent."""\n+import subprocess, time\n'
    hangs += f"+subprocess.Popen(['setsid', 'bash', '-c', 'exec -a {word} sleep 300']); time.sleep(300)\n \n"
    impatient = dataclasses.replace(docker, limits=Limits(wall_s=5))
    assert impatient.evaluate(instance, hangs, generated=True).verdict.reason == "timeout"
    assert word not in subprocess.run(["ps", "-ef"], capture_output=True, text=True, check=True).stdout
    listed = subprocess.run([engine, "ps", "--all", "--quiet"], capture_output=True, text=True, check=True)
    assert listed.stdout == ""
