"""What was paid for survives the death of any process; ``benchmarks/engine_kills.py`` does the same at random."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.harness import KEY
from tests.loopback import LoopbackGateway, Request, Response

CANARY = KEY


def asked(gateway: LoopbackGateway) -> list[str]:
    bodies = [request.body for request in gateway.requests]
    return [
        f"{body['messages'][-1]['content']} {body['seed']} {body['temperature']}"
        for body in bodies
        if body["messages"][-1]["content"].startswith("What is")
    ]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_worker_that_takes_over_buys_nothing_twice(suite, answer, workers):
    """One worker dies with replies in hand that its items have not used.

    Its successor finds them, and so does a worker that was there all the time: there are more items than the
    queues hold, and the two that are left share what the dead one had.
    """
    suite.items(24).file(
        "evals/test_sums.py",
        """
        import os, pathlib, signal, time
        import pytest

        @pytest.mark.elo("sums", kind="own", data="tasks.yaml")
        def test_sums(trial):
            died = pathlib.Path("died")
            if trial.item_id in ("sum002", "sum003") and not died.exists():
                died.touch()
                time.sleep(1)  # the replies of the items ahead arrive and are kept
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.1)
            trial.grade()
        """,
    )
    calls = 24 * 4
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "-n", workers, "--elo-concurrency", "16")
        assert run.exit_code == 1, run.output
        assert "1 worker died" in run.output
        assert len(set(asked(gateway))) == calls
        lost = [row for row in run.rows if row["status"] == "open"]
        assert len(asked(gateway)) <= calls + len(lost)
        assert len(run.outcomes) == 47
        resumed = suite.live(gateway, "--elo-resume")
        assert resumed.exit_code == 0, resumed.output
        assert len(asked(gateway)) <= calls + len(lost)
    assert len(resumed.outcomes) == 48


def test_a_killed_controller_leaves_a_run_that_can_be_resumed(suite, answer):
    hold = {"sum004": True}

    def held(request: Request) -> Response:
        response = answer(request)
        is_held = hold["sum004"] and "What is 4 " in request.body["messages"][-1]["content"]
        return Response(body=response.body, billed=response.billed, delay_s=60 if is_held else 0)

    with LoopbackGateway(held) as gateway:
        suite.settings["gateway"] = {"base_url": gateway.base_url, "timeout_s": 90}
        process = suite.start("-n", "0", env={"TAOTOKEN_API_KEY": KEY})
        deadline = time.monotonic() + 60
        while len(asked(gateway)) < 32 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        hold["sum004"] = False
        run = suite.live(gateway, "--elo-resume", "-n", "0")
        assert run.exit_code == 0, run.output
        assert "recovered" in run.output
        # only the four calls that never came back are made again
        assert len(asked(gateway)) == 32 + 4
        assert len(run.rows) == len(gateway.requests)
        assert sum(row["status"] == "open" for row in run.rows) == 4
    with LoopbackGateway(answer) as gateway:
        suite.settings["gateway"] = {}
        undisturbed = suite.live(gateway)
    assert run.text("pairwise.json") == undisturbed.text("pairwise.json")
    scores = [[(o["item_id"], o["strategy"], o["score"]) for o in found.outcomes] for found in (run, undisturbed)]
    assert scores[0] == scores[1]


def test_the_key_is_nowhere(suite, answer):
    """Not in any file, not in the output, not in a header to any other place."""
    suite.set(gateway={"max_retries": 0})
    with LoopbackGateway(answer) as gateway, LoopbackGateway(answer) as elsewhere:

        def redirecting(request: Request) -> Response:
            if "What is 3 " in str(request.body):
                return Response(status=307, headers={"location": f"{elsewhere.base_url}/chat/completions"})
            return answer(request)

        gateway._script = redirecting
        run = suite.live(gateway, "-n", "2", "-v", "--elo-debug", "--junitxml", "junit.xml", "--elo-record")
        assert run.exit_code == 4, run.output  # a redirect is a wrong address: nothing follows it
        assert not elsewhere.requests
        assert all(CANARY in request.headers["authorization"] for request in gateway.requests)
    assert CANARY not in run.output
    files = [path for path in suite.path.rglob("*") if path.is_file()]
    assert any(path.name.startswith("recorded-") for path in files)
    assert [str(path) for path in files if CANARY.encode() in path.read_bytes()] == []


@pytest.fixture(autouse=True)
def no_leftovers(suite):
    yield
    assert not list(suite.path.glob(".elo/*/shards"))
