"""Programs inside a real session: a test's own agent through ``gateway_env``, and the ``command`` strategy."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import pytest

from pytest_elo.errors import ConfigError
from pytest_elo.tasks.swebench.sandbox import choose_sandbox
from tests.harness import KEY
from tests.loopback import LoopbackGateway, model_answer

AGENT = """
import json, os, sys, urllib.request
body = {"model": os.environ.get("ELO_MODEL") or sys.argv[2], "max_tokens": 99}
body["messages"] = [{"role": "user", "content": sys.argv[1]}]
request = urllib.request.Request(
    os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(),
    {"authorization": "Bearer " + os.environ["ANTHROPIC_AUTH_TOKEN"], "content-type": "application/json"},
)
print("ANSWER:", json.load(urllib.request.urlopen(request))["content"][0]["text"])
"""


def billed(gateway):
    return sum(request.billed.total_tokens for request in gateway.requests)


def test_a_users_own_agent_is_charged_with_three_lines(suite):
    suite.file("agent.py", AGENT).file(
        "evals/test_sums.py",
        """
        import os, pathlib, subprocess, sys
        import pytest

        AGENT = pathlib.Path(__file__).parents[1] / "agent.py"

        @pytest.mark.elo("sums", kind="own", data="tasks.yaml")
        def test_agent(problem, gateway_env):
            assert os.environ["TAOTOKEN_API_KEY"] not in str(gateway_env)
            command = [sys.executable, str(AGENT), problem.messages[-1]["content"]]
            out = subprocess.run(command, env=gateway_env, capture_output=True, text=True, check=True).stdout
            problem.score("ANSWER: echo" in out)

        def test_without_an_item(gateway_env):
            subprocess.run([sys.executable, str(AGENT), "hello"], env=gateway_env, check=True)
        """,
    )
    with LoopbackGateway(model_answer) as gateway:
        run = suite.items(4).live(gateway, "-n", "2")
    assert run.exit_code == 0, run.output
    assert len(run.outcomes) == 8
    assert {outcome["score"] for outcome in run.outcomes} == {1.0}
    by_item = defaultdict(int)
    for row in run.charged:
        by_item[row["item_id"], row["strategy"]] += 1
        assert (row["role"], row["kept"], row["status"]) == ("agent", True, "ok")
    assert sorted(by_item.values()) == [1] * 9
    assert sum(row["total_tokens"] for row in run.rows) == billed(gateway)
    assert KEY not in "".join(path.read_text(errors="replace") for path in run.run_dir.rglob("*") if path.is_file())


def test_a_program_competes_with_a_strategy(suite):
    try:
        choose_sandbox()
    except ConfigError:
        pytest.skip("no sandbox works here")
    python = str(Path(sys.executable).resolve())
    suite.strategies(
        baseline={"kind": "single"},
        program={"kind": "command", "command": [python, "-c", AGENT, "{problem}", "{model}"]},
        starved={
            "kind": "command",
            "command": [
                "sh",
                "-c",
                'for i in 1 2; do "$0" -c "$1" "$2" "$3"; done',
                python,
                AGENT,
                "{problem}",
                "{model}",
            ],
            "limits": {"calls": 1},
        },
    )
    with LoopbackGateway(model_answer) as gateway:
        run = suite.items(3).live(gateway)
    assert run.exit_code == 0, run.output
    assert len(run.outcomes) == 9
    rows = [row for row in run.charged if row["strategy"] == "program"]
    assert [(row["role"], row["kept"]) for row in rows] == [("agent", True)] * 3
    assert len({row["item_id"] for row in rows}) == 3
    assert sum(row["total_tokens"] for row in run.rows) == billed(gateway)
    assert sum(row["strategy"] == "starved" for row in run.charged) == 3


def test_a_run_that_stops_takes_no_half_work_for_an_outcome(suite):
    try:
        choose_sandbox()
    except ConfigError:
        pytest.skip("no sandbox works here")
    python = str(Path(sys.executable).resolve())
    often = AGENT.replace("print(", "import time\nfor _ in range(200): time.sleep(0.1); print(")
    suite.strategies(program={"kind": "command", "command": [python, "-c", often, "{problem}", "{model}"]})
    with LoopbackGateway(model_answer) as gateway:
        run = suite.items(2).live(gateway, "--elo-token-budget", "300")
    assert run.exit_code == 2, run.output
    assert "the budget of 300 tokens is used up" in run.output
    assert run.outcomes == []
    assert 1 < len(run.charged) < 100
    assert sum(row["total_tokens"] for row in run.rows) == billed(gateway)
