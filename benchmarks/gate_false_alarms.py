"""How often does a gate fail when nothing changed? Whole sessions against a gateway with known chances.

Every item has its own chance to be answered right, as a model has at temperature 0.8. Each session is
compared with the one before it, which was stored as the baseline: so no pair shares its luck with another.
Prints the share of failing gates beside the 5 % they promise, and what comparing two numbers would have done.

    python benchmarks/gate_false_alarms.py --reruns 50 --items 40
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pytest_elo.report.commands import save_baseline  # noqa: E402
from tests.harness import Run, Suite  # noqa: E402
from tests.loopback import LoopbackGateway, Request, Response, reply  # noqa: E402

GATES = ["baseline not_worse_than main", "baseline not_worse_than main by 2 points"]


@dataclass(frozen=True, slots=True)
class Folder:
    """What the harness needs of pytest's own fixture."""

    path: Path


class Model:
    """Right with the item's own chance, drawn anew at every call."""

    def __init__(self, items: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._chances = [self._random.random() ** 0.5 for _ in range(items)]

    def __call__(self, request: Request) -> Response:
        prompt = request.body["messages"][-1]["content"]
        if not prompt.startswith("What is"):
            return reply("OK")
        number = int(prompt.split()[2])
        right = self._random.random() < self._chances[number]
        return reply(f"ANSWER: {2 * number + (not right)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reruns", type=int, default=50)
    parser.add_argument("--items", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = dict.fromkeys(GATES, 0)
    broken = naive = 0
    with tempfile.TemporaryDirectory() as folder, LoopbackGateway(Model(options.items, options.seed)) as gateway:
        suite = Suite(Folder(Path(folder))).items(options.items).set(gates=GATES)
        suite.strategies(baseline={"kind": "single", "temperature": 0.8})
        before = suite.live(gateway)
        for number in range(options.reruns):
            save_baseline(before.run_dir, "main", suite.evals / "baselines" / "main.jsonl")
            run = suite.live(gateway)
            for gate in run.json("gates.json")["gates"]:
                failed[gate["gate"]] += gate["answer"] == "fail"
            broken += run.exit_code != 0
            naive += score(run) < score(before)
            before = run
            print(f"{number + 1}: exit code {run.exit_code}, score {score(run):.3f}", flush=True)
    print(json.dumps({"reruns": options.reruns, "items": options.items, "failed": failed}))
    print(f"builds broken: {broken} of {options.reruns}; two gates at 5 % together, corrected by Holm")
    print(f"'new score < old score' would have broken {naive} of {options.reruns}")


def score(run: Run) -> float:
    outcomes = run.outcomes
    return sum(outcome["score"] for outcome in outcomes) / len(outcomes)


if __name__ == "__main__":
    main()
