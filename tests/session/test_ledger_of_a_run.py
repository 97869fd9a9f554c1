"""Law 1 through a whole session: every HTTP attempt is one row, however it or its process ends."""

from __future__ import annotations

import collections
import json
import os
import signal
import time

import pytest

from tests.harness import KEY, Suite
from tests.loopback import LoopbackGateway, Request, Response, error, reply


@pytest.fixture
def suite(pytester):
    return Suite(pytester)


def answer(request: Request) -> Response:
    """Right for even numbers, off by one for odd ones."""
    prompt = request.body["messages"][-1]["content"]
    if not prompt.startswith("What is"):
        return reply("OK")
    number = int(prompt.split()[2])
    return reply(f"ANSWER: {2 * number + number % 2}")


class Flaky:
    """Refuses each request's first two tries with 429."""

    def __init__(self) -> None:
        self.tries: collections.Counter[str] = collections.Counter()

    def __call__(self, request: Request) -> Response:
        key = str(request.body)
        self.tries[key] += 1
        if self.tries[key] < 3:
            return error(429, "slow down", headers={"retry-after-ms": "1"})
        return answer(request)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_two_refusals_and_an_answer_are_three_rows(suite, workers):
    suite.items(1).strategies(baseline={"kind": "single"})
    with LoopbackGateway(Flaky()) as gateway:
        run = suite.live(gateway, "-n", workers)
    assert run.exit_code == 0, run.output
    assert [row["http_status"] for row in run.charged] == [429, 429, 200]
    assert [row["kept"] for row in run.charged] == [False, False, True]
    assert len({row["call_id"] for row in run.charged}) == 1
    assert [row["attempt"] for row in run.charged] == [0, 1, 2]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_ledger_equals_the_gateways_bill(suite, workers):
    suite.items(6)
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "-n", workers)
    assert run.exit_code == 0, run.output
    assert len(run.rows) == len(gateway.requests)
    assert sum(row["total_tokens"] for row in run.rows) == gateway.bill.total_tokens
    # 1 + 3 + 5 samples an item, one kept for the baseline, agreeing votes all kept
    assert len(run.charged) == 6 * 9
    assert all(row["kept"] for row in run.charged)
    assert not list(run.run_dir.glob("shards/*"))


def test_a_worker_killed_in_mid_item_loses_no_row(suite):
    suite.items(8).strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3})
    suite.file(
        "evals/test_sums.py",
        """
        import os, signal
        import pytest

        @pytest.mark.elo("sums", kind="own", data="tasks.yaml")
        def test_sums(trial):
            if trial.item_id == "sum003" and trial.strategy == "r3":
                os.kill(os.getpid(), signal.SIGKILL)
            trial.grade()
        """,
    )
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "-n", "2")
    assert run.exit_code == 1, run.output
    assert "crashed" in run.output
    # A request whose bytes the kernel had taken when the worker died may never have been read by the gateway:
    # its row is open, and the bill lies inside the interval that the rows state.
    unanswered = [row for row in run.rows if row["status"] == "open"]
    assert len(run.rows) - len(unanswered) <= len(gateway.requests) <= len(run.rows)
    low = sum(row["total_tokens"] for row in run.rows)
    high = sum(max(row["total_tokens"], row["total_tokens_high"]) for row in run.rows)
    assert low <= gateway.bill.total_tokens <= high
    assert ("sum003", "r3") not in {(outcome["item_id"], outcome["strategy"]) for outcome in run.outcomes}
    assert len(run.outcomes) == 15


def test_the_shards_of_a_killed_run_are_recovered_at_the_next_start(suite):
    suite.items(8).strategies(baseline={"kind": "single"})

    def slow_third(request: Request) -> Response:
        response = answer(request)
        return response if len(gateway.requests) < 4 else Response(**{**_fields(response), "delay_s": 60})

    with LoopbackGateway(slow_third) as gateway:
        suite.settings["gateway"] = {"base_url": gateway.base_url}
        process = suite.start("-n", "0", "--elo-concurrency", "1", env={"TAOTOKEN_API_KEY": KEY})
        deadline = time.monotonic() + 60
        while len(gateway.requests) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    (killed,) = (suite.path / ".elo").glob("2*")
    assert not (killed / "runs.jsonl").exists()
    with LoopbackGateway(answer) as second:
        run = suite.live(second)
    assert run.output.count("recovered 4 attempts of the killed run") == 1
    assert "1 of them never answered" in run.output
    rows = [json.loads(line) for line in (killed / "runs.jsonl").read_text().splitlines()]
    assert sorted(row["status"] for row in rows) == ["ok", "ok", "ok", "open"]
    (unanswered,) = [row for row in rows if row["status"] == "open"]
    assert unanswered["total_tokens"] < unanswered["total_tokens_high"]
    assert not (killed / "shards").exists()


def _fields(response: Response) -> dict[str, object]:
    import dataclasses

    return {field.name: getattr(response, field.name) for field in dataclasses.fields(response)}


def test_direct_calls_of_a_test_are_charged_to_its_item(suite):
    suite.items(2).strategies(baseline={"kind": "single"})
    suite.file(
        "evals/test_sums.py",
        """
        import pytest

        @pytest.mark.elo("sums", kind="own", data="tasks.yaml")
        def test_sums(problem, client, ledger):
            reply = client.chat.completions.create(model="test-model", messages=problem.messages)
            assert ledger.total_tokens(item_id=problem.item_id) == reply.usage.total_tokens
            problem.score(reply.choices[0].message.content.startswith("ANSWER"))

        def test_plain(client):
            client.chat.completions.create(model="test-model", messages=[{"role": "user", "content": "Hello"}])
        """,
    )
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "-n", "2")
    assert run.exit_code == 0, run.output
    assert sum(row["total_tokens"] for row in run.rows) == gateway.bill.total_tokens
    charged = {(row["task_id"], row["item_id"], row["kept"]) for row in run.charged}
    assert ("sums", "sum000", True) in charged
    assert ("sums", "sum001", True) in charged
    assert ("(unrated)", "evals/test_sums.py::test_plain", True) in charged
