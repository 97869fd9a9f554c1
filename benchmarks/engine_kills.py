"""Kill workers, the controller or all of them at random moments; nothing may be lost, bought twice or told wrongly.

Each round starts a live run of a small suite with two workers against a gateway on loopback, sends SIGKILL at a
random moment to one worker, to the controller, or to all processes, resumes until the run is complete, and checks:

- every request of the gateway is a row, and every row a request; but for a row that was opened in the instant
  of the kill, whose request may not have left: it says that its cost is unknown;
- the bill lies within the ledger's interval, and equals it where nothing was on the wire;
- resuming bought nothing that was answered before;
- outcomes and comparisons are those of the run that nobody disturbed, and so are all tables where nothing was
  on the wire (an attempt whose process died adds a stated interval).

    python benchmarks/engine_kills.py --rounds 50
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.suite import KEY, TIERS, write_suite
from tests.loopback import LoopbackGateway, Request, Response, reply

ITEMS = 12
COMPARED = ("elo.csv", "pairwise.json", "tokens_by_strategy.json", "tokens_by_task_strategy.json")


def answer(request: Request) -> Response:
    prompt = request.body["messages"][-1]["content"]
    if not prompt.startswith("What is"):
        return reply("OK")
    number = int(prompt.split()[2])
    wrong = request.body["seed"] % 3 == 0
    return reply(f"ANSWER: {2 * number + wrong}", delay_s=0.05 + request.body["seed"] % 7 / 20)


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pytest", "evals", "-q", "-p", "no:cacheprovider", "-n", "2", *arguments]
    options = ("--elo-concurrency", "8", "--max-worker-restart", "2")
    environment = {**os.environ, "TAOTOKEN_API_KEY": KEY}
    return subprocess.Popen(
        [*command, *options],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def latest(folder: Path) -> Path:
    return (folder / ".elo" / "latest").resolve()


def children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(text) for text in found.stdout.split()]


def kill(process: subprocess.Popen[str], victim: str, rng: random.Random) -> None:
    workers = children(process.pid)
    doomed = {"controller": [process.pid], "all": [process.pid, *workers], "worker": workers and [rng.choice(workers)]}
    for pid in doomed[victim] or []:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def round_(folder: Path, gateway: LoopbackGateway, victim: str, rng: random.Random, expected: dict[str, str]) -> str:
    process = start(folder)
    moment = rng.uniform(0.0, 2.5)
    deadline = time.monotonic() + 60
    while len(gateway.requests) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(moment)
    kill(process, victim, rng)
    output, _ = process.communicate(timeout=120)
    if victim != "worker":
        wait_for_orphans(folder)
    resumed, tries = "", 0
    while tries == 0 or "came to no end" in resumed:
        again = start(folder, "--elo-resume")
        resumed, _ = again.communicate(timeout=120)
        tries += 1
        assert tries < 4, resumed
    assert again.returncode == 0, output + resumed
    run = latest(folder)
    rows = lines(run / "runs.jsonl")
    ended = [row for row in rows if row["status"] != "open"]
    opened = len(rows) - len(ended)
    unsent = len(rows) - len(gateway.requests)
    assert 0 <= unsent <= opened, (len(rows), len(gateway.requests), output, resumed)
    low, high = (sum(row[name] for row in rows) for name in ("total_tokens", "total_tokens_high"))
    assert low <= gateway.bill.total_tokens <= high
    unknown = [row for row in rows if row["status"] != "ok"]
    known = sum(row["total_tokens"] for row in rows if row["status"] == "ok")
    assert known == 15 * (len(rows) - len(unknown))
    # what came back before the kill is not asked again: only what was on the wire may be
    asked = collections.Counter(place(request) for request in gateway.requests)
    pings = sum(row["role"] == "ping" for row in rows) - 1
    assert sum(n - 1 for n in asked.values()) - pings <= len(unknown), (asked, unknown)
    found = {name: (run / name).read_text() for name in COMPARED}
    assert found["pairwise.json"] == expected["pairwise.json"]
    if not unknown:
        assert strip(found) == strip(expected)
    outcomes = {(o["item_id"], o["strategy"]): (o["status"], o["score"]) for o in lines(run / "outcomes.jsonl")}
    assert len(outcomes) == ITEMS * len(TIERS)
    assert KEY not in "".join(path.read_text(errors="replace") for path in run.rglob("*") if path.is_file())
    assert KEY not in output + resumed
    told = f"{len(rows)} rows, {len(gateway.requests)} requests, {len(unknown)} rows without an answer"
    return f"{victim:<10} after {moment:4.2f} s: {told}"


def place(request: Request) -> str:
    body = request.body
    # r3's first sample and the baseline ask with the same seed; the temperature tells them apart
    return json.dumps([body["messages"], body.get("seed"), body.get("temperature")])


def strip(files: dict[str, str]) -> dict[str, Any]:
    """Without latencies, which no two runs share."""
    found: dict[str, Any] = dict(files)
    for name in ("tokens_by_strategy.json", "tokens_by_task_strategy.json"):
        found[name] = [{k: v for k, v in row.items() if k != "p95_latency"} for row in json.loads(files[name])]
    return found


def wait_for_orphans(folder: Path) -> None:
    """Workers whose controller died end by themselves when their pipe closes."""
    from pytest_elo.ledger.rundir import RunDir

    deadline = time.monotonic() + 60
    while RunDir(latest(folder)).has_live_shards() and time.monotonic() < deadline:
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as base:
        with LoopbackGateway(answer) as gateway:
            undisturbed = Path(base, "undisturbed")
            write_suite(undisturbed, gateway.base_url, ITEMS, gateway={"timeout_s": 20})
            process = start(undisturbed)
            output, _ = process.communicate(timeout=120)
            assert process.returncode == 0, output
        expected = {name: (latest(undisturbed) / name).read_text() for name in COMPARED}
        for number in range(options.rounds):
            victim = ("worker", "controller", "all")[number % 3]
            with LoopbackGateway(answer) as gateway:
                folder = Path(base, f"round{number}")
                write_suite(folder, gateway.base_url, ITEMS, gateway={"timeout_s": 20})
                print(f"{number + 1:>3} {round_(folder, gateway, victim, rng, expected)}", flush=True)
    print(f"{options.rounds} rounds: every request is a row, nothing answered was bought twice")


if __name__ == "__main__":
    main()
