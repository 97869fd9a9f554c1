from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from pytest_elo.gateway.limits import AdaptiveLimit, SharedLimits
from tests.loopback import LoopbackGateway, Request, Response, error, model_answer

ROOT = Path(__file__).parents[2]


def admitted(limit: AdaptiveLimit, n: int, now: float = 0.0) -> int:
    """How many of ``n`` requests may go."""
    return sum(limit.admit(now) == 0.0 for _ in range(n))


def test_no_more_than_the_limit_are_in_flight() -> None:
    limit = AdaptiveLimit(8)
    assert admitted(limit, 20) == 8
    limit.release()
    assert admitted(limit, 5) == 1


def test_a_burst_of_rate_limits_halves_once() -> None:
    limit = AdaptiveLimit(64)
    admitted(limit, 64)
    for _ in range(64):
        limit.rate_limited(100.0, None, sent=99.0)
        limit.release()
    assert limit.limit == 32
    admitted(limit, 10)
    limit.rate_limited(102.0, None, sent=101.0)
    # only ten were in flight: half of what was really in use
    assert limit.limit == 5


def test_the_limit_grows_by_a_step_per_round_and_never_beyond_its_start() -> None:
    limit = AdaptiveLimit(4)
    admitted(limit, 4)
    limit.rate_limited(100.0, None, sent=99.0)
    assert limit.limit == 2
    for expected, successes in ((3, 2), (4, 3), (4, 50)):
        for _ in range(successes):
            limit.succeeded()
        assert limit.limit == expected


def test_a_retry_after_pauses_everyone(tmp_path: Path) -> None:
    one, other = (SharedLimits(8, tmp_path).of("host", "m") for _ in range(2))
    one.rate_limited(100.0, 5.0, sent=99.0)
    assert 4.0 < other.admit(101.0) < 4.1
    assert other.admit(105.1) == 0.0


def test_a_clock_that_goes_back_neither_prolongs_a_pause_nor_hides_a_rate_limit() -> None:
    limit = AdaptiveLimit(8)
    limit.rate_limited(5000.0, 5.0, sent=4999.0)
    assert limit.limit == 1
    assert limit.admit(1400.0) == 0.0  # an hour earlier: the pause is none of this clock's
    limit.rate_limited(1401.0, 3.0, sent=1400.5)
    assert 1.0 < limit.admit(1403.0) < 1.1
    assert admitted(limit, 1, now=1404.5) == 0, "the one request is in flight still"
    limit.release()
    assert admitted(limit, 1, now=1404.5) == 1


def test_processes_share_one_limit_and_the_dead_hold_nothing(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from pytest_elo.gateway.limits import SharedLimits\n"
        f"limit = SharedLimits(8, Path({str(tmp_path)!r})).of('host', 'm')\n"
        "print(sum(limit.admit(0.0) == 0.0 for _ in range(6)), flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=ROOT)
    assert other.stdout is not None
    assert other.stdout.readline() == b"6\n"
    mine = SharedLimits(8, tmp_path).of("host", "m")
    assert admitted(mine, 6) == 2
    assert admitted(SharedLimits(8, tmp_path).of("host", "another model"), 6) == 6
    os.kill(other.pid, signal.SIGKILL)
    other.stdout.read()  # its end: it is dead, but nobody has waited for it, as xdist waits for no killed worker
    deadline, n = time.monotonic() + 10, 0
    while n == 0 and time.monotonic() < deadline:
        n = admitted(mine, 8)  # the first finds the limit reached, and the dead process
        time.sleep(0.01)
    assert n == 6
    other.wait()
    other.stdout.close()


BUSY = """
import sys, time
from pathlib import Path
from pytest_elo.gateway.limits import AdaptiveLimit

limit = AdaptiveLimit(16, Path(sys.argv[1]))
for _ in range(8):
    limit.admit(2000.0)
limit.rate_limited(1000.0, 5.0, sent=1000.0)
print(flush=True)
while True:  # 8 or 9 are in flight, 4 to 16 allowed, and from 1000 to 1005 nobody may go
    if limit.admit(2000.0) == 0:
        limit.release()
    limit.rate_limited(1000.0, 5.0, sent=1000.0)
    limit.succeeded()
"""


def test_what_another_process_is_writing_is_never_seen_half_written(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY, str(tmp_path / "limit")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        limit = AdaptiveLimit(16, tmp_path / "limit")
        ends = time.monotonic() + 1.0
        seen, paused = set(), set()
        while time.monotonic() < ends:
            seen.add((limit.in_flight, limit.limit))
            paused.add(limit.admit(1001.0) > 0)
        process.kill()
        limit.close()
    assert {in_flight for in_flight, _ in seen} <= {8, 9}
    assert all(4 <= allowed <= 16 for _, allowed in seen)
    assert paused == {True}


STORM = """
import asyncio, sys
from pathlib import Path
from pytest_elo.gateway.client import Gateway, GatewaySettings
from pytest_elo.gateway.endpoint import Endpoint
from pytest_elo.gateway.retry import RetryPolicy
from pytest_elo.records import Tag

class Rows:
    n = 0
    def open(self, attempt): pass
    def close(self, attempt): self.n += 1

base_url, directory, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
rows = Rows()
settings = GatewaySettings(
    model="test-model", concurrency=64, shared_directory=Path(directory),
    retry=RetryPolicy(max_attempts=50, first_delay_s=0.05, longest_delay_s=0.2),
)
gateway = Gateway(Endpoint.checked(base_url, "sk-canary-3f9c1d7be2a64085", key_variable="K"), settings, rows)

async def main():
    asks = [gateway.ask_as(Tag("t", str(i), "s"))([{"role": "user", "content": str(i)}]) for i in range(n)]
    await asyncio.gather(*asks)
    await gateway.aclose()

asyncio.run(main())
print(rows.n)
"""


def storm(tmp_path: Path, n_processes: int, n_calls: int) -> list[Request]:
    """Requests that a gateway sees which takes four at a time, from so many processes."""
    with LoopbackGateway(_four_at_a_time) as server:
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", STORM, server.base_url, str(tmp_path), str(n_calls // n_processes)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
            )
            for _ in range(n_processes)
        ]
        outputs = [worker.communicate(timeout=60)[0] for worker in workers]
        assert [worker.returncode for worker in workers] == [0] * n_processes
        assert sum(int(output) for output in outputs) == len(server.requests)
        return list(server.requests)


def _four_at_a_time(request: Request) -> Response:
    if request.in_flight > 4:
        return error(429, "Rate limit reached", headers={"retry-after-ms": "50"})
    answer = model_answer(request)
    return Response(body=answer.body, billed=answer.billed, delay_s=0.02)


def test_a_rate_limit_storm_does_not_multiply_by_the_workers(tmp_path: Path) -> None:
    refused = {}
    for n_processes in (1, 4):
        requests = storm(tmp_path / str(n_processes), n_processes, 80)
        assert sum(request.status == 200 for request in requests) == 80
        refused[n_processes] = sum(request.status == 429 for request in requests)
    # measured: 102-107 from one process, 83-106 from four
    assert refused[4] <= 1.5 * refused[1] + 20
