"""Resuming runs what is missing or failed for no reason of the model, under the same condition and no other."""

from __future__ import annotations

import json

import pytest

from tests.loopback import LoopbackGateway, Request, Response, error


class Mended:
    """Fails one item with 500 until it is mended."""

    def __init__(self, answer) -> None:
        self.answer = answer
        self.is_mended = False

    def __call__(self, request: Request) -> Response:
        prompt = request.body["messages"][-1]["content"]
        if "What is 3 " in prompt and not self.is_mended:
            return error(500, "out of order")
        return self.answer(request)


@pytest.fixture
def small(suite):
    return suite.items(4).strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3})


def test_only_what_failed_is_asked_again(small, answer):
    model = Mended(answer)
    small.set(gateway={"max_retries": 0})
    with LoopbackGateway(model) as gateway:
        run = small.live(gateway)
        assert run.exit_code == 1, run.output
        assert sorted(o["status"] for o in run.outcomes if o["item_id"] == "sum003") == ["infra_error"] * 2
        model.is_mended = True
        before = len(gateway.requests)
        resumed = small.live(gateway, "--elo-resume", "-n", "2")
        assert resumed.exit_code == 0, resumed.output
        assert resumed.run_dir == run.run_dir
        again = [request.body["messages"][-1]["content"] for request in gateway.requests[before:]]
        assert [prompt for prompt in again if "What is 3 " not in prompt] == ["Reply with OK only."]
        assert {outcome["status"] for outcome in resumed.outcomes} == {"correct", "wrong"}
        # the failed attempts stay on the ledger
        assert len(resumed.rows) == len(gateway.requests)

        before = len(gateway.requests)
        complete = small.live(gateway, f"--elo-resume={run.run_dir}")
    assert complete.exit_code == 0, complete.output
    assert len(gateway.requests) == before + 1
    assert complete.outcomes == resumed.outcomes


def test_another_condition_is_refused_with_the_difference_named(small, answer):
    with LoopbackGateway(answer) as gateway, LoopbackGateway(answer) as elsewhere:
        first = small.live(gateway)
        assert first.exit_code == 0, first.output
        kept = first.text("runs.jsonl")
        pings = len(gateway.requests)

        def refused(said: str, *arguments: str, at: LoopbackGateway = gateway) -> None:
            run = small.live(at, "--elo-resume", *arguments)
            assert run.exit_code == 4, run.output
            assert "Traceback" not in run.output
            line = next(line for line in run.output.splitlines() if "--elo-resume:" in line)
            assert said in line
            assert not [row for row in run.charged if row not in first.charged]

        refused("model was 'test-model'", "--elo-model", "other-model")
        small.settings["max_tokens"] = 99
        refused("max_tokens was None")
        del small.settings["max_tokens"]
        small.strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 5})
        refused("strategy 'r3' was {'kind': 'vote', 'n': 3}")
        small.strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3})
        assert len(gateway.requests) == pings
        assert first.text("runs.jsonl") == kept
        refused("endpoint was", at=elsewhere)
        tasks = json.loads((small.evals / "tasks.yaml").read_text())
        tasks[0]["numeric"] = 7
        small.file("evals/tasks.yaml", json.dumps(tasks))
        refused("the data, prompts or grading rules of task 'sums'")


def test_what_is_no_run_cannot_be_resumed(small, answer):
    with LoopbackGateway(answer) as gateway:
        run = small.live(gateway, "--elo-resume", "evals")
        assert run.exit_code == 4
        assert "evals holds no run.json" in run.output
        run = small.live(gateway, "--elo-resume")
    assert run.exit_code == 4
    assert "there is no run" in run.output
    assert not gateway.requests


def test_a_cache_answers_what_an_earlier_run_bought_under_the_same_condition(small, answer):
    with LoopbackGateway(answer) as gateway:
        first = small.live(gateway)
        bought = len(gateway.requests)
        second = small.live(gateway, "--elo-cache", "-n", "2")
        assert second.exit_code == 0, second.output
        assert len(gateway.requests) == bought + 1  # the preflight's
        assert second.run_dir != first.run_dir
        assert {row["source"] for row in second.charged} == {"replay"}
        totals = [sum(row["total_tokens"] for row in run.charged) for run in (first, second)]
        assert totals[0] == totals[1]
        bought = len(gateway.requests)
        third = small.set(seed=1).live(gateway, "--elo-cache")
        assert third.exit_code == 0, third.output
    assert {row["source"] for row in third.charged} == {"live"}
    assert len(gateway.requests) == bought + len(third.rows)
