"""A long run under every fault at once: the ledger holds the bill, and the report is that of the undisturbed run.

Two strategies over many items, with two workers against a gateway on loopback. A share of all requests meets a
random fault (429 with Retry-After, 500, resets before and in the middle of an answer, answers that never come,
truncated JSON, an HTML page). Between them the gateway is restarted on its port, is gone for some seconds, and
workers are killed. What came to no end is resumed. Checked are:

- every request of the gateway is a row; a row beyond them is one that was refused or opened in the instant of a kill;
- the bill lies within the ledger's interval, and rows with an answer hold exactly what was billed for them;
- nothing that was answered is bought again but what was on the wire of a killed worker;
- ``pairwise.json`` and ``elo.csv`` (without latencies, and without the tokens of failed tries) are those of the run
  that nobody disturbed.

    python -m benchmarks.soak --items 20000
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.engine_kills import children, latest, lines
from benchmarks.suite import KEY, write_suite
from tests.loopback import Billed, LoopbackGateway, Request, Response, error, html, reply

STRATEGIES = {"baseline": {"kind": "single", "temperature": 0}, "warm": {"kind": "single", "temperature": 0.8}}
KINDS = ("429", "500", "reset", "midway", "hang", "truncate", "half", "html")
PAID = Billed(10, 5)
TIMEOUT_S = 6.0
GONE_S = 3.0


def answer(request: Request) -> Response:
    prompt = request.body["messages"][-1]["content"]
    if not prompt.startswith("What is"):
        return reply("OK")
    number = int(prompt.split()[2])
    is_wrong = (number * 7 + round(10 * request.body["temperature"])) % 5 < 2
    return reply(f"ANSWER: {2 * number + is_wrong}")


def faulty(kind: str, good: Response) -> Response:
    """What the client gets instead; where an answer was made and lost it is billed all the same."""
    match kind:
        case "429":
            return error(429, "slow down", headers={"retry-after": "1"})
        case "500":
            return error(500)
        case "reset":
            return replace(good, fault="reset", billed=Billed())
        case "midway":
            return replace(good, fault="reset_midway")
        case "hang":
            return replace(good, delay_s=3 * TIMEOUT_S)
        case "truncate":
            return replace(good, fault="truncate")
        case "half":
            return replace(good, body=good.body[: len(good.body) // 2])
        case _:
            return html()


@dataclass(slots=True)
class Trouble:
    """The gateway, and what befalls it and its clients."""

    share: float
    seed: int
    requests: list[Request] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    gateway: LoopbackGateway | None = None
    _random: random.Random = field(default_factory=random.Random)

    def respond(self, request: Request) -> Response:
        good = answer(request)
        if request.body["messages"][-1]["content"].startswith("What is") and self._random.random() < self.share:
            kind = self._random.choice(KINDS)
            self.done[kind] += 1
            return faulty(kind, good)
        return good

    def open(self, port: int = 0) -> LoopbackGateway:
        self.gateway = LoopbackGateway(self.respond, port=port)
        self.gateway.requests = self.requests
        return self.gateway.__enter__()

    def restart(self, after_s: float) -> None:
        assert self.gateway is not None
        port = self.gateway.port
        self.gateway.stop()
        time.sleep(after_s)
        self.open(port)

    def accompany(self, process: subprocess.Popen[str], expected: int, kills: int) -> None:
        """Restart, cut off and kill when given shares of the expected requests have come."""
        due: list[tuple[float, str, Callable[[], None]]] = [
            (0.3, "restart", lambda: self.restart(0.0)),
            (0.6, "network gone", lambda: self.restart(GONE_S)),
            *((0.1 + 0.8 * k / kills, "worker killed", lambda: self._kill(process)) for k in range(kills)),
        ]
        for part, name, act in sorted(due, key=lambda event: event[0]):
            while len(self.requests) < part * expected and process.poll() is None:
                time.sleep(0.05)
            if process.poll() is None:
                act()
                self.done[name] += 1

    def _kill(self, process: subprocess.Popen[str]) -> None:
        workers = children(process.pid)
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._random.choice(workers), signal.SIGKILL)


def write_sums(folder: Path, base_url: str, items: int) -> None:
    gateway = {"timeout_s": TIMEOUT_S, "max_retries": 8}
    write_suite(folder, base_url, items, STRATEGIES, ini="elo_html = false\n", gateway=gateway)


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pytest", "evals", "-q", "-n", "2", "-p", "no:cacheprovider", *arguments]
    with (folder / "output.txt").open("a") as output:
        environment = {**os.environ, "TAOTOKEN_API_KEY": KEY}
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output, text=True)


def complete(folder: Path, trouble: Trouble, items: int, kills: int) -> int:
    """Run under trouble, then go on until every item has its outcome; returns how often that took."""
    process = start(folder)
    helper = threading.Thread(target=trouble.accompany, args=(process, 2 * items, kills))
    helper.start()
    process.wait()
    helper.join()
    sessions = 1
    while not is_complete(latest(folder), items):
        assert sessions < 6, (folder / "output.txt").read_text()[-4000:]
        start(folder, "--elo-resume").wait()
        sessions += 1
    return sessions


def is_complete(run: Path, items: int) -> bool:
    outcomes = lines(run / "outcomes.jsonl")
    return sum(outcome["status"] in ("correct", "wrong") for outcome in outcomes) == 2 * items


def shown(run: Path) -> list[dict[str, str]]:
    with (run / "elo.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: value for name, value in row.items() if not is_spending(name)} for row in rows]


def is_spending(column: str) -> bool:
    return any(part in column for part in ("token", "latency", "usd", "per_", "marginal", "1k"))


def check(run: Path, requests: list[Request]) -> dict[str, Any]:
    rows = lines(run / "runs.jsonl")
    # a connection that was refused, or a row opened in the instant of a kill, was no request
    not_sent = len(rows) - len(requests)
    nowhere = [row for row in rows if row["status"] == "open" or row["error_kind"] in ("connect", "reset")]
    assert 0 <= not_sent <= len(nowhere), (len(rows), len(requests), len(nowhere))
    low, high = (sum(row[name] for row in rows) for name in ("total_tokens", "total_tokens_high"))
    bill = sum(request.billed.total_tokens for request in requests)
    assert low <= bill <= high, (low, bill, high)
    answered = [row for row in rows if row["status"] == "ok"]
    assert sum(row["total_tokens"] for row in answered) == len(answered) * PAID.total_tokens
    twice = Counter((row["item_id"], row["strategy"]) for row in answered if row["role"] != "ping")
    again = sum(n - 1 for n in twice.values())
    assert again == 0, again
    return {
        "requests": len(requests),
        "rows": len(rows),
        "answered": len(answered),
        "refused or unsent": not_sent,
        "bill": bill,
        "ledger": f"{low} to {high}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--faults", type=float, default=0.05, help="share of requests that meet a fault")
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        calm = Trouble(0.0, options.seed)
        folder = Path(base, "undisturbed")
        write_sums(folder, calm.open().base_url, options.items)
        started = time.perf_counter()
        start(folder).wait()
        print(f"undisturbed: {time.perf_counter() - started:.0f} s, {len(calm.requests)} requests", flush=True)
        assert is_complete(latest(folder), options.items), (folder / "output.txt").read_text()[-4000:]
        expected = latest(folder)

        trouble = Trouble(options.faults, options.seed)
        disturbed = Path(base, "disturbed")
        write_sums(disturbed, trouble.open().base_url, options.items)
        started = time.perf_counter()
        sessions = complete(disturbed, trouble, options.items, options.kills)
        print(f"disturbed: {time.perf_counter() - started:.0f} s in {sessions} sessions", flush=True)
        print(", ".join(f"{n} {name}" for name, n in sorted(trouble.done.items())))
        run = latest(disturbed)
        found = check(run, trouble.requests)
        print(", ".join(f"{name} {value}" for name, value in found.items()))
        assert (run / "pairwise.json").read_text() == (expected / "pairwise.json").read_text()
        assert shown(run) == shown(expected), (shown(run), shown(expected))
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"report equal to the undisturbed one; largest process {peak:.0f} MB")


if __name__ == "__main__":
    main()
