"""Law 2: one recording, any number of workers, any order: the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.harness import Suite
from tests.loopback import LoopbackGateway, Request, Response, reply

REVERSE = """
def pytest_collection_modifyitems(items):
    items.reverse()
"""


@pytest.fixture
def recorded(pytester):
    """A suite with recordings made by its own record mode, whose answers depend on the sample's seed."""

    def answer(request: Request) -> Response:
        prompt = request.body["messages"][-1]["content"]
        if not prompt.startswith("What is"):
            return reply("OK")
        number = int(prompt.split()[2])
        wrong = request.body["seed"] % 3 == 0
        return reply(f"ANSWER: {2 * number + wrong}", completion_tokens=5 + request.body["seed"] % 7)

    suite = Suite(pytester).items(10)
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "--elo-record", "-n", "2")
    assert run.exit_code == 0, run.output
    assert "recorded calls now stand in" in run.output
    del suite.settings["gateway"]
    return suite


def test_the_rating_is_the_same_for_any_workers_and_order(recorded):
    files = {}
    for arguments in (["-n", "0"], ["-n", "4"], ["-n", "2", "--dist", "loadfile"]):
        run = recorded.run(*arguments)
        assert run.exit_code == 0, run.output
        assert "no model was called" in run.output
        assert {row["source"] for row in run.rows} == {"replay"}
        files[tuple(arguments)] = _contents(run)
    recorded.file("evals/conftest.py", REVERSE)
    files["reversed"] = _contents(recorded.run("-n", "2"))
    first = files["-n", "0"]
    assert all(found == first for found in files.values())


def test_the_report_command_prints_the_sessions_table_from_files_alone(recorded):
    run = recorded.run("-n", "2")
    before = _contents(run)
    command = [sys.executable, "-m", "pytest_elo", "report", str(run.run_dir)]
    process = subprocess.run(
        command, capture_output=True, text=True, cwd=recorded.path, env={**os.environ}, check=True
    )  # env: readline tells child processes of 80 columns
    printed = process.stdout
    table = [line for line in printed.splitlines() if line.startswith(("baseline  ", "r3  ", "r5  "))]
    assert len(table) == 2 * 3  # the strategies, and what stands behind each ΔElo
    assert all(line in run.output.splitlines() for line in printed.splitlines())
    assert _contents(run) == before


def test_an_anchor_that_no_task_has_is_named_with_the_tasks(recorded):
    run = recorded.run()
    command = [sys.executable, "-m", "pytest_elo", "report", str(run.run_dir), "--anchor", "basline"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 4
    assert process.stderr == "ERROR: the anchor 'basline' is in no task (tasks: sums); did you mean 'baseline'?\n"


def test_a_request_that_was_never_recorded_is_an_error_that_says_how_to_record_it(recorded):
    recorded.items(11)
    run = recorded.run()
    assert run.exit_code == 1
    assert "--elo-record" in run.output
    assert "sum010" in run.output
    new = [outcome for outcome in run.outcomes if outcome["item_id"] == "sum010"]
    assert {outcome["status"] for outcome in new} == {"infra_error"}
    assert "30 of 33 outcomes are scored" in run.output


def _contents(run) -> dict[str, str]:
    names = ("elo.json", "elo.csv", "report.md", "pairwise.json", "outcomes.jsonl", "tokens_by_strategy.json")
    contents = {name: run.text(name) for name in names}
    contents["outcomes.jsonl"] = _without_call_ids(run)
    return contents


def _without_call_ids(run) -> str:
    return repr([{key: value for key, value in line.items() if key != "call_ids"} for line in run.outcomes])
