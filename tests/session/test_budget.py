"""A budget is one for all processes of a run: none of them buys what another has bought at the same moment."""

from __future__ import annotations

import json
import subprocess
import sys

BUDGET = """
import dataclasses, json, sys, time
from pathlib import Path
from pytest_elo.records import Attempt
from pytest_elo.session.budget import Budget

class Nowhere:
    def open(self, attempt): pass
    def close(self, attempt): pass

def budget(path):
    return Budget(Nowhere(), path, tokens=300, usd=None, prices={})

def row(call_id, high):
    names = {"task_id": "t", "item_id": "i", "strategy": "s", "model": "m", "run_id": "r"}
    return Attempt(ts="", call_id=call_id, total_tokens_high=high, **names)

def buy(budget, name, tokens):
    opened = row(name, 40)
    budget.open(opened)
    budget.close(dataclasses.replace(opened, prompt_tokens=tokens, total_tokens=tokens, total_tokens_high=tokens))
"""

RACES = """
name, folder, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
bought = []
for number in range(rounds):
    shared = budget(folder / f"budget{number}")
    (folder / f"{name}-{number}").touch()
    while len(list(folder.glob(f"*-{number}"))) < 4:
        time.sleep(0)
    bought.append(0)
    while shared.reached() is None:
        if (room := shared.room()) is not None:
            with room:
                buy(shared, f"{name}-{bought[-1]}", 15)
            bought[-1] += 15
print(json.dumps(bought))
"""

DIES = """
budget(Path(sys.argv[1])).open(row("lost", 280))
"""

GOES_ON = """
shared = budget(Path(sys.argv[1]))
n = 0
while shared.reached() is None:
    with shared.room():
        buy(shared, str(n), 5)
    n += 1
print(n, shared.reached())
"""


def run(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", BUDGET + script, *arguments], stdout=subprocess.PIPE, text=True)


def test_processes_that_ask_at_the_same_moment_stay_within_it(tmp_path):
    rounds = 25
    processes = [run(RACES, str(name), str(tmp_path), str(rounds)) for name in range(4)]
    bought = [json.loads(process.communicate(timeout=100)[0]) for process in processes]
    assert [sum(of_round) for of_round in zip(*bought, strict=True)] == [300] * rounds


def test_what_a_lost_process_had_in_flight_is_bought_and_waited_for_by_nobody(tmp_path):
    run(DIES, str(tmp_path / "budget")).communicate(timeout=100)
    said, _ = run(GOES_ON, str(tmp_path / "budget")).communicate(timeout=100)
    assert said == "4 the budget of 300 tokens is used up\n"
