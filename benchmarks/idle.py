"""What a project pays that merely has the plugin installed: its ``pytest`` with the plugin against without.

Runs alternate, so that a busy spell hits both; the cost is the median of the differences of neighbours, in CPU time.

    python -m benchmarks.idle --rounds 40
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = {"without the plugin": ["-p", "no:elo"], "with the plugin": []}


def cpu_s(folder: Path, arguments: list[str]) -> float:
    """User and system seconds of one session; other plugins are the same in both."""
    names = ("PYTHONDONTWRITEBYTECODE", "PYTEST_", "ELO_", "TAOTOKEN")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "pycache")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path, help="append a JSON line a case")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_it.py").write_text("def test_it(): pass\n")
        for arguments in CASES.values():
            cpu_s(folder, arguments)  # compiles what both import
        spent: dict[str, list[float]] = {name: [] for name in CASES}
        for _ in range(options.rounds):
            for name, arguments in CASES.items():
                spent[name].append(cpu_s(folder, arguments))
    medians = {name: statistics.median(seconds) for name, seconds in spent.items()}
    for name, median in medians.items():
        print(f"{name:<20} {1000 * median:7.1f} ms CPU, median of {options.rounds}")
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps({"case": name, "cpu_s": median}) + "\n")
    pairs = zip(*spent.values(), strict=True)
    cost = statistics.median(with_it - without for without, with_it in pairs)
    print(f"idle cost {1000 * cost:.1f} ms")


if __name__ == "__main__":
    main()
