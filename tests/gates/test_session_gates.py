"""A merge gate as a repository uses it: a stored run, a prompt made worse, a subset, a slip of the pen."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.harness import Suite
from tests.loopback import LoopbackGateway, Request, Response, reply

GATES = [
    "sums/r3 score >= 0.9",
    "infra_errors <= 2%",
    "r3 not_worse_than main by 2 points",
]
POLITE, TERSE = "What is {i} + {i}? End with ANSWER: <number>", "{i}+{i}"


def answer(request: Request) -> Response:
    """Adds correctly when asked in words; asked tersely it loses every odd sum."""
    prompt = request.body["messages"][-1]["content"]
    if prompt.startswith("What is"):
        return reply(f"ANSWER: {2 * int(prompt.split()[2])}")
    if "+" not in prompt:
        return reply("OK")
    number = int(prompt.split("+")[0])
    return reply(f"ANSWER: {2 * number + number % 2}")


@pytest.fixture
def gateway():
    with LoopbackGateway(answer) as server:
        yield server


def prompts(suite: Suite, template: str, n: int = 16) -> None:
    items = [{"id": f"sum{i:03d}", "prompt": template.format(i=i), "numeric": 2 * i} for i in range(n)]
    suite.file("evals/tasks.yaml", json.dumps(items))


def command(suite: Suite, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_elo", *arguments], cwd=suite.path, capture_output=True, text=True, check=False
    )


def test_a_prompt_made_worse_breaks_the_build_and_names_the_items(pytester, gateway, monkeypatch):
    suite = Suite(pytester).strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3}).set(gates=GATES)
    prompts(suite, POLITE)
    first = suite.live(gateway)
    assert first.exit_code == 0, first.output
    assert "gates: 2 passed, 1 inconclusive" in first.output
    assert "no baseline 'main' is stored yet" in first.output

    saved = command(suite, "baseline", "save")
    assert saved.returncode == 0, saved.stderr
    stored = suite.evals / "baselines" / "main.jsonl"
    lines = [json.loads(line) for line in stored.read_text().splitlines()]
    assert len(lines) == 1 + 16
    assert lines[1]["strategies"] == {"baseline": [1, 15], "r3": [1, 45]}

    prompts(suite, TERSE)
    summary = suite.path / "summary.md"
    worse = suite.live(gateway, "-n", "2", env={"GITHUB_STEP_SUMMARY": str(summary)})
    assert worse.exit_code == 1
    assert "gates: 1 passed, 2 failed" in worse.output
    assert "8 items worse: sums/sum001 (1 -> 0), sums/sum003 (1 -> 0)" in worse.output
    assert "the prompts of 16 of 16 items differ from main's" in worse.output
    document = worse.json("gates.json")["gates"]
    assert [gate["answer"] for gate in document] == ["fail", "pass", "fail"]
    assert len(document[2]["worse"]) == 8
    assert "sums/sum001 (1 -> 0)" in summary.read_text()

    compared = command(suite, "compare", "main")
    assert compared.returncode == 0, compared.stderr
    assert "100.0 -> 50.0" in compared.stdout
    assert "sums/r3: 8 items worse: sums/sum001 (1 -> 0)" in compared.stdout
    as_json = json.loads(command(suite, "compare", "main", ".elo/latest", "--format", "json").stdout)
    assert [len(change["worse"]) for change in as_json["changes"]] == [8, 8]

    subset = suite.live(gateway, "-k", "baseline")
    assert subset.exit_code == 0, subset.output
    assert "gates (judged on what ran under -k baseline): 1 passed, 2 skipped" in subset.output

    suite.set(seed=7)
    refused = suite.live(gateway, "--elo-gate", "baseline score >= 0")
    assert refused.exit_code == 4
    assert "seed 7 here, 0 in main" in refused.output


@pytest.mark.parametrize(
    ("arguments", "settings", "said"),
    [
        (["--elo-gate", "r3 scroe > 0"], {}, "--elo-gate: gate 'r3 scroe > 0', column 4: 'scroe' is no metric"),
        ([], {"gates": ["r3 score > 0 at 3%"]}, "elo.yaml: gates[0]: gate 'r3 score > 0 at 3%', column 17"),
        ([], {"gates": {"ruels": []}}, "gates: unknown key 'ruels'; did you mean 'rules'?"),
        ([], {"gates": {"allow": ["modle"]}}, "gates.allow: 'modle' cannot be allowed; did you mean 'model'?"),
        (["--elo-gate", "r3 better_than mian"], {}, "no baseline 'mian'"),
    ],
)
def test_a_slip_costs_nothing(pytester, gateway, arguments, settings, said):
    suite = Suite(pytester).items(1).set(**settings)
    suite.file("evals/baselines/main.jsonl", "{}\n")
    run = suite.live(gateway, *arguments)
    assert run.exit_code == 4, run.output
    assert said in run.output
    assert not gateway.requests


def test_a_gate_about_nothing_is_an_error_when_the_whole_suite_ran(pytester, gateway):
    suite = Suite(pytester).items(2).set(gates=["smus/r3 score > 0"])
    run = suite.live(gateway)
    assert run.exit_code == 4
    assert "no task 'smus' has outcomes; did you mean 'sums'?" in run.output


@pytest.mark.parametrize(
    ("line", "said"),
    [("<<<<<<< HEAD", "line 2: not JSON (a merge conflict?)"), ('{"task": "sums"}', "line 2: no item of a baseline")],
)
def test_a_damaged_baseline_is_named_with_its_line(tmp_path, line, said):
    from pytest_elo.errors import DataError
    from pytest_elo.gates.baseline import load

    path = tmp_path / "main.jsonl"
    path.write_text('{"v": 1, "baseline": "main"}\n' + line + "\n")
    with pytest.raises(DataError) as caught:
        load(path, "main")
    assert said in str(caught.value)
