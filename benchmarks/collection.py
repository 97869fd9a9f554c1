"""Collect suites of 100,000 pytest items: seconds and peak memory of one process, beside pytest's own cost.

"collected in" is pytest's own count: what a worker takes before its first item. The wall and CPU seconds are those
of the whole process; it also prints every id and takes all items apart again at its end. CPU seconds are what other
programs on the machine disturb least.

The floor is a bare ``parametrize`` of as many ids. Ours are an own task as JSON lines and as YAML, a CSV file in
GPQA's format, and a tenth of the items under ten strategies.

    python -m benchmarks.collection --items 100000
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_elo.tasks.gpqa import ID_COLUMN, OPTION_COLUMNS

TEST = """
import pytest

@pytest.mark.elo({task!r}, kind={kind!r}, data={data!r})
def test_it(trial):
    trial.grade()
"""
BARE = """
import pytest

@pytest.mark.parametrize("key", range({items}), ids=[f"sum{{i:06d}}-baseline" for i in range({items})])
def test_it(key):
    pass
"""


@dataclass(frozen=True, slots=True)
class Cost:
    collecting_s: float
    wall_s: float
    cpu_s: float
    peak_mb: float
    collected: int


def own(folder: Path, items: int) -> None:
    rows = (json.dumps(_sum(i)) + "\n" for i in range(items))
    (folder / "tasks.jsonl").write_text("".join(rows), encoding="utf-8")
    (folder / "test_it.py").write_text(TEST.format(task="sums", kind="own", data="tasks.jsonl"))


def yaml(folder: Path, items: int) -> None:
    (folder / "tasks.yaml").write_text(json.dumps([_sum(i) for i in range(items)]), encoding="utf-8")
    (folder / "test_it.py").write_text(TEST.format(task="sums", kind="own", data="tasks.yaml"))


def gpqa(folder: Path, items: int) -> None:
    with (folder / "questions.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([ID_COLUMN, "Question", *OPTION_COLUMNS])
        for i in range(items):
            question = f"A train covers {i} m a minute. How far does it come in an hour and a half, on a level track?"
            writer.writerow([f"rec{i:06d}", question, f"{90 * i} m", f"{60 * i} m", f"{9 * i} km", f"{i + 90} m"])
    (folder / "test_it.py").write_text(TEST.format(task="gpqa", kind="gpqa", data="questions.csv"))


def bare(folder: Path, items: int) -> None:
    (folder / "test_it.py").write_text(BARE.format(items=items))


def _sum(i: int) -> dict[str, object]:
    return {
        "id": f"sum{i:06d}",
        "prompt": f"What is {i} + {i}? Think, then end with ANSWER: <number>",
        "numeric": 2 * i,
    }


SUITES: dict[str, tuple[Callable[[Path, int], None], int]] = {
    "bare parametrize": (bare, 1),
    "own, JSON lines": (own, 1),
    "own, JSON lines, 10 strategies": (own, 10),
    "own, YAML": (yaml, 1),
    "GPQA format, CSV": (gpqa, 1),
}


def write(folder: Path, name: str, items: int) -> None:
    """A suite of ``items`` pytest items under ``folder``."""
    make, strategies = SUITES[name]
    evals = folder / "evals"
    evals.mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    make(evals, items // strategies)
    if name != "bare parametrize":
        kinds = {"baseline": {"kind": "single"}} | {f"r{n}": {"kind": "vote", "n": n} for n in range(2, strategies + 1)}
        (evals / "elo.yaml").write_text(json.dumps({"model": "test-model", "strategies": kinds}))


def collect(folder: Path, *arguments: str) -> Cost:
    command = [sys.executable, "-m", "pytest", "evals", "--collect-only", "-q", *arguments]
    names = ("PYTHONDONTWRITEBYTECODE", "PYTEST_", "ELO_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    environment["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir(), f"pytest-elo-pycache-{sys.version_info[1]}"))
    started = time.perf_counter()
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    told = (folder / "output.txt").read_text()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}\n{told[-2000:]}")
    took = re.search(r" in ([\d.]+)s(?: \(|$)", told.strip().splitlines()[-1])
    assert took is not None, told[-2000:]
    return Cost(
        float(took[1]), wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, told.count("test_it.py::test_it[")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="parts of names")
    parser.add_argument("--json", type=Path, help="append a JSON line a suite")
    options = parser.parse_args()
    line = "{:<32}{:>14}{:>9}{:>9}{:>9}{:>11}"
    print(line.format("", "collected in s", "wall s", "CPU s", "peak MB", "items"), flush=True)
    for name in SUITES:
        if options.only and not any(part in name for part in options.only):
            continue
        with tempfile.TemporaryDirectory() as base:
            folder = Path(base)
            write(folder, name, options.items)
            costs = [collect(folder) for _ in range(options.rounds)]
            one = [collect(folder, "-k", f"{options.items // 20:06d}")]
        for label, measured in ((name, costs), ("  of these one, by -k", one)):
            collecting, wall, cpu = (
                statistics.median(getattr(cost, part) for cost in measured)
                for part in ("collecting_s", "wall_s", "cpu_s")
            )
            peak = max(cost.peak_mb for cost in measured)
            if options.json:
                told = {
                    "case": label.strip(),
                    "told": f"collected in {collecting:.2f} s",
                    "wall_s": wall,
                    "cpu_s": cpu,
                    "peak_mb": peak,
                }
                with options.json.open("a") as file:
                    file.write(json.dumps(told) + "\n")
            figures = (f"{collecting:.2f}", f"{wall:.2f}", f"{cpu:.2f}", f"{peak:.0f}", measured[-1].collected)
            print(line.format(label, *figures), flush=True)


if __name__ == "__main__":
    main()
