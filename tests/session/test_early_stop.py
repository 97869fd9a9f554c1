"""A run that stops early stops everywhere, keeps what is paid for, rates no part of a tier, and can be resumed."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

import pytest

from tests.harness import KEY
from tests.loopback import LoopbackGateway, Request, Response

CALLS = 8 * (1 + 3)
"""What the suite buys when nobody disturbs it."""

FAILS_ONCE = """
    import pathlib, pytest

    @pytest.mark.elo("sums", kind="own", data="tasks.yaml")
    def test_sums(trial):
        if trial.item_id == "sum001" and not pathlib.Path("mended").exists():
            raise RuntimeError("a bug of the test's own")
        trial.grade()
"""


def asked(gateway: LoopbackGateway) -> int:
    """Requests for items, without preflight's pings."""
    return sum(request.body["messages"][-1]["content"].startswith("What is") for request in gateway.requests)


def completes(suite, gateway, *arguments: str) -> None:
    """Resume; everything is there afterwards and nothing was bought twice."""
    (suite.path / "mended").touch()
    run = suite.live(gateway, "--elo-resume", *arguments)
    assert run.exit_code == 0, run.output
    assert asked(gateway) == CALLS
    assert len(run.outcomes) == 16
    assert len(run.rows) == len(gateway.requests)
    assert sum(row["total_tokens"] for row in run.rows) == gateway.bill.total_tokens
    assert "partial" not in run.json("run.json")
    assert run.json("elo.json")["rating"]["n_items"] == 8


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_failure_under_x_stops_all_and_a_resumed_run_buys_nothing_twice(suite, slow_answer, workers):
    suite.file("evals/test_sums.py", FAILS_ONCE)
    with LoopbackGateway(slow_answer) as gateway:
        run = suite.live(gateway, "-x", "-n", workers, "--elo-concurrency", "4")
        assert run.exit_code == (2 if workers == "2" else 1), run.output
        assert "did not run" in run.output
        assert len(run.outcomes) < 16
        assert len(run.rows) == len(gateway.requests) < CALLS
        assert all(row["status"] == "ok" for row in run.rows)
        assert run.json("elo.json")["rating"] is None
        assert "is partial" in run.output
        assert "bought and not used" in run.output
        completes(suite, gateway, "-n", workers)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_interrupt_drains_what_is_in_flight(suite, slow_answer, workers):
    with LoopbackGateway(slow_answer) as gateway:
        suite.settings["gateway"] = {"base_url": gateway.base_url}
        arguments = ("-n", workers, "--elo-concurrency", "4")
        process = suite.start(*arguments, env={"TAOTOKEN_API_KEY": KEY})
        until(lambda: asked(gateway) >= 6)
        os.kill(process.pid, signal.SIGINT)  # to the controller alone: no worker sees it
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 2, output
        rows = suite.last_run(output, process.returncode).rows
        assert len(rows) == len(gateway.requests) < CALLS
        assert {row["status"] for row in rows} == {"ok"}
        completes(suite, gateway, "-n", workers)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_interrupt_in_the_middle_of_a_test_is_one_like_any_other(suite, answer, workers):
    suite.file(
        "evals/test_sums.py",
        """
        import os, pathlib, pytest, signal, time

        @pytest.mark.elo("sums", kind="own", data="tasks.yaml")
        def test_sums(trial):
            if trial.item_id == "sum003" and not pathlib.Path("mended").exists():
                worker = "PYTEST_XDIST_WORKER" in os.environ
                os.kill(os.getppid() if worker else os.getpid(), signal.SIGINT)
                time.sleep(5)
            trial.grade()
        """,
    )
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "-n", workers)
        assert run.exit_code == 2, run.output
        assert "Traceback" not in run.output
        assert len(run.rows) == len(gateway.requests)
        assert run.json("elo.json")["rating"] is None
        completes(suite, gateway, "-n", workers)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_sigterm_ends_in_a_partial_report_and_waits_for_nothing_that_hangs(suite, answer, workers):
    """CI sends it to the whole group and kills ten seconds later."""
    held = {"sum005", "sum006", "sum007"}

    def hangs(request: Request) -> Response:
        said = request.body["messages"][-1]["content"]
        is_held = held and said.startswith(("What is 5", "What is 6", "What is 7"))
        return replace(answer(request), delay_s=120 if is_held else 0)

    with LoopbackGateway(hangs) as gateway:
        suite.settings["gateway"] = {"base_url": gateway.base_url}
        process = suite.start("-n", workers, env={"TAOTOKEN_API_KEY": KEY}, start_new_session=True)
        until(lambda: asked(gateway) >= 16)
        time.sleep(1)  # now every worker waits for one that hangs
        os.killpg(process.pid, signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 2, output
        assert "the run was terminated (SIGTERM)" in output
        run = suite.last_run(output, process.returncode)
        assert len(run.rows) == len(gateway.requests)
        assert run.json("elo.json")["rating"] is None
        # what hung is on the ledger, its cost unknown
        unanswered = sum(row["status"] != "ok" for row in run.rows)
        assert unanswered > 0
        held.clear()
        resumed = suite.live(gateway, "--elo-resume", "-n", workers)
    assert resumed.exit_code == 0, resumed.output
    assert len(resumed.outcomes) == 16
    assert asked(gateway) == CALLS + unanswered


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_token_budget_is_kept_and_nothing_is_rated_from_a_part(suite, slow_answer, workers):
    with LoopbackGateway(slow_answer) as gateway:
        run = suite.set(max_tokens=16).live(gateway, "-n", workers, "--elo-token-budget", "300")
        assert run.exit_code == 2, run.output
        assert "the budget of 300 tokens is used up" in run.output
        assert 200 < sum(row["total_tokens"] for row in run.charged) <= 300
        tiers = run.json("run.json")["partial"]
        assert {tier["strategy"] for tier in tiers} == {"baseline", "r3"}
        assert {tier["expected"] for tier in tiers} == {8}
        assert run.json("elo.json")["rating"] is None
        assert "ERROR" not in run.output
        completes(suite, gateway, "-n", workers)


@pytest.mark.parametrize("items", [8, 1])  # with one it stops during its last item
def test_a_run_that_stops_before_its_first_outcome_says_so_in_its_files(suite, answer, items):
    suite.items(items)
    with LoopbackGateway(answer) as gateway:
        run = suite.set(max_tokens=16).live(gateway, "-n", "0", "-k", "r3", "--elo-token-budget", "30")
    assert run.exit_code == 2, run.output
    assert run.outcomes == []
    assert 0 < sum(row["total_tokens"] for row in run.charged) <= 30
    assert run.json("elo.json")["rating"] is None
    assert "no rating: the run was stopped" in run.output


def test_a_budget_in_dollars_needs_prices(suite, answer):
    prices = {"date": "2026-01-31", "models": {"test-model": {"prompt": 10, "completion": 20}}}
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "--elo-usd-budget", "0.003")
        assert run.exit_code == 4
        assert "usd_budget needs prices" in run.output
        assert not gateway.requests
        # 10 prompt and 5 completion tokens a call: $0.0002
        run = suite.set(prices=prices, max_tokens=16).live(gateway, "--elo-usd-budget", "0.003")
    assert run.exit_code == 2, run.output
    assert 10 <= len(run.charged) <= 15
    assert run.json("run.json")["prices"]["date"] == "2026-01-31"


def until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()
