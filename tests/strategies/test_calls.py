"""Each strategy sends exactly the calls that its definition says, in the roles and with the discards it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pytest_elo.errors import ConfigError
from pytest_elo.gateway.recordings import request_key
from pytest_elo.records import Reply
from pytest_elo.tasks.own import OwnProblem, from_items
from tests.loopback import Request, Response, reply


@pytest.fixture
def problem() -> OwnProblem:
    return from_items([{"id": "one", "prompt": "Which number?", "numeric": 2}], max_tokens=50).pose("one", 0)


def prompt(request: Request) -> str:
    return str(request.body["messages"][-1]["content"])


def conversation(request: Request) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in request.body["messages"]]


def by_number(*texts: str) -> Callable[[Request], Response]:
    """The texts in order of arrival."""
    return lambda request: reply(texts[request.number])


def by_sample(samples: dict[int, str], other: Callable[[Request], str]) -> Callable[[Request], Response]:
    """The item's own question is answered by sample, everything else by ``other``; seeds are consecutive."""

    def answer(request: Request) -> Response:
        if prompt(request) != "Which number?":
            return reply(other(request))
        return reply(samples[request.body["seed"] - _first_seed()])

    return answer


def _first_seed() -> int:
    from pytest_elo.gateway.client import seed_for

    return seed_for(0, "own", "one", 0, 0)


class TestReflect:
    def test_one_round_is_draft_critique_revision(self, bench, problem) -> None:
        spent = bench(by_number("ANSWER: 1", "Wrong.\nVERDICT: REVISE", "ANSWER: 2")).run(
            "reflect", problem, critique_tokens=30
        )
        assert spent.text == "ANSWER: 2"
        assert spent.roles == ["generate", "reflect", "generate"]
        assert spent.kept == [True, True, True]
        draft, critique, revision = map(conversation, spent.requests)
        assert draft == [("user", "Which number?")]
        assert critique[:-1] == [*draft, ("assistant", "ANSWER: 1")]
        assert revision[:-1] == [*critique, ("assistant", "Wrong.\nVERDICT: REVISE")]
        assert [request.body["max_tokens"] for request in spent.requests] == [50, 30, 50]
        assert {request.body["temperature"] for request in spent.requests} == {0.0}

    def test_it_stops_when_the_critique_finds_nothing(self, bench, problem) -> None:
        spent = bench(by_number("ANSWER: 1", "Fine. **VERDICT: OK**")).run("reflect", problem, rounds=3)
        assert spent.text == "ANSWER: 1"
        assert spent.roles == ["generate", "reflect"]

    def test_two_rounds_go_on_from_the_first(self, bench, problem) -> None:
        said = ["ANSWER: 1", "VERDICT: REVISE", "ANSWER: 3", "VERDICT: REVISE", "ANSWER: 2"]
        spent = bench(by_number(*said)).run("reflect", problem, rounds=2)
        assert spent.text == "ANSWER: 2"
        assert spent.roles == ["generate", "reflect", "generate", "reflect", "generate"]
        assert [text for role, text in conversation(spent.requests[-1]) if role == "assistant"] == said[:-1]

    def test_the_draft_is_the_request_of_the_baseline(self, bench, problem) -> None:
        bench = bench(by_number("ANSWER: 1", "ANSWER: 1", "VERDICT: OK"))
        baseline = bench.run("single", problem, temperature=0)  # as YAML writes it
        assert keys(bench.run("reflect", problem).requests[:1]) == keys(baseline.requests)

    def test_a_public_check_can_be_the_critic(self, bench) -> None:
        item = {"id": "one", "prompt": "Which number?", "numeric": 2, "verify": is_even}
        bench = bench(by_number("ANSWER: 1", "ANSWER: 2"))
        spent = bench.run("reflect", from_items([item]).pose("one", 0), rounds=3, critic="check")
        assert spent.text == "ANSWER: 2"
        assert spent.roles == ["generate", "tool"]
        assert "is_even does not pass" in prompt(spent.requests[1])


SAMPLES = {0: "ANSWER: 1", 1: "ANSWER: 2", 2: "It is one.\nANSWER: 1"}


class TestBestOf:
    def test_pointwise_rates_each_distinct_answer_once(self, bench, problem) -> None:
        script = by_sample(SAMPLES, lambda request: f"SCORE: {9 if 'ANSWER: 2' in prompt(request) else 4}")
        spent = bench(script).run("best_of", problem, n=3, rubric="Digits only.")
        assert spent.text == "ANSWER: 2"
        assert spent.roles == ["generate"] * 3 + ["select"] * 2
        assert spent.kept == [False, True, False, False, True]
        assert all("Digits only." in prompt(request) for request in spent.requests[3:])

    def test_samples_are_the_requests_of_a_vote(self, bench, problem) -> None:
        bench = bench(by_sample(SAMPLES, lambda _: "SCORE: 5"))
        voted, best = bench.run("vote", problem, n=3), bench.run("best_of", problem, n=3)
        assert keys(best.requests[:3]) == keys(voted.requests)
        assert len({request.body["seed"] for request in voted.requests}) == 3
        assert best.answer.marks == ("select_tie",)
        assert best.text == "ANSWER: 1"  # equal scores: two samples gave it

    def test_pairwise_is_one_challenge_per_further_answer(self, bench, problem) -> None:
        samples = {0: "ANSWER: 1", 1: "ANSWER: 2", 2: "ANSWER: 3"}
        script = by_sample(samples, prefers("ANSWER: 2"))
        spent = bench(script).run("best_of", problem, n=3, compare="pairwise")
        assert spent.text == "ANSWER: 2"
        assert spent.roles == ["generate"] * 3 + ["select"] * 2
        assert spent.kept == [False, True, False, True, True]
        shown = [prompt(request) for request in spent.requests[3:]]
        assert shown[0].index("ANSWER: 1") < shown[0].index("ANSWER: 2")
        assert shown[1].index("ANSWER: 3") < shown[1].index("ANSWER: 2")  # the best so far now stands second

    def test_a_judge_that_favours_a_place_decides_nothing_in_both_orders(self, bench, problem) -> None:
        samples = {0: "ANSWER: 1", 1: "ANSWER: 2"}
        options: dict[str, Any] = {"n": 2, "compare": "pairwise"}
        script = by_sample(samples, lambda _: "BEST: B")
        assert bench(script).run("best_of", problem, **options).text == "ANSWER: 2"
        spent = bench(script).run("best_of", problem, both_orders=True, **options)
        assert spent.text == "ANSWER: 1"
        assert spent.roles == ["generate"] * 2 + ["select"] * 2

    def test_nothing_is_asked_where_all_agree(self, bench, problem) -> None:
        script = by_sample(dict.fromkeys(range(3), "ANSWER: 1"), lambda _: "SCORE: 1")
        assert bench(script).run("best_of", problem, n=3).roles == ["generate"] * 3

    def test_verdicts_that_cannot_be_read_leave_the_most_frequent(self, bench, problem) -> None:
        samples = {0: "ANSWER: 2", 1: "ANSWER: 1", 2: "ANSWER: 1"}
        spent = bench(by_sample(samples, lambda _: "hm")).run("best_of", problem, n=3)
        assert spent.text == "ANSWER: 1"
        assert spent.answer.marks == ("no_verdict",)
        assert spent.kept == [False, True, False, False, False]

    def test_a_verifier_runs_the_public_check(self, bench) -> None:
        item = {"id": "one", "prompt": "Which number?", "numeric": 2, "verify": is_even}
        script = by_sample(SAMPLES, lambda _: "never")
        spent = bench(script).run("best_of", from_items([item]).pose("one", 0), n=3, selector="verifier")
        assert spent.text == "ANSWER: 2"
        assert spent.roles == ["generate"] * 3

    def test_a_verifier_without_a_check_is_refused(self, bench, problem) -> None:
        bench = bench(by_number())
        with pytest.raises(ConfigError, match="no public check"):
            bench.run("best_of", problem, n=3, selector="verifier")
        assert bench.server.requests == []

    def test_an_oracle_is_marked_even_where_it_has_no_choice(self, bench, problem) -> None:
        spent = bench(by_sample(SAMPLES, lambda _: "never")).run("best_of", problem, n=3, selector="oracle")
        assert spent.text == "ANSWER: 2"
        assert spent.answer.marks == ("oracle",)
        alone = bench(by_number("ANSWER: 1")).run("best_of", problem, n=1, selector="oracle")
        assert alone.answer.marks == ("oracle",)

    def test_log_probability_chooses_the_likeliest(self, bench, problem) -> None:
        def script(request: Request) -> Response:
            assert request.body["logprobs"] is True
            sample = request.body["seed"] - _first_seed()
            answered = reply(SAMPLES[sample])
            logprobs = {"content": [{"token": "x", "logprob": [-2.0, -0.5, -1.0][sample]}]}
            return _with_logprobs(answered, logprobs)

        spent = bench(script).run("best_of", problem, n=3, selector="logprob")
        assert spent.text == "ANSWER: 2"


class TestTree:
    def test_two_levels_with_a_vote(self, bench, problem) -> None:
        """2 steps, 1 vote, 2 answers from the step chosen, 1 vote."""

        def script(request: Request) -> Response:
            said = prompt(request)
            if "Which one is best?" in said:
                return reply("BEST: 2")
            if "Do not answer yet" in said:
                return reply(f"step {request.body['seed'] - _first_seed()}")
            return reply(f"ANSWER: {request.body['seed'] - _first_seed()}")

        spent = bench(script).run("tree", problem, depth=2, breadth=1, proposals=2, step_tokens=20)
        assert spent.roles == ["generate", "generate", "select", "generate", "generate", "select"]
        assert spent.kept == [False, True, True, False, True, True]
        assert spent.text == "ANSWER: 1"
        assert [request.body["max_tokens"] for request in spent.requests] == [20, 20, 64, 50, 50, 64]
        assert all("- step 1" in prompt(request) for request in spent.requests[3:5])
        assert "step 0" in prompt(spent.requests[2])

    def test_breadth_keeps_several_and_value_scores_each(self, bench, problem) -> None:
        def script(request: Request) -> Response:
            said = prompt(request)
            if "SCORE" in said:
                return reply("SCORE: 8" if "step 2" in said or "step 0" in said or "ANSWER: 3" in said else "SCORE: 2")
            sample = request.body["seed"] - _first_seed()
            return reply(f"step {sample}" if "Do not answer yet" in said else f"ANSWER: {sample}")

        spent = bench(script).run("tree", problem, depth=2, breadth=2, proposals=3, evaluator="value")
        # 3 steps and their scores, then 3 answers from each of 2 steps (6 different ones) and their scores
        assert spent.roles == ["generate"] * 3 + ["select"] * 3 + ["generate"] * 6 + ["select"] * 6
        assert spent.text == "ANSWER: 3"
        # answer 3 is the first one grown from the second state kept: step 2; one score speaks for each
        kept = sorted((row.role, row.sample) for row, is_kept in zip(spent.rows, spent.kept, strict=True) if is_kept)
        assert kept == [("generate", 2), ("generate", 3), ("select", 2), ("select", 3)]

    def test_the_evaluator_is_not_asked_where_nothing_is_dropped(self, bench, problem) -> None:
        def script(request: Request) -> Response:
            return reply("the same step" if "Do not answer yet" in prompt(request) else "ANSWER: 2")

        spent = bench(script).run("tree", problem, depth=3, breadth=1, proposals=2)
        assert spent.roles == ["generate"] * 6


class TestEscalate:
    def test_agreement_settles(self, bench, problem) -> None:
        spent = bench(by_number("ANSWER: 2", "ANSWER: 2")).run("escalate", problem, n=2, model="test-model", to="big")
        assert spent.roles == ["vote", "vote"]
        assert spent.kept == [True, True]
        assert spent.answer.marks == ()

    def test_disagreement_asks_the_stronger_model(self, bench, problem) -> None:
        def script(request: Request) -> Response:
            model = request.body["model"]
            return reply(f"ANSWER: {request.number if model == 'small' else 2}", model=model)

        spent = bench(script).run("escalate", problem, n=2, model="small", to="big")
        assert [row.model for row in spent.rows] == ["small", "small", "big"]
        assert [request.body["temperature"] for request in spent.requests] == [0.8, 0.8, 0.0]
        assert spent.kept == [False, False, True]
        assert spent.text == "ANSWER: 2"
        assert spent.answer.marks == ("escalated",)

    def test_a_check_can_settle_a_single_sample(self, bench) -> None:
        item = {"id": "one", "prompt": "Which number?", "numeric": 2, "verify": is_even}
        spent = bench(by_number("ANSWER: 4")).run("escalate", from_items([item]).pose("one", 0), n=1, until="check")
        assert spent.text == "ANSWER: 4"

    def test_without_other_models_all_requests_are_those_of_vote_and_baseline(self, bench, problem) -> None:
        bench = bench(by_number("ANSWER: 1", "ANSWER: 2", "ANSWER: 3", "ANSWER: 1", "ANSWER: 2", "ANSWER: 3"))
        known = [*bench.run("vote", problem, n=2).requests, *bench.run("single", problem, temperature=0).requests]
        asked = bench.run("escalate", problem, n=2).requests
        assert keys(asked) == keys(known)


def keys(requests: Sequence[Request]) -> list[str]:
    """What a recording is found by."""
    return sorted(request_key("chat", request.body) for request in requests)


def is_even(answer: str) -> bool:
    return int(answer) % 2 == 0


def prefers(wanted: str) -> Callable[[Request], str]:
    def judge(request: Request) -> str:
        first, _, second = prompt(request).partition("Answer B:")
        return "BEST: A" if wanted in first else "BEST: B" if wanted in second else "?"

    return judge


def _with_logprobs(response: Response, logprobs: Any) -> Response:
    import dataclasses
    import json

    body = json.loads(response.body)
    body["choices"][0]["logprobs"] = logprobs
    return dataclasses.replace(response, body=json.dumps(body).encode())


def test_drafts_of_several_calls_are_kept_or_discarded_as_one(bench, problem) -> None:
    """A task may make its own samples; strategies work on them unchanged."""
    from pytest_elo.records import Draft

    class TwoCalls:
        task_id, item_id, repeat, max_tokens = "own", "one", 0, 50
        messages = problem.messages

        async def generate(self, ask, *, sample, role, temperature, previous=None, feedback=""):
            options = {"sample": sample, "role": role, "temperature": temperature, "max_tokens": 50}
            plan = await ask([{"role": "user", "content": "Plan."}], **options)
            asked = [{"role": "user", "content": f"Do: {plan.text} {feedback}"}]
            done = await ask(asked, **options)
            return Draft(reply=done, kept=(plan.call_id, done.call_id), messages=tuple(asked))

        def answer_key(self, reply: Reply):
            return problem.answer_key(reply)

        def grade(self, reply: Reply):
            return problem.grade(reply)

    def script(request: Request) -> Response:
        sample = request.body["seed"] - _first_seed()
        return reply(f"ANSWER: {sample // 2}" if prompt(request).startswith("Do:") else f"plan {sample}")

    spent = bench(script).run("vote", TwoCalls(), n=3)
    assert spent.roles == ["vote"] * 6
    kept = {row.sample for row in spent.rows if row.call_id in spent.answer.kept}
    assert kept == {0, 1}
    assert sum(spent.kept) == 4
    revised = bench(lambda request: reply("Better.\nVERDICT: REVISE")).run("reflect", TwoCalls())
    assert revised.roles == ["generate", "generate", "reflect", "generate", "generate"]
    assert prompt(revised.requests[-1]).endswith("Better.\nVERDICT: REVISE")
