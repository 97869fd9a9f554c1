"""Two hosts of one machine: workers over ssh in network namespaces of their own, one cut off in mid-run.

Each host is a network namespace with its own address, its own mount namespace with a file system of its own, and a
real ``sshd``. The suite is copied to them by xdist, the gateway listens on the bridge between them. Checked:

1. undisturbed: every request is a row, the bill equals the ledger, comparisons equal those of ``-n 0``;
2. one host's link is cut in mid-run: the session ends, names what it does not know, and exits with 1; once the lost
   host's folders are brought, resuming makes the run whole and the ledger equal to the bill.

    sudo python benchmarks/two_hosts.py

Needs root, iproute2 and openssh-server, and a Python with the plugin installed that both "hosts" can see.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.suite import KEY, write_suite
from tests.loopback import LoopbackGateway, Request, Response, reply

BRIDGE, BRIDGE_ADDRESS = "elobr0", "10.77.0.1"
ITEMS = 40
SHELL = "mkdir -p /srv; mount -t tmpfs none /srv; mount -t tmpfs none {hidden}; exec {sshd} -D -f {config}"


@dataclass(frozen=True, slots=True)
class Host:
    """One namespace; its processes see a ``/srv`` that nobody else sees."""

    name: str
    address: str
    pid: int

    def end_workers(self) -> None:
        """Kill what xdist left running here: a worker whose link comes back would go on asking."""
        own = os.readlink(f"/proc/{self.pid}/ns/net")
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                is_worker = b"sys.stdin.readline" in (process / "cmdline").read_bytes()
                if is_worker and os.readlink(process / "ns" / "net") == own:
                    os.kill(int(process.name), signal.SIGKILL)

    def run(self, *command: str) -> str:
        """Output of a command inside the host's namespaces."""
        inside = ["nsenter", "--target", str(self.pid), "--mount", "--net", *command]
        return subprocess.run(inside, capture_output=True, text=True, check=True).stdout

    def cut_off(self) -> None:
        """Drop what comes and goes; nobody is told."""
        ip("link", "set", f"{self.name}-veth", "down")

    def connect(self) -> None:
        ip("link", "set", f"{self.name}-veth", "up")

    def fetch(self, folder: str, to: Path) -> None:
        to.mkdir(parents=True, exist_ok=True)
        archive = to / "fetched.tar"
        with archive.open("wb") as stream:
            inside = ["nsenter", "--target", str(self.pid), "--mount", "tar", "-C", folder, "-c", "."]
            subprocess.run(inside, stdout=stream, check=True)
        subprocess.run(["tar", "-C", str(to), "-xf", str(archive)], check=True)
        archive.unlink()


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@contextmanager
def bridge() -> Iterator[None]:
    ip("link", "add", BRIDGE, "type", "bridge")
    try:
        ip("addr", "add", f"{BRIDGE_ADDRESS}/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        yield
    finally:
        ip("link", "del", BRIDGE)


@contextmanager
def host(name: str, address: str, folder: Path, hidden: Path) -> Iterator[Host]:
    """A host that answers ssh with the key in ``folder`` and does not see what stands in ``hidden``."""
    outside, inside = f"{name}-veth", f"{name}-eth"
    ip("netns", "add", name)
    try:
        ip("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name)
        ip("link", "set", outside, "master", BRIDGE, "up")
        for command in (["addr", "add", f"{address}/24", "dev", inside], ["link", "set", inside, "up"]):
            ip("-n", name, *command)
        ip("-n", name, "link", "set", "lo", "up")
        config = folder / f"{name}.conf"
        config.write_text(
            f"ListenAddress {address}\nHostKey {folder}/hostkey\nAuthorizedKeysFile {folder}/key.pub\n"
            "StrictModes no\nPasswordAuthentication no\nUsePAM no\nPermitRootLogin yes\nPidFile none\n"
            f"SetEnv TAOTOKEN_API_KEY={KEY}\n"
        )
        sshd = shutil.which("sshd") or "/usr/sbin/sshd"
        start = SHELL.format(sshd=sshd, config=config, hidden=hidden)
        daemon = subprocess.Popen(["ip", "netns", "exec", name, "unshare", "--mount", "sh", "-c", start])
        try:
            wait_for(lambda: "LISTEN" in listening(name), f"sshd in {name}")
            yield Host(name, address, daemon.pid)
        finally:
            daemon.kill()
            daemon.wait()
            for pid in namespace_pids(name):
                os.kill(pid, 9)
    finally:
        ip("netns", "del", name)


def namespace_pids(name: str) -> list[int]:
    found = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    return [int(text) for text in found.stdout.split()]


def listening(name: str) -> str:
    return subprocess.run(["ip", "netns", "exec", name, "ss", "-tln"], capture_output=True, text=True).stdout


def wait_for(is_there: Any, what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not is_there():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.1)


def answer(request: Request) -> Response:
    prompt = request.body["messages"][-1]["content"]
    if not prompt.startswith("What is"):
        return reply("OK")
    number = int(prompt.split()[2])
    return reply(f"ANSWER: {2 * number + (request.body['seed'] % 3 == 0)}", delay_s=0.3)


def session(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pytest",
            str(folder / "evals"),
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:rerunfailures",  # its workers look for the controller on their own host
            "-o",
            "elo_html=false",
            *arguments,
        ],
        cwd=folder,
        env={**os.environ, "TAOTOKEN_API_KEY": KEY},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def over_ssh(hosts: list[Host], keys: Path, folder: Path) -> list[str]:
    """Two workers a host, each with a folder of its own."""
    options = f"-i {keys}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    options += " -o ServerAliveInterval=2 -o ServerAliveCountMax=2"
    specs = [
        f"ssh={options} root@{there.address}//python={sys.executable}//chdir=/srv/worker{n}"
        for there in hosts
        for n in range(2)
    ]
    return ["--dist", "load", "--rsyncdir", str(folder / "evals"), *(part for spec in specs for part in ("--tx", spec))]


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (latest(folder) / "runs.jsonl").read_text().splitlines()]


def latest(folder: Path) -> Path:
    return (folder / ".elo" / "latest").resolve()


def check_whole(folder: Path, gateway: LoopbackGateway, expected: str, what: str) -> None:
    found = rows(folder)
    low, high = (sum(row[name] for row in found) for name in ("total_tokens", "total_tokens_high"))
    assert len(found) == len(gateway.requests), (len(found), len(gateway.requests))
    assert low <= gateway.bill.total_tokens <= high, (low, gateway.bill.total_tokens, high)
    assert (latest(folder) / "pairwise.json").read_text() == expected
    unanswered = sum(row["status"] == "open" for row in found)
    told = f"{low:,} tokens" if low == high else f"{low:,} to {high:,} tokens, {unanswered} never answered"
    print(f"{what}: {len(found)} rows for {len(gateway.requests)} requests, {told}, bill {gateway.bill.total_tokens:,}")


def undisturbed(base: Path, hosts: list[Host], expected: str) -> None:
    with LoopbackGateway(answer, host=BRIDGE_ADDRESS) as gateway:
        folder = base / "undisturbed"
        write_suite(folder, gateway.base_url, ITEMS, gateway={"timeout_s": 20})
        process = session(folder, *over_ssh(hosts, base.with_name(f"{base.name}-keys"), folder))
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
        assert {name: len(host_runs(there)) for name, there in named(hosts)} == {name: 2 for name, _ in named(hosts)}
        check_whole(folder, gateway, expected, "undisturbed, 2 hosts x 2 workers")


def named(hosts: list[Host]) -> list[tuple[str, Host]]:
    return [(there.name, there) for there in hosts]


def host_runs(there: Host) -> list[str]:
    """Run directories on a host's own disk."""
    return there.run("sh", "-c", "find /srv -type d -path '*/.elo/*' -name shards").split()


def cut(base: Path, hosts: list[Host], expected: str) -> None:
    lost = hosts[0]
    before = set(host_runs(lost))
    with LoopbackGateway(answer, host=BRIDGE_ADDRESS) as gateway:
        folder = base / "cut"
        write_suite(folder, gateway.base_url, ITEMS, gateway={"timeout_s": 20})
        process = session(
            folder,
            *over_ssh(hosts, base.with_name(f"{base.name}-keys"), folder),
            "--elo-concurrency",
            "8",
            "--max-worker-restart",
            "0",
        )
        watcher = threading.Thread(target=cut_when, args=(lost, gateway, 30))
        watcher.start()
        output, _ = process.communicate(timeout=300)
        watcher.join()
        assert process.returncode == 1, output
        assert "on another disk was lost: what it bought since its last report is unknown" in output, output
        known = len(rows(folder))
        print(f"cut off: exit code 1, {known} of {len(gateway.requests)} requests known, and said so")
        lost.end_workers()
        for number, shards in enumerate(sorted(set(host_runs(lost)) - before)):
            there = Path(shards).parent
            lost.fetch(str(there), base / f"brought{number}")
            for name in ("shards", "responses"):
                shutil.copytree(base / f"brought{number}" / name, latest(folder) / name, dirs_exist_ok=True)
        lost.connect()
        again = session(folder, "--elo-resume", "-n", "0")
        resumed, _ = again.communicate(timeout=300)
        assert again.returncode == 0, resumed
        assert "was lost" not in resumed, resumed
        check_whole(folder, gateway, expected, "brought and resumed")


def cut_when(lost: Host, gateway: LoopbackGateway, requests: int) -> None:
    wait_for(lambda: len(gateway.requests) >= requests, f"{requests} requests", 120)
    lost.cut_off()


def main() -> None:
    if os.geteuid() != 0:
        raise SystemExit("network namespaces need root")
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        keys = base.with_name(f"{base.name}-keys")
        keys.mkdir()
        stack.callback(shutil.rmtree, keys)
        for name in ("hostkey", "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)], check=True)
        Path("/run/sshd").mkdir(exist_ok=True)
        stack.enter_context(bridge())
        hosts = [stack.enter_context(host(f"elo{n}", f"10.77.0.{10 + n}", keys, base)) for n in range(2)]
        with LoopbackGateway(answer) as gateway:
            alone = base / "alone"
            write_suite(alone, gateway.base_url, ITEMS, gateway={"timeout_s": 20})
            process = session(alone, "-n", "0")
            output, _ = process.communicate(timeout=300)
            assert process.returncode == 0, output
        expected = (latest(alone) / "pairwise.json").read_text()
        undisturbed(base, hosts, expected)
        cut(base, hosts, expected)


if __name__ == "__main__":
    main()
