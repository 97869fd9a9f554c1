"""Ledgers of any size: CPU, wall time and memory of a whole report, beside jq and DuckDB on the same file.

    python benchmarks/ledger_scale.py --rows 10000000 --peers-rows 1000000 --folder /somewhere/with/8/GB

Makes a run directory with ``--rows`` attempts (3 tasks, 1,000 items, 7 strategies; about 0.35 GB a million),
reports it in a process of its own and says what that took, its children included. On a smaller ledger of
``--peers-rows`` it runs, in turns, the sums of pytest-elo, the article's ``jq -s`` command, and DuckDB over
the same JSONL (grouped as the article does, and into the cells that a report needs). Medians of ``--rounds``;
seconds of CPU are of all threads and processes. The folder is removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

STRATEGIES = {"baseline": 1, "r3": 3, "r5": 5, "reflect1": 2, "bo3": 4, "tree": 6, "escalate": 2}
TASKS, ITEMS = 3, 1000
LADDERS = [["baseline", "r3", "r5"]]
PAGE = os.sysconf("SC_PAGE_SIZE")

ARTICLE = (
    "group_by(.strategy) | map({strategy: .[0].strategy, calls: length, prompt_tokens: (map(.prompt_tokens) | add), "
    "completion_tokens: (map(.completion_tokens) | add), p95_latency: (map(.latency_s) | sort | "
    ".[(length * 0.95 | floor)])}) | map(. + {total_tokens: (.prompt_tokens + .completion_tokens)}) | "
    "sort_by(-.total_tokens)"
)
REPORT = "from pathlib import Path; from pytest_elo.report.build import build; import sys; build(Path(sys.argv[1]))"
WHOLE = "from pytest_elo.cli import main; import sys; main(['report', sys.argv[1]])"
SUMS = (
    "from pathlib import Path; from pytest_elo.ledger.stream import read_sums; from pytest_elo.ledger.totals import *;"
    "import sys; by_strategy(totals_of(read_sums(Path(sys.argv[1]) / 'runs.jsonl', print)))"
)
DUCKDB = (
    'import duckdb, sys; duckdb.sql("select strategy, count(*), sum(prompt_tokens), sum(completion_tokens), '
    "quantile_disc(latency_s, 0.95) from read_json('\" + sys.argv[1] + \"/runs.jsonl', "
    "format='newline_delimited') group by strategy\").fetchall()"
)
DUCKDB_CELLS = (
    'import duckdb, sys; duckdb.sql("select task_id, item_id, strategy, model, count(*), sum(prompt_tokens), '
    "sum(completion_tokens), sum(total_tokens), count(distinct call_id), arg_max(total_tokens, ts) "
    "from read_json('\" + sys.argv[1] + \"/runs.jsonl', format='newline_delimited') group by all\").fetchall()"
)


def write_run(folder: Path, rows: int) -> None:
    """A run directory in the ledger's order; numbers are drawn, not measured."""
    folder.mkdir(parents=True)
    rng = random.Random(1)
    drawn = [_drawn(rng) for _ in range(10_007)]
    per_weight = rows / (TASKS * ITEMS * sum(STRATEGIES.values()))
    with (folder / "runs.jsonl").open("w") as runs, (folder / "outcomes.jsonl").open("w") as outcomes:
        number = 0
        for task, item, strategy, weight in _cells():
            cell = f'"task_id":"{task}","strategy":"{strategy}","model":"qwen2.5-coder-1.5b"'
            end = number + round(per_weight * weight) if (task, item, strategy) != _last() else rows
            runs.writelines(
                f'{{"ts":"{_time(i)}",{cell},'
                f'{drawn[i % 10_007]},"finish_reason":"stop","v":1,"call_id":"{i:032x}","item_id":"{item}",'
                f'"sample":{i - number},"role":"generate","kept":true,"status":"ok"}}\n'
                for i in range(number, end)
            )
            number = end
            right = rng.random() < 0.4 + 0.05 * weight
            status = '"correct","score":1.0' if right else '"wrong","score":0.0'
            outcomes.write(f'{{{cell},"item_id":"{item}","status":{status}}}\n')
    (folder / "run.json").write_text(json.dumps({"anchor": "baseline", "ladders": LADDERS, "answers": "drawn numbers"}))


def _time(second: int) -> str:
    """Months of 28 days are enough: what counts is that later seconds sort later."""
    day, of_day = divmod(second, 86_400)
    clock = f"{of_day // 3600:02d}:{of_day // 60 % 60:02d}:{of_day % 60:02d}"
    return f"{2026 + day // 336}-{day // 28 % 12 + 1:02d}-{day % 28 + 1:02d}T{clock}.000Z"


def _drawn(rng: random.Random) -> str:
    prompt, completion = rng.randrange(200, 900), rng.randrange(50, 1500)
    return (
        f'"prompt_tokens":{prompt},"completion_tokens":{completion},"total_tokens":{prompt + completion},'
        f'"latency_s":{rng.lognormvariate(0.7, 0.6):.3f},"total_tokens_high":{prompt + completion}'
    )


def _cells() -> Iterator[tuple[str, str, str, int]]:
    for task in range(TASKS):
        for item in range(ITEMS):
            for strategy in sorted(STRATEGIES):
                yield f"task{task}", f"item-{item:05d}", strategy, STRATEGIES[strategy]


def _last() -> tuple[str, str, str]:
    return f"task{TASKS - 1}", f"item-{ITEMS - 1:05d}", max(STRATEGIES)


def measured(command: list[str]) -> tuple[float, float, float]:
    """(seconds of wall time, seconds of CPU, MB of peak memory of the process and its children together)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = [0.0]
    watcher = threading.Thread(target=_watch, args=(process, peak))
    watcher.start()
    code = process.wait()
    wall = time.perf_counter() - start
    watcher.join()
    if code:
        raise SystemExit(f"{command[0]} ended with {code}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, peak[0]


def _watch(process: subprocess.Popen[bytes], peak: list[float]) -> None:
    while process.poll() is None:
        peak[0] = max(peak[0], sum(map(_memory_mb, _family(process.pid))))
        time.sleep(0.05)


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(member for child in children for member in _family(int(child)))]


def _memory_mb(pid: int) -> float:
    """Resident set size, so what two processes share counts twice.

    Proportional sizes would not, but reading them holds a process up for as long as its page tables are walked:
    jq with its 18 GB came to a fifth of its speed.
    """
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6
    except OSError:
        return 0.0


def compare(folder: Path, rows: int, rounds: int) -> Iterator[dict[str, object]]:
    """Prints a table; yields case, seconds and memory of each contender, of all rows together."""
    python = [sys.executable, "-c"]
    contenders: dict[str, list[str]] = {
        "pytest-elo, sums": [*python, SUMS, str(folder)],
        "pytest-elo, rating too": [*python, REPORT, str(folder)],
    }
    if shutil.which("jq"):
        contenders["jq -s (article)"] = ["jq", "-s", ARTICLE, str(folder / "runs.jsonl")]
    if _has("duckdb"):
        contenders["DuckDB (article)"] = [*python, DUCKDB, str(folder)]
        contenders["DuckDB (cells)"] = [*python, DUCKDB_CELLS, str(folder)]
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, command in contenders.items():
            found[name].append(measured(command))
    ours = [statistics.median(values) for values in zip(*found["pytest-elo, sums"], strict=True)]
    print(f"\n{rows:,} rows, medians of {rounds} rounds in turns")
    print(f"{'':24s} {'wall us/row':>12s} {'CPU us/row':>12s} {'MB':>8s} {'wall, ours=1':>13s} {'CPU, ours=1':>12s}")
    for name, rounds_of in found.items():
        wall, cpu, memory = (statistics.median(values) for values in zip(*rounds_of, strict=True))
        print(
            f"{name:24s} {wall / rows * 1e6:12.2f} {cpu / rows * 1e6:12.2f} {memory:8.0f} "
            f"{wall / ours[0]:13.2f} {cpu / ours[1]:12.2f}"
        )
        yield {"case": f"{name}, {rows:,} rows", "wall_s": wall, "cpu_s": cpu, "peak_mb": memory}


def _has(module: str) -> bool:
    return (
        subprocess.run([sys.executable, "-c", f"import {module}"], stderr=subprocess.DEVNULL, check=False).returncode
        == 0
    )


def timed(name: str, action: Callable[[], None]) -> None:
    start = time.perf_counter()
    action()
    print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--peers-rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="append a JSON line a case")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ledger-scale-", dir=options.folder))
    free = shutil.disk_usage(folder).free
    if free < 450 * (options.rows + options.peers_rows):
        raise SystemExit(f"{folder}: {free / 1e9:.0f} GB free are too few")
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, msgspec {'yes' if _has('msgspec') else 'no'}")
    try:
        small, large = folder / "small", folder / "large"
        write_run(small, options.peers_rows)
        measures = list(compare(small, options.peers_rows, options.rounds))
        shutil.rmtree(small)
        timed(f"\nmade {options.rows:,} rows", lambda: write_run(large, options.rows))
        print(f"{(large / 'runs.jsonl').stat().st_size / 1e9:.2f} GB")
        wall, cpu, memory = measured([sys.executable, "-c", WHOLE, str(large)])
        print(f"pytest-elo report, all files: {wall:.1f} s, {cpu:.1f} s of CPU, {memory:.0f} MB at most")
        case = f"pytest-elo report, all files, {options.rows:,} rows"
        measures.append({"case": case, "wall_s": wall, "cpu_s": cpu, "peak_mb": memory})
        if options.json:
            with options.json.open("a") as file:
                file.writelines(json.dumps(measure) + "\n" for measure in measures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
