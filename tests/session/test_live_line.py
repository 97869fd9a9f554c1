"""The live line: on a terminal it moves, everywhere else it does not exist."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pytest_elo.config import Price
from pytest_elo.records import Attempt, Outcome
from pytest_elo.session.progress import Tally
from tests.harness import KEY, Suite
from tests.loopback import LoopbackGateway, reply

IN_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "pytest", "evals", "-p", "no:cacheprovider", *sys.argv[1:]])
"""


@pytest.fixture
def suite(pytester):
    return Suite(pytester).items(3).strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3})


def test_it_counts_what_reports_bring():
    tally = Tally({"m": Price(prompt=1.0, completion=2.0)})
    row = Attempt(
        ts="", task_id="t", strategy="r3", model="m", call_id="c", item_id="i",
        prompt_tokens=1_000_000, completion_tokens=500_000, total_tokens=1_500_000,
    )  # fmt: skip
    refused = Attempt(ts="", task_id="t", strategy="r3", model="m", call_id="d", item_id="i", http_status=429)
    outcome = Outcome(task_id="t", item_id="i", strategy="r3", model="m", status="correct", score=1.0)
    for event in ({"open": row.to_dict()}, {"open": refused.to_dict()}):
        tally.add_lines(json.dumps(event) + "\n")
    assert tally.text(0, 4, 0.0, 200) == "elo 0/4, 2 in flight, 0 tokens"
    for event in ({"close": row.to_dict()}, {"close": refused.to_dict()}, {"outcome": outcome.to_dict()}):
        tally.add_lines((json.dumps(event) + "\n") * 2)  # a report and a shard may both bring it
    assert tally.text(1, 4, 30.0, 200) == "elo 1/4, 1,500,000 tokens, $2.00, r3 1.00, 1 throttled, 1:30 left"
    assert len(tally.text(1, 4, 30.0, 40)) < 40


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("workers", ["0", "2"])
def test_on_a_terminal_it_stands_below_the_dots_and_is_gone_at_the_end(suite, workers):
    with LoopbackGateway([reply("ANSWER: 2")]) as gateway:
        suite.settings["gateway"] = {"base_url": gateway.base_url}
        (suite.evals / "elo.yaml").write_text(json.dumps(suite.settings))
        output = "".join(_terminal_session(suite, "-n", workers))
    assert re.search(r"\x1b7\x1b\[B\r\x1b\[2Kelo [0-6]/6, [^\x1b]* tokens", output)
    assert "no:" not in output[: output.index("\x1b8")]
    end = output[output.rindex("\x1b8") :]
    assert "\x1b[J" in end
    assert "Elo per token:" in end
    assert "gates" not in end


def _terminal_session(suite: Suite, *arguments: str) -> Iterator[str]:
    ours, theirs = os.openpty()
    env = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_TERMINAL, *arguments],
        cwd=suite.path, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env=env | {"TERM": "xterm", "TAOTOKEN_API_KEY": KEY, "COLUMNS": "100"},
    )  # fmt: skip
    os.close(theirs)
    try:
        while chunk := os.read(ours, 65536):
            yield chunk.decode("utf-8", "replace")
    except OSError:  # Linux's way of saying that the other side is closed
        pass
    finally:
        process.wait(timeout=60)
        os.close(ours)


def test_a_pipe_never_sees_it(suite):
    with LoopbackGateway([reply("ANSWER: 2")]) as gateway:
        run = suite.live(gateway)
    assert run.exit_code == 0
    assert "\x1b" not in run.output
    assert "in flight" not in run.output
