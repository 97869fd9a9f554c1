"""An arena in a session: answers and verdicts over real HTTP, votes on disk, ratings with what they are worth."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from pytest_elo.report.build import build
from pytest_elo.report.page import page
from pytest_elo.votes.page.booth import Booth
from pytest_elo.votes.records import Vote
from pytest_elo.votes.store import append_votes
from tests.harness import Run, Suite
from tests.loopback import LoopbackGateway, Request, Response, error, reply

TEST_FILE = """
import pytest

@pytest.mark.elo("arena", data="prompts.yaml")
def test_arena(contest):
    contest.judge()
"""


@pytest.fixture
def suite(pytester):
    """Eight prompts under two strategies that only differ in temperature."""
    suite = Suite(pytester).file("evals/test_sums.py", TEST_FILE)
    prompts = [{"id": f"p{n}", "prompt": f"Write about {n}."} for n in range(8)]
    suite.file("evals/prompts.yaml", json.dumps(prompts))
    suite.strategies(baseline={"kind": "single", "temperature": 0}, warm={"kind": "single", "temperature": 0.7})
    suite.set(tasks={"arena": {"judge": "judge-model"}}, gateway={"allow_model_substitution": True})
    return suite


def shown(request: Request, slot: str) -> str:
    """What the judge was shown in a slot; empty when the request is no judge's."""
    text = str(request.body["messages"][-1]["content"])
    return text.partition(f"<answer-{slot} ")[2].partition(f"</answer-{slot} ")[0]


def answer_of(request: Request) -> str:
    """Warm answers are longer, but for the third prompt, where both say the same."""
    prompt = str(request.body["messages"][-1]["content"])
    is_long = request.body["temperature"] > 0 and "about 3" not in prompt
    return f"- {prompt} " + "More words. " * (9 if is_long else 2)


def first_slot(request: Request) -> Response:
    return reply("I like the first.\n[[A]]" if shown(request, "A") else answer_of(request))


def longest(request: Request) -> Response:
    a, b = shown(request, "A"), shown(request, "B")
    return reply(("[[A]]" if len(a) > len(b) else "[[B]]") if a else answer_of(request))


def votes_of(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.text("votes.jsonl").splitlines()]


def arena_of(run: Run) -> dict[str, Any]:
    (arena,) = run.json("elo.json")["arenas"]
    return arena


def report(run: Run, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest_elo", "report", str(run.run_dir), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_judge_of_slots_gives_nobody_a_point(suite):
    with LoopbackGateway(first_slot) as gateway:
        run = suite.live(gateway, "-v")
        bill = gateway.bill.total_tokens
    assert run.exit_code == 0, run.output
    assert "test_arena[p0] PASSED" in run.output
    arena = arena_of(run)
    assert arena["results"] == {"identical": 1, "inconsistent": 7}
    assert {c["share"] for c in run.json("pairwise.json")} == {0.5}
    delta = {policy["policy"]: policy["delta"]["value"] for policy in run.json("elo.json")["rating"]["policies"]}
    assert delta["warm"] == pytest.approx(0.0, abs=1e-9)
    assert "consistency 0.0%" in run.output
    assert "first slot 100.0%" in run.output
    # the identical pair was never shown to a judge, and no judge's token is a policy's
    judged = [row for row in run.rows if row["role"] == "judge"]
    assert len(judged) == 14
    assert {row["model"] for row in judged} == {"judge-model"}
    assert sum(row["total_tokens"] for row in run.rows) == bill
    charged = {row["strategy"]: row["calls"] for row in run.json("tokens_by_strategy.json")}
    assert charged == {"baseline": 8, "warm": 8}
    assert {outcome["status"] for outcome in run.outcomes} == {"answered"}
    assert "0 of 0 outcomes are scored; 16 more are answers that have no score" in run.output
    assert {policy["score"] for policy in run.json("elo.json")["rating"]["policies"]} == {None}


def test_a_judge_of_length_shows_in_what_style_control_takes_away(suite):
    with LoopbackGateway(longest) as gateway:
        run = suite.live(gateway)
    assert run.exit_code == 0, run.output
    arena = arena_of(run)
    (rating,) = (rating for rating in arena["board"]["style"]["ratings"] if rating["policy"] == "warm")
    assert rating["raw"] > 200
    assert abs(rating["controlled"]) < rating["raw"] / 2
    (block,) = arena["bias"]
    assert block["longer_wins"] == {"hits": 14, "n": 14}
    assert "style control moves warm most" in run.output
    assert "the verdict follows length" not in run.output  # 14 votes are too few to say so
    assert "### arena, judged in pairs: 7 consistent, 1 identical" in run.text("report.md")
    html = page(build(run.run_dir))
    assert "Who judged, and how far that can be believed" in html
    assert "<td>100.0% of 14</td>" in html


def test_workers_and_replays_give_the_same_bytes(suite):
    with LoopbackGateway(longest) as gateway:
        recorded = suite.live(gateway, "--elo-record")
    assert recorded.exit_code == 0, recorded.output
    del suite.settings["gateway"]
    names = ("elo.json", "report.md", "pairwise.json", "votes.jsonl", "contests.jsonl")
    contents = []
    for arguments in (["-n", "0"], ["-n", "2"], ["-n", "2", "--dist", "loadfile"]):
        run = suite.run(*arguments)
        assert run.exit_code == 0, run.output
        contents.append({name: run.text(name) for name in names})
    assert contents[0] == contents[1] == contents[2]
    assert report(run).splitlines()[-1] in run.output
    assert {name: run.text(name) for name in names} == contents[0]


def test_answers_that_are_not_there_are_listed_and_never_judged(suite):
    is_broken = {"p2": True}

    def sometimes(request: Request) -> Response:
        about = str(request.body["messages"][-1]["content"])
        is_warm = request.body["temperature"] > 0 and not shown(request, "A")
        if "about 1" in about and is_warm:
            return reply("")
        return error(500, "broken") if "about 2" in about and is_warm and is_broken["p2"] else longest(request)

    suite.settings["gateway"]["max_retries"] = 0
    with LoopbackGateway(sometimes) as gateway:
        run = suite.live(gateway)
        by_place = {(outcome["item_id"], outcome["strategy"]): outcome["status"] for outcome in run.outcomes}
        results, judged = arena_of(run)["results"], {row["item_id"] for row in run.rows if row["role"] == "judge"}
        asked = len(gateway.requests)
        is_broken["p2"] = False
        resumed = suite.live(gateway, "--elo-resume")
        later = gateway.requests[asked:]
    assert run.exit_code == 1, run.output  # what a gateway broke is an error of the session
    assert by_place["p1", "warm"] == "empty"
    assert by_place["p2", "warm"] == "infra_error"
    assert results == {"consistent": 5, "excluded": 2, "identical": 1}
    assert "p1, baseline against warm, by judge-model: excluded (warm: empty)" in run.output
    assert "p2, baseline against warm, by judge-model: excluded (warm: infra_error)" in run.output
    assert judged == {"p0", "p4", "p5", "p6", "p7"}
    assert resumed.exit_code == 0, resumed.output
    # what is made up for is p2's missing answer and its two verdicts
    assert len([request for request in later if "about" in str(request.body)]) == 3
    assert arena_of(resumed)["results"] == {"consistent": 6, "excluded": 1, "identical": 1}
    assert len(resumed.outcomes) == 16


def test_a_killed_worker_loses_no_vote(suite):
    suite.file(
        "evals/test_sums.py",
        """
        import os, pathlib, signal
        import pytest

        @pytest.mark.elo("arena", data="prompts.yaml")
        def test_arena(contest):
            died = pathlib.Path("died")
            if contest.item_id == "p5" and not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            contest.judge()
        """,
    )
    with LoopbackGateway(longest) as gateway:
        run = suite.live(gateway, "-n", "1")
        assert run.exit_code == 1, run.output
        assert "1 worker died" in run.output
        assert {vote["item_id"] for vote in votes_of(run)} == {f"p{n}" for n in range(8)}
        before = len([r for r in gateway.requests if shown(r, "A")])
        resumed = suite.live(gateway, "--elo-resume")
        assert len([r for r in gateway.requests if shown(r, "A")]) == before == 14  # no verdict is bought twice
    assert resumed.exit_code == 0, resumed.output
    assert votes_of(resumed) == votes_of(run)
    assert arena_of(resumed)["results"] == {"consistent": 7, "identical": 1}


def test_a_judge_that_is_a_contestant_is_named_and_barred_from_gates(suite):
    suite.settings["tasks"] = {"arena": {"judge": "vendor/Test-Model-2026-01-31"}}
    suite.set(gates={"rules": ["warm delta_elo > -400"]})
    with LoopbackGateway(longest) as gateway:
        refused = suite.live(gateway)
        suite.settings["gates"]["allow"] = ["self_judging"]
        allowed = suite.live(gateway)
    assert "the judge is the model of baseline, warm" in refused.output
    assert refused.json("gates.json")["gates"][0]["answer"] == "refused"
    assert "a model judges its own answers" in refused.output
    assert refused.exit_code != 0
    assert allowed.json("gates.json")["gates"][0]["answer"] == "pass"
    assert allowed.exit_code == 0, allowed.output


def test_people_enter_the_ratings_as_judges(suite):
    suite.settings["tasks"] = {"arena": {"judge": "people"}}
    with LoopbackGateway(longest) as gateway:
        run = suite.live(gateway)
        assert {request.body["model"] for request in gateway.requests if request.body} == {"test-model"}
    assert run.exit_code == 0, run.output
    assert "nobody has voted yet" in run.output
    assert arena_of(run)["results"] == {"open": 8}

    def vote(item: int, voter: str, winner: Any) -> Vote:
        return Vote(task_id="arena", item_id=f"p{item}", a="warm", b="baseline", winner=winner, judge=voter)

    append_votes(run.run_dir / "votes.jsonl", [vote(n, "ann", "a" if n % 2 else "b") for n in range(6)])
    append_votes(run.run_dir / "votes.jsonl", [vote(n, "bob", "a") for n in range(6)])
    said = report(run)
    assert "judge people (2): votes 12" in said
    assert "2 judges are taken as the panel itself" in said
    shares = {(c["judge"], c["item_id"]): (c["share"], c["weight"]) for c in run.json("pairwise.json")}
    assert shares["ann", "p0"] == (1.0, 0.5)  # from baseline's side: ann gave it this one, bob the other half
    assert shares["bob", "p0"] == (0.0, 0.5)
    assert arena_of(run)["results"] == {"open": 2, "single": 12}
    assert run.json("elo.json")["rating"]["n_judges"] == 0
    for voter in ("cy", "dee", "eve", "flo", "gus"):
        append_votes(
            run.run_dir / "votes.jsonl", [vote(n, voter, "a" if (n + len(voter)) % 3 else "b") for n in range(6)]
        )
    assert "taken as the panel itself" not in report(run)
    assert run.json("elo.json")["rating"]["n_judges"] == 7  # from six on, intervals are clustered by judge too


def test_an_adaptive_plan_judges_when_all_answers_are_there_and_tells_what_it_saved(suite):
    suite.strategies(
        baseline={"kind": "single", "temperature": 0},
        cool={"kind": "single", "temperature": 0.2},
        warm={"kind": "single", "temperature": 0.7},
    )
    suite.settings["tasks"] = {"arena": {"judge": "judge-model", "plan": "adaptive", "budget": 5}}

    def longest_by_heat(request: Request) -> Response:
        return longest(request) if shown(request, "A") else reply("word " * int(5 + 10 * request.body["temperature"]))

    runs = []
    for arguments in (["-n", "0", "--elo-record"], ["-n", "2"]):
        with LoopbackGateway(longest_by_heat) as gateway:
            run = suite.live(gateway, *arguments)
            assert run.exit_code == 0, run.output
            assert len([request for request in gateway.requests if shown(request, "A")]) == 10
        saving = "arena: adaptive plan: judged 5 of 24 pairs, saved 19 pairs = 38 verdicts a judge (79%)"
        assert f"note: {saving}" in run.output
        assert sum(row["role"] == "judge" for row in run.rows) == 10
        runs.append((votes_of(run), arena_of(run)["results"]))
    assert runs[0] == runs[1]
    assert runs[0][1] == {"consistent": 5}
    del suite.settings["gateway"]
    replayed = suite.run("-n", "2")
    assert replayed.exit_code == 0, replayed.output
    assert votes_of(replayed) == runs[0][0]


def test_the_wrong_fixture_is_refused_before_anything_is_asked(suite):
    suite.file("evals/test_sums.py", TEST_FILE.replace("(contest)", "(trial)").replace("contest.judge", "trial.grade"))
    with LoopbackGateway(longest) as gateway:
        run = suite.live(gateway)
    assert run.exit_code == 4, run.output
    assert "task 'arena' is judged in pairs; take the fixture 'contest', not 'trial'" in run.output
    assert not [request for request in gateway.requests if "about" in str(request.body)]


def test_the_pairs_of_a_run_are_what_people_vote_on(suite):
    with LoopbackGateway(longest) as gateway:
        run = suite.live(gateway)
    booth = Booth(run.run_dir)
    for n in range(7):
        ballot = booth.next("ann")
        assert ballot is not None
        assert ballot.prompt.startswith("Write about")
        booth.cast("ann", ballot.ballot_id, "left" if len(ballot.left) > len(ballot.right) else "right")
        assert booth.progress("ann").done == n + 1
    assert booth.next("ann") is None  # eight pairs, and one of two identical answers
    assert booth.agreement() == [
        "people and judge-model agree on 100.0% of 7 pairs (100.0% of 7 without ties), Cohen's kappa -"
    ]
    said = report(run)
    assert "judge people (1): votes 7" in said
    assert "judge-model and people agree on 100.0% of 7 pairs" in said
    shares = {(c["item_id"], c["judge"]): c["weight"] for c in run.json("pairwise.json")}
    assert shares["p0", "ann"] == shares["p0", "judge-model"] == 0.5


def test_a_rerun_is_a_new_contest_and_strictness_loses_no_outcome(suite):
    suite.file(
        "evals/test_sums.py",
        """
        import pathlib
        import pytest

        @pytest.mark.elo("arena", data="prompts.yaml")
        def test_arena(contest):
            failed = pathlib.Path("failed")
            if contest.item_id == "p0" and not failed.exists():
                failed.touch()
                raise AssertionError("flaky")
            contest.judge()
        """,
    )

    def silent_about_1(request: Request) -> Response:
        is_silent = "about 1" in str(request.body["messages"][-1]["content"]) and not shown(request, "A")
        return reply("") if is_silent else longest(request)

    with LoopbackGateway(silent_about_1) as gateway:
        run = suite.live(gateway, "--reruns", "1", "--only-rerun", "flaky", "--elo-strict")
        about_0 = [request for request in gateway.requests if "about 0" in str(request.body)]
    assert run.exit_code == 1, run.output
    assert "empty: answered None" in run.output
    assert len(about_0) == 2 * (2 + 2)
    assert len(run.outcomes) == 16
    assert [row["kept"] for row in run.rows if row["item_id"] == "p0" and row["role"] == "generate"].count(False) == 2
    assert arena_of(run)["results"] == {"consistent": 6, "excluded": 1, "identical": 1}


def test_shards_of_an_arena_are_brought_together_with_their_votes(suite):
    with LoopbackGateway(longest) as gateway:
        whole = suite.live(gateway)
        parts = [suite.live(gateway, f"--elo-shard={n}/2") for n in (1, 2)]
    assert [part.exit_code for part in parts] == [0, 0], parts[0].output + parts[1].output
    assert sum(len(votes_of(part)) for part in parts) == len(votes_of(whole)) == 15
    merged = suite.path / "merged"
    command = [
        sys.executable,
        "-m",
        "pytest_elo",
        "merge",
        *(str(part.run_dir) for part in parts),
        "--out",
        str(merged),
    ]
    process = subprocess.run(command, capture_output=True, text=True, check=False, cwd=suite.path)
    assert process.returncode == 0, process.stdout + process.stderr
    together = Run(0, process.stdout, merged)
    for name in ("votes.jsonl", "contests.jsonl", "pairwise.json"):
        assert together.text(name) == whole.text(name)
    assert arena_of(together) == arena_of(whole)


def test_what_has_no_score_is_counted_wherever_scores_are_shown(suite):
    suite.file("evals/prompts.yaml", json.dumps([{"id": f"p{n}", "prompt": f"Write about {n}."} for n in range(3)]))
    prices = {"date": "2026-11-01", "models": {"test-model": {"prompt": 1.0, "completion": 1.0}}}
    suite.set(repeats=2, prices=prices, gates=["arena/warm usd_per_item < 1", "warm usd_per_item < 0.00000001"])
    asked = []

    def wavering(request: Request) -> Response:
        asked.append(request.number)
        return reply(f"Answer {len(asked)}.") if not shown(request, "A") else first_slot(request)

    with LoopbackGateway(wavering) as gateway:
        run = suite.live(gateway)
    cheap, dear = run.json("gates.json")["gates"]
    assert cheap["answer"] == "pass"
    assert cheap["numbers"]["value"] == dear["numbers"]["value"] > 0
    assert dear["answer"] == "fail"
    assert "repeats of arena/warm differ in answer on 3 of 3 items\n" in run.output
    command = [sys.executable, "-m", "pytest_elo", "compare", str(run.run_dir), str(run.run_dir)]
    compared = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compared.returncode == 4
    assert "12 outcomes have no score and are in no row here (arena 12 answered)" in compared.stderr
