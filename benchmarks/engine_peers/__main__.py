"""Run every peer against one gateway on loopback and print wall time, CPU, requests and calls in flight."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.suite import write_suite
from tests.loopback import LoopbackGateway, Request, Response, reply

HERE = Path(__file__).parent
PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]


@dataclass(frozen=True, slots=True)
class Cost:
    wall_s: float
    cpu_s: float
    requests: int
    in_flight: int
    peak_mb: float


@dataclass(frozen=True, slots=True)
class Bench:
    items: int
    concurrency: int
    folder: Path
    pythons: dict[str, str]

    def commands(self) -> Iterator[tuple[str, list[str] | None]]:
        """(name, command) of every peer; ``None`` where it is not installed."""
        sizes = [str(self.items), str(self.concurrency)]
        own = sys.executable
        yield "empty", [own, *PYTEST, "-n", "0", str(HERE / "empty_pytest.py")]
        yield "empty -n 4", [own, *PYTEST, "-n", "4", str(HERE / "empty_pytest.py")]
        yield "bare", [own, str(HERE / "bare.py"), *sizes]
        ours = [own, *PYTEST, "evals", "--elo-concurrency", str(self.concurrency)]
        yield "ours", [*ours, "-n", "0"]
        yield "ours -n 4", [*ours, "-n", "4"]
        yield "record", [*ours, "-n", "0", "--elo-record"]
        yield "replay", [*ours, "-n", "0", "--elo-replay"]
        yield "plain pytest -n 4", [own, *PYTEST, "-n", "4", str(HERE / "plain_pytest.py")]
        for name in ("inspect", "pydantic", "deepeval"):
            python = self.pythons.get(name)
            yield name, [python, str(HERE / f"{name}_peer.py"), *sizes] if python else None
        pytest_evals = self.pythons.get("pytest_evals")
        bags = [*PYTEST, "-n", "4", "--run-eval", str(HERE / "pytest_evals_peer.py")]
        yield "pytest-evals -n 4", [pytest_evals, *bags] if pytest_evals else None
        promptfoo = self.pythons.get("promptfoo")
        config = str(self.folder / "promptfooconfig.json")
        options = ["--max-concurrency", sizes[1], "--no-cache", "--no-table", "--no-write", "--no-progress-bar"]
        yield "promptfoo", [promptfoo, "eval", "-c", config, *options] if promptfoo else None

    def write(self, base_url: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        baseline = {"baseline": {"kind": "single"}}
        write_suite(self.folder, base_url, self.items, baseline, recordings="recordings")
        tests = [
            {"vars": {"i": i}, "assert": [{"type": "equals", "value": f"ANSWER: {2 * i}"}]} for i in range(self.items)
        ]
        provider = {"id": "openai:chat:test-model", "config": {"apiBaseUrl": base_url, "temperature": 0}}
        (self.folder / "promptfooconfig.json").write_text(
            json.dumps({"prompts": ["What is {{i}} + {{i}}?"], "providers": [provider], "tests": tests})
        )


def answers(latency_s: float, ping_latency_s: float) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        prompt = request.body["messages"][-1]["content"]
        if not isinstance(prompt, str):
            prompt = prompt[0]["text"]
        if not prompt.startswith("What is"):
            return reply("OK", delay_s=ping_latency_s)
        return reply(f"ANSWER: {2 * int(prompt.split()[2])}", delay_s=latency_s)

    return answer


def measure(bench: Bench, command: Sequence[str], gateway: LoopbackGateway) -> Cost:
    environment = {
        **os.environ,
        "OPENAI_BASE_URL": gateway.base_url,
        "OPENAI_API_KEY": "sk-test-0123456789abcdef",
        "TAOTOKEN_API_KEY": "sk-test-0123456789abcdef",
        "BENCH_ITEMS": str(bench.items),
        "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
    }
    # a machine where compiled modules are not kept would compile every tool anew in every process
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    gateway.requests.clear()
    started = time.perf_counter()
    with (bench.folder / "output.txt").open("w") as output:
        process = subprocess.Popen(command, cwd=bench.folder, env=environment, stdout=output, stderr=output)
        # of this command and the children it waited for; RUSAGE_CHILDREN would keep the largest of all peers
        _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 100):
        told = (bench.folder / "output.txt").read_text()
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}\n{told}")
    cpu = used.ru_utime + used.ru_stime
    return Cost(wall, cpu, len(gateway.requests), gateway.most_in_flight, used.ru_maxrss / 1024)


def show(*columns: object) -> None:
    print("{:<18}{:>9}{:>9}{:>10}{:>11}{:>9}".format(*columns), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--latency-s", type=float, default=0.0)
    parser.add_argument("--ping-latency-s", type=float, help="of the preflight's question, which no peer asks")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--json", type=Path, help="append a JSON line a peer")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH")
    options = parser.parse_args()
    pythons = dict(text.split("=", 1) for text in options.python)
    costs: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.items, options.concurrency, Path(folder), pythons)
        commands = {name: command for name, command in bench.commands() if not options.only or name in options.only}
        for _ in range(options.rounds):
            # in turns, so that an hour in which the machine is slow falls on all of them
            for name, command in commands.items():
                if command is None:
                    continue
                is_instant = name in ("record", "replay")
                latency_s = 0.0 if is_instant else options.latency_s
                ping_latency_s = latency_s if options.ping_latency_s is None else options.ping_latency_s
                with LoopbackGateway(answers(latency_s, ping_latency_s)) as gateway:
                    bench.write(gateway.base_url)
                    costs.setdefault(name, []).append(measure(bench, command, gateway))
    show("", "wall s", "CPU s", "requests", "in flight", "peak MB")
    for name in commands:
        if name not in costs:
            show(name, "-", "-", "not named", "", "")
            continue
        wall, cpu = (statistics.median(getattr(cost, part) for cost in costs[name]) for part in ("wall_s", "cpu_s"))
        last = costs[name][-1]
        if options.json:
            measured = {"case": name, "wall_s": wall, "cpu_s": cpu, "peak_mb": last.peak_mb}
            with options.json.open("a") as file:
                file.write(json.dumps(measured) + "\n")
        show(name, f"{wall:.2f}", f"{cpu:.2f}", last.requests, last.in_flight, f"{last.peak_mb:.0f}")


if __name__ == "__main__":
    main()
