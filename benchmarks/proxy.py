"""What the metering proxy adds to a request: the same client against a loopback gateway, directly and through it.

The gateway, the proxy and the client are three processes, so that each number is about one of them. The client is the
HTTP library alone, with N requests in flight; the gateway answers after a fixed time, as a model does. Reported are the
median time of a request both ways, their difference and ratio, and the processor time that the proxy spends a request:
that is what bounds how many requests a second one proxy can carry. On a busy machine the wall clock mostly shows how
long a process waits for a core, so look at both.

    python benchmarks/proxy.py --in-flight 64 --latency-s 1 --requests 1280 --rounds 3
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pytest_elo.gateway.http import http_module  # noqa: E402

KEY = "sk-benchmark-1f0e2d3c"


async def measure(url: str, token: str, in_flight: int, n_requests: int, body: bytes, spread_s: float) -> list[float]:
    """Seconds of each request, ``in_flight`` at once.

    The first ones start within ``spread_s``: programs that work independently do not ask in the same millisecond, and
    a gateway that takes the same time for all would keep them together for ever.
    """
    http = http_module()
    # a transport for every few connections: the library's pool is slow with many in one
    clients = [http.AsyncClient(timeout=60, trust_env=False) for _ in range(max(in_flight // 4, 1))]
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    times: list[float] = []
    left = iter(range(n_requests))

    async def one(client: Any, number: int) -> None:
        await asyncio.sleep(spread_s * number / in_flight)
        for _ in left:
            start = time.perf_counter()
            answer = await client.post(f"{url}/chat/completions", content=body, headers=headers)
            times.append(time.perf_counter() - start)
            assert answer.status_code == 200, answer.text

    await asyncio.gather(*(one(clients[i % len(clients)], i) for i in range(in_flight)))
    for client in clients:
        await client.aclose()
    return times


def processor_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--latency-s", type=float, default=1.0)
    parser.add_argument("--requests", type=int, default=1280)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spread-s", type=float, default=1.0, help="0: all at once, a burst")
    parser.add_argument("--stream", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="elo-benchmark-"))
    port_file = folder / "port"
    gateway = subprocess.Popen(
        [sys.executable, "tests/loopback.py", "--port-file", str(port_file), "--latency-s", str(options.latency_s)],
        cwd=ROOT,
    )
    while not port_file.exists():
        time.sleep(0.02)
    direct = f"http://127.0.0.1:{port_file.read_text()}/v1"
    proxy = subprocess.Popen(
        [sys.executable, "-m", "pytest_elo", "proxy", "--base-url", direct, "--dir", str(folder / "ledger")],
        cwd=folder,
        env={**os.environ, "TAOTOKEN_API_KEY": KEY},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert proxy.stdout is not None
    env = dict(proxy.stdout.readline().strip().removeprefix("export ").split("=", 1) for _ in range(4))
    text = "word " * 400
    question: dict[str, Any] = {"model": "test-model", "messages": [{"role": "user", "content": text}]}
    if options.stream:
        question |= {"stream": True, "stream_options": {"include_usage": True}}
    body = json.dumps(question).encode()
    try:
        compare(options, direct, env["OPENAI_BASE_URL"], env["OPENAI_API_KEY"], body, proxy.pid)
    finally:
        proxy.terminate()
        proxy.communicate()
        bill = json.load(urllib.request.urlopen(direct.removesuffix("/v1") + "/_log"))
        gateway.terminate()
        gateway.wait(10)
    rows = [json.loads(line) for line in (folder / "ledger" / "runs.jsonl").read_text().splitlines()]
    tokens = sum(row["total_tokens"] for row in rows)
    billed = sum(
        sum(request["billed"].values()) for request in bill if KEY in request["headers"].get("authorization", "")
    )
    print(f"ledger {tokens:,} tokens in {len(rows)} rows; billed through the proxy {billed:,}")


def compare(options: argparse.Namespace, direct: str, proxied: str, token: str, body: bytes, proxy: int) -> None:
    medians: dict[str, list[float]] = {"direct": [], "proxied": []}
    n_requests, in_flight = options.requests, options.in_flight
    spent = 0.0
    for url in (direct, proxied):  # connections and caches are warm in what is measured
        asyncio.run(measure(url, token, in_flight, in_flight, body, 0.0))
    for _ in range(options.rounds):
        for name, url in (("direct", direct), ("proxied", proxied)):
            before = processor_s(proxy)
            times = asyncio.run(measure(url, token, in_flight, n_requests, body, options.spread_s))
            medians[name].append(statistics.median(times))
            if name == "proxied":
                spent += processor_s(proxy) - before
    direct_s, proxied_s = (statistics.median(medians[name]) for name in ("direct", "proxied"))
    cpu_ms = 1000 * spent / (n_requests * options.rounds)
    print(
        f"{in_flight} in flight, gateway {1000 * options.latency_s:g} ms, "
        f"{n_requests} requests x {options.rounds} rounds"
    )
    print(f"direct  {1000 * direct_s:9.2f} ms a request (median)")
    print(f"proxied {1000 * proxied_s:9.2f} ms a request (median)")
    print(f"added   {1000 * (proxied_s - direct_s):9.2f} ms, ratio {proxied_s / direct_s:.4f}")
    print(f"proxy   {cpu_ms:9.2f} ms of processor time a request: at most {1000 / cpu_ms:,.0f} requests a second")


if __name__ == "__main__":
    main()
