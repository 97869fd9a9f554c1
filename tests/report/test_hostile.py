"""Text of models, data files and gateways never steers a terminal, opens a path or becomes markup."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata

import pytest

from tests.harness import Suite
from tests.loopback import LoopbackGateway, Request, Response, reply

STEERING = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b5A\u202edetcerid\r\x00\x7f"
IDS = [f"../../../{STEERING}/etc/passwd", "a b\n::error::c", "-rf", "con:aux|<x>", "é" * 300, "..", "plain"]


def answer(request: Request) -> Response:
    """Steering text in a wrong answer, in an error's body, or in the finish reason's place."""
    if request.body["messages"][-1]["content"] == "fail":
        body = {"error": {"message": f"refused {STEERING}", "code": STEERING}}
        return Response(status=422, body=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
    return reply(f"{STEERING}<script>alert(1)</script>\nANSWER: {STEERING}7")


@pytest.fixture
def run(pytester):
    suite = Suite(pytester).strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3})
    (suite.path / "pytest.ini").write_text("[pytest]\n")
    items = [{"id": raw, "prompt": "say it", "exact": "right"} for raw in IDS]
    items.append({"id": "bad", "prompt": "fail", "exact": "right"})
    suite.file("evals/tasks.yaml", json.dumps(items))
    suite.set(gates=["r3 score >= 0.9", "r3 not_worse_than baseline_of_before"])
    with LoopbackGateway(answer) as gateway:
        yield suite, suite.live(gateway, "-v", "-rA", "--elo-top-failures", "9", "--durations", "3", "--color", "no")


def steering(text: str) -> set[str]:
    return {sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf", "Cs") and sign != "\n"}


def test_nothing_of_a_run_steers_the_terminal_or_leaves_the_folder(run):
    suite, session = run
    assert session.exit_code == 1, session.output
    assert len(session.outcomes) == 2 * (len(IDS) + 1)
    assert steering(session.output) == set()
    assert "the 9 worst cases" in session.output
    assert "7" in {outcome["answer"][-1] for outcome in session.outcomes if outcome["answer"]}
    for arguments in (["report"], ["compare", str(session.run_dir), str(session.run_dir)]):
        command = [sys.executable, "-m", "pytest_elo", *arguments]
        printed = subprocess.run(command, cwd=suite.path, capture_output=True, check=False)
        assert printed.returncode == 0
        assert steering((printed.stdout + printed.stderr).decode()) == set()
    names = [path.relative_to(suite.path).as_posix() for path in suite.path.rglob("*")]
    assert not any(steering(name) or "passwd" in name for name in names)
    page = session.text("report.html")
    assert "<script>alert(1)" not in page
    assert "alert(1)" in page
