"""Run every benchmark, each in a process of its own, and write one Markdown table of what they measured.

    python -m benchmarks --quick
    python -m benchmarks --output benchmarks.md --python inspect=/venvs/inspect/bin/python

Peers run in environments of their own, named with ``--python NAME=PATH``: ``inspect``, ``pydantic``, ``deepeval``,
``pytest_evals`` and ``promptfoo`` for asking a model, ``rating`` for the rating libraries (``rating_peers.py`` says
how to make it). Ratios are CPU seconds over those of the first case of the same benchmark and sizes. Benchmarks that
check rather than measure have a row with their last line; what failed or could not run says so.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("pytest-elo", "pytest", "pytest-xdist", "openai", "numpy", "pyyaml")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A module under ``benchmarks``: its arguments in full and in short, and whether it writes JSON lines."""

    name: str
    full: Sequence[str] = ()
    quick: Sequence[str] = ()
    measures: bool = False
    peers: bool = False
    titles: tuple[str, str] = ("", "")
    """In full and in short, where the name alone does not tell."""


def _peers(items: int, latency_s: int) -> Benchmark:
    sizes = ("--items", str(items), "--latency-s", str(latency_s))
    few = max(20, items // 20)
    short = ("--items", str(few), "--latency-s", str(latency_s))
    titles = tuple(f"engine_peers, {n} items, {latency_s} s" for n in (items, few))
    rounds = "1" if items * latency_s > 1000 else "3"  # a quarter of an hour each, nearly all of it waiting
    return Benchmark("engine_peers", (*sizes, "--rounds", rounds), short, measures=True, peers=True, titles=titles)


BENCHMARKS = (
    Benchmark("idle", ("--rounds", "40"), ("--rounds", "9"), measures=True),
    Benchmark("collection", ("--rounds", "3"), ("--items", "2000"), measures=True),
    *(_peers(items, latency_s) for items in (200, 2000) for latency_s in (0, 1)),
    Benchmark("ledger_scale", (), ("--rows", "20000", "--peers-rows", "10000", "--rounds", "1"), measures=True),
    Benchmark("proxy", (), ("--requests", "64", "--in-flight", "16", "--latency-s", "0", "--rounds", "1")),
    Benchmark("rating_peers", ("--runs", "3"), ("--runs", "1", "--only", "fit table, 100 ")),
    Benchmark("rating_simulation", (), ("--replications", "20")),
    Benchmark("gate_false_alarms", (), ("--reruns", "2", "--items", "10")),
    Benchmark("engine_kills", (), ("--rounds", "3")),
    Benchmark("fuzz_readers", (), ("--cases", "2000")),
    Benchmark("soak", (), ("--items", "100", "--kills", "1")),
    Benchmark("two_hosts"),
)


@dataclass(frozen=True, slots=True)
class Row:
    benchmark: str
    case: str
    told: str = ""
    wall_s: float | None = None
    cpu_s: float | None = None
    peak_mb: float | None = None

    def cells(self, first_cpu_s: float | None) -> list[str]:
        ratio = self.cpu_s / first_cpu_s if self.cpu_s is not None and first_cpu_s else None
        numbers = [_number(self.wall_s), _number(self.cpu_s), _number(ratio), _number(self.peak_mb)]
        return [self.benchmark, self.case, *numbers, self.told.replace("|", "/")]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def run(benchmark: Benchmark, *, quick: bool, pythons: Mapping[str, str]) -> Iterator[Row]:
    python = pythons.get("rating", sys.executable) if benchmark.name == "rating_peers" else sys.executable
    command = [python, "-m", f"benchmarks.{benchmark.name}", *(benchmark.quick if quick else benchmark.full)]
    if benchmark.peers:
        command += [text for name, path in pythons.items() for text in ("--python", f"{name}={path}")]
    title = benchmark.titles[quick] or benchmark.name
    with tempfile.TemporaryDirectory() as folder:
        measured = Path(folder, "measured.jsonl")
        if benchmark.measures:
            command += ["--json", str(measured)]
        started = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        wall_s = time.perf_counter() - started
        for line in measured.read_text().splitlines() if measured.exists() else ():
            yield Row(title, **json.loads(line))
    for name, seconds in re.findall(r"^\| ([^|]+) \| ([\d.e-]+) \| \d+ \|", done.stdout, flags=re.MULTILINE):
        yield Row(title, name, cpu_s=float(seconds))
    said = (done.stdout if done.returncode == 0 else done.stderr or done.stdout).strip().splitlines()
    told = said[-1][:160] if said else ""
    state = "whole" if done.returncode == 0 else f"FAILED with {done.returncode}"
    yield Row(title, state, told, wall_s=wall_s)


def machine() -> Iterator[str]:
    """What the numbers depend on besides the code."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        model = next(iter(re.findall(r"model name\s*: (.+)", cpuinfo.read_text())), model)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    yield f"CPU {model}, {os.cpu_count()} cores, load {load:.1f} at the start"
    yield f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    yield ", ".join(f"{name} {importlib.metadata.version(name)}" for name in VERSIONS)


def table(rows: Sequence[Row]) -> Iterator[str]:
    yield "| benchmark | case | wall s | CPU s | ratio | peak MB | told |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | --- |"
    first: dict[str, float] = {}
    for row in rows:
        if row.cpu_s is not None:
            first.setdefault(row.benchmark, row.cpu_s)
        yield f"| {' | '.join(row.cells(first.get(row.benchmark)))} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: whether all of them run")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="parts of names")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH", help="environment of a peer")
    parser.add_argument("--output", type=Path, help="Markdown file to write")
    options = parser.parse_args()
    facts = list(machine())
    rows: list[Row] = []
    text = ""
    for benchmark in BENCHMARKS:
        if options.only and not any(part in benchmark.name for part in options.only):
            continue
        for row in run(benchmark, quick=options.quick, pythons=dict(text.split("=", 1) for text in options.python)):
            rows.append(row)
            print(f"{row.benchmark}: {' '.join(filter(None, row.cells(None)[1:]))}", file=sys.stderr, flush=True)
        text = "\n".join([*(f"- {fact}" for fact in facts), "", *table(rows)]) + "\n"
        if options.output:  # as far as it has come: all of them take hours
            options.output.write_text(text, encoding="utf-8")
    print(text)
    return int(any(row.case.startswith("FAILED") for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
