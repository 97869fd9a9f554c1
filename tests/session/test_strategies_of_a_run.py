"""Strategies through a whole session: a user's own, their limits, judges, oracles and mixed models."""

from __future__ import annotations

import csv
import json
from collections import Counter

import pytest

from tests.harness import KEY, Suite
from tests.loopback import LoopbackGateway, Request, Response, reply

OWN = """
import pytest_elo


@pytest_elo.strategy("twice")
async def twice(problem, ask, *, second=0.5):
    first = await ask(problem.messages, temperature=0.0)
    if problem.item_id == "sum001":
        raise ValueError("no second try for this one")
    while problem.item_id == "sum002":
        await ask(problem.messages, temperature=second)
    return await ask(problem.messages, temperature=second, sample=1)
"""


@pytest.fixture
def suite(pytester):
    return Suite(pytester)


def answer(request: Request) -> Response:
    """The right sum, from any model."""
    said = request.body["messages"][-1]["content"]
    if not said.startswith("What is"):
        return reply("OK", model=request.body["model"])
    return reply(f"ANSWER: {2 * int(said.split()[2])}", model=request.body["model"])


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_users_own_strategy_lives_in_conftest(suite, workers) -> None:
    """One item raises, one loops into its limit; both are charged, and all others are as they should be."""
    suite.file("evals/conftest.py", OWN).items(6)
    suite.strategies(baseline={"kind": "single"}, mine={"kind": "twice", "second": 0.7, "limits": {"calls": 5}})
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "-n", workers)
    assert run.exit_code == 1, run.output  # the item whose strategy raised is an error, as a raising test is
    statuses = {(o["item_id"], o["strategy"]): o["status"] for o in run.outcomes}
    expected = {(f"sum{i:03d}", name): "correct" for i in range(6) for name in ("baseline", "mine")}
    expected |= {("sum001", "mine"): "infra_error", ("sum002", "mine"): "limit_exceeded"}
    assert statuses == expected
    assert "the strategy raised ValueError('no second try for this one')" in run.text("outcomes.jsonl")
    rows = [row for row in run.charged if row["strategy"] == "mine"]
    assert len(rows) == 4 * 2 + 1 + 5
    assert sum(row["total_tokens"] for row in run.rows) == gateway.bill.total_tokens
    looping = [row for row in rows if row["item_id"] == "sum002"]
    assert {row["kept"] for row in looping} == {False}
    # both calls of the others are on the ledger, the one returned is kept
    assert sorted(row["kept"] for row in rows if row["item_id"] == "sum003") == [False, True]


RUBRIC = [
    {"id": "letter", "prompt": "Write a letter.", "rubric": ["greets", "names a date", "thanks"]},
    {"id": "poem", "prompt": "Write a poem.", "rubric": "It rhymes."},
    {"id": "odd", "prompt": "Write something odd.", "rubric": ["is odd"]},
]


def writes_and_judges(request: Request) -> Response:
    said = request.body["messages"][-1]["content"]
    counted = {"prompt_tokens": 50, "completion_tokens": 7, "model": request.body["model"]}
    if said.startswith("Grade"):
        if "something odd" in said:
            return reply("I would rather not say.", **counted)
        return reply("RATING: 4" if "It rhymes" in said else "1: YES\n2: NO\n3: YES", **counted)
    return reply("Dear reader" if said.startswith("Write") else "OK", **counted)


def test_rubrics_are_graded_by_a_judge_that_nobody_is_charged_for(suite) -> None:
    suite.file("evals/tasks.yaml", json.dumps(RUBRIC)).set(tasks={"sums": {"judge": "judge-model"}})
    suite.strategies(baseline={"kind": "single"}, reflect1={"kind": "reflect"})
    with LoopbackGateway(writes_and_judges) as gateway:
        run = suite.live(gateway, "-n", "2")
    assert run.exit_code == 1, run.output  # a verdict that cannot be read is an error, not the model's failure
    found = {(o["item_id"], o["strategy"]): (o["status"], o["score"]) for o in run.outcomes}
    for name in ("baseline", "reflect1"):
        assert found["letter", name] == ("partial", pytest.approx(2 / 3))
        assert found["poem", name] == ("partial", 0.75)
        assert found["odd", name] == ("infra_error", 0.0)
    judged = [row for row in run.charged if row["role"] == "judge"]
    # one verdict each, and one more asking where it could not be read
    assert len(judged) == 2 * (1 + 1 + 2)
    assert {(row["model"], row["kept"]) for row in judged} == {("judge-model", True)}
    assert sum(row["total_tokens"] for row in run.rows) == gateway.bill.total_tokens
    tokens = {row["strategy"]: row["total_tokens"] for row in run.json("tokens_by_strategy.json")}
    assert tokens == {"baseline": 3 * 57, "reflect1": 3 * 3 * 57}
    assert f"not charged to any strategy: {len(judged) * 57} tokens in {len(judged)} judge attempts" in run.output


def test_oracles_and_mixed_models_are_marked_in_every_table(suite) -> None:
    suite.items(4).set(model="small")
    suite.strategies(
        baseline={"kind": "single"},
        top3={"kind": "best_of", "n": 3, "selector": "oracle"},
        up={"kind": "escalate", "n": 2, "to": "big"},
    )

    def by_model(request: Request) -> Response:
        said, model = request.body["messages"][-1]["content"], request.body["model"]
        number = int(said.split()[2]) if said.startswith("What is") else 0
        wrong = model == "small" and request.body["seed"] % 2
        return reply(f"ANSWER: {2 * number + wrong}", model=model)

    with LoopbackGateway(by_model) as gateway:
        run = suite.live(gateway)
    assert run.exit_code == 0, run.output
    assert {request.body["model"] for request in gateway.requests[:2]} == {"small", "big"}  # preflight asks both
    for name in ("top3 (oracle)", "up (mixed)"):
        assert sum(line.startswith(name) for line in run.output.splitlines()) == 3  # both tables, and what it means
        assert name in run.text("report.md")
    assert "Elo per dollar, not by Elo per 1k tokens" in run.output
    assert run.json("elo.json")["flags"] == {"top3": ["oracle"], "up": ["mixed"]}
    # an oracle is no tier: no verdict says "go on" because of it
    assert [ladder["ladder"] for ladder in run.json("elo.json")["rating"]["ladders"]] == [["baseline", "up"]]
    marks = {row["strategy"]: row["marks"] for row in csv.DictReader(run.text("elo.csv").splitlines())}
    assert marks == {"baseline": "", "top3": "oracle", "up": "mixed"}


@pytest.mark.parametrize(
    ("strategies", "said"),
    [
        (
            {"b": {"kind": "best_of", "n": 3, "selector": "verifier"}},
            "strategies.b on sums[sum000]: this task has no p",
        ),
        ({"b": {"kind": "best_of", "n": 3, "selector": "jugde"}}, "selector is 'jugde'; choose one of judge, verifier"),
        ({"v": {"kind": "vote", "n": 0}}, "strategies.v on sums[sum000]: vote needs n of at least 1"),
    ],
)
def test_what_a_task_cannot_give_is_refused_before_anything_is_bought(suite, strategies, said) -> None:
    suite.strategies(baseline={"kind": "single"}, **strategies)
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway)
        asked = [r for r in gateway.requests if str(r.body["messages"][-1]["content"]).startswith("What")]
    assert run.exit_code == 4, run.output
    assert said in run.output
    assert asked == []


def test_repeats_are_outcomes_of_their_own_with_seeds_of_their_own(suite) -> None:
    suite.items(2).set(repeats=3)
    suite.strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3}, bo3={"kind": "best_of", "n": 3})
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "-n", "2")
    assert run.exit_code == 0, run.output
    assert len(run.outcomes) == 2 * 3 * 3
    seeds: dict[tuple[str, str], set[int]] = {}
    for row in run.charged:
        if row["role"] in ("vote", "generate"):
            seeds.setdefault((row["item_id"], row["strategy"]), set()).add(row["parameters"]["seed"])
    for item in ("sum000", "sum001"):
        assert len(seeds[item, "r3"]) == 9
        assert seeds[item, "r3"] == seeds[item, "bo3"] > seeds[item, "baseline"]
    assert KEY not in run.output


def test_repeats_that_disagree_at_temperature_0_are_said(suite) -> None:
    """A server whose answers vary with its load: what temperature 0 does not give is measured, not assumed."""
    asked = Counter()

    def wavering(request: Request) -> Response:
        said = request.body["messages"][-1]["content"]
        asked[said] += 1
        return reply("ANSWER: 7") if said.startswith("What is 1 ") and asked[said] == 2 else answer(request)

    suite.items(3).set(repeats=2).strategies(baseline={"kind": "single", "temperature": 0})
    with LoopbackGateway(wavering) as gateway:
        run = suite.live(gateway)
    assert run.exit_code == 0, run.output
    assert (
        "warning: repeats of sums/baseline differ in answer on 1 of 3 items, in score on 1, at temperature 0: "
        "what answers does not repeat itself" in run.output
    )


TWO_TASKS = """
import pytest


@pytest.mark.elo("sums", kind="own", data="tasks.yaml")
def test_sums(trial):
    trial.grade()


@pytest.mark.elo("more", kind="own", data="tasks.yaml")
def test_more(trial):
    trial.grade()
"""


def test_a_task_runs_under_the_strategies_it_names(suite) -> None:
    suite.file("evals/test_sums.py", TWO_TASKS).items(2).set(tasks={"more": {"strategies": ["baseline", "again"]}})
    suite.strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3}, again={"kind": "single"})
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "-v")
        ran = {(outcome["task_id"], outcome["strategy"]) for outcome in run.outcomes}
        nothing_left = suite.live(gateway, "--elo-strategies", "r3", "-rs")
    assert run.exit_code == 0, run.output
    assert ran == {("sums", name) for name in ("baseline", "r3", "again")} | {("more", "baseline"), ("more", "again")}
    assert {outcome["task_id"] for outcome in nothing_left.outcomes} == {"sums"}
    assert "1 skipped" in nothing_left.output


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (["r4"], "tasks.sums.strategies: no strategy is named 'r4'; known: baseline, r3"),
        ("r3", "give a list of"),
    ],
)
def test_a_strategy_that_a_task_names_must_exist(suite, named, said) -> None:
    suite.strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3}).set(
        tasks={"sums": {"strategies": named}}
    )
    run = suite.run()
    assert run.exit_code == 4, run.output
    assert said in run.output


@pytest.mark.parametrize("workers", ["0", "2"])
def test_only_a_task_that_is_run_must_have_the_anchor(suite, workers) -> None:
    suite.file("evals/test_sums.py", TWO_TASKS).file("evals/more.yaml", "[{id: a, prompt: What is 1 + 1?, numeric: 2}]")
    suite.set(tasks={"more": {"strategies": ["r3"]}}).items(2)
    suite.strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3})
    with LoopbackGateway(answer) as gateway:
        other = suite.live(gateway, "-n", workers, "-k", "not more")
        bought = len(gateway.requests)
        whole = suite.live(gateway, "-n", workers)
        listed = suite.live(gateway, "--collect-only", "-q")
        assert len(gateway.requests) == bought + 1, "no more than preflight asks"
    assert other.exit_code == 0, other.output
    assert {outcome["task_id"] for outcome in other.outcomes} == {"sums"}
    for refused in (whole, listed):
        assert refused.exit_code == 4, refused.output
        assert "tasks.more.strategies lacks the anchor 'baseline'" in refused.output
        assert "Traceback" not in refused.output
