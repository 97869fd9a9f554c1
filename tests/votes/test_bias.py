from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_elo.votes.agreement import agreement_of, cohen_kappa
from pytest_elo.votes.bias import BiasBlock, bias_of
from pytest_elo.votes.imports import import_votes
from pytest_elo.votes.names import same_model
from pytest_elo.votes.records import Vote
from pytest_elo.votes.self_preference import self_preference
from pytest_elo.votes.settle import settle

VOTES = Path(__file__).parent.parent / "data" / "votes"


@pytest.fixture(scope="module")
def crowd() -> list[Vote]:
    return list(import_votes([VOTES / "llmfao_crowd-comparisons.csv"]).votes)


@pytest.fixture(scope="module")
def gpt4() -> list[Vote]:
    path = VOTES / "llmfao_gpt4-crowd-comparisons.csv"
    return list(import_votes([path], judge="GPT 4", judge_kind="model").votes)


@pytest.fixture(scope="module")
def gpt3() -> list[Vote]:
    path = VOTES / "llmfao_gpt3-crowd-comparisons.csv"
    return list(import_votes([path], judge="GPT 3.5", judge_kind="model").votes)


def test_the_block_of_a_real_fastchat_run() -> None:
    block = bias_of("gpt-4", import_votes([VOTES / "fastchat_gpt-4_pair_compact.jsonl"]).votes)
    assert (block.pairs, block.complete, block.errors) == (75, 73, 3)
    assert (block.consistency.hits, block.consistency.n) == (46, 73)
    assert (block.first_slot.hits, block.first_slot.n) == (78, 78 + 43)
    assert (block.ties.hits, block.ties.n) == (25, 146)
    numbers, *warnings = block.lines()
    assert numbers.startswith(
        "judge gpt-4: pairs 73/75 complete, consistency 63.0%, flips 32.1%, first slot 64.5% (z 3.2), "
        "ties 17.1%, unparsable 0, errors 3"
    )
    assert ["consistency" in warnings[0], "first slot wins 64.5%" in warnings[1]] == [True, True]


def test_people_of_llmfao_lean_left_a_little(crowd: list[Vote]) -> None:
    as_one = [replace(vote, judge="people", item_id=f"{vote.item_id}/{vote.judge}") for vote in crowd]
    block = bias_of("people", as_one)
    assert round(block.first_slot.value or 0, 3) == 0.533
    assert round(block.slot_z or 0, 1) == 4.9
    assert round(block.ties.value or 0, 3) == 0.389
    assert block.warnings == ()  # outside neither band: 53.3 % is inside 45 to 55 %


def test_model_judges_against_people_on_the_same_pairs(crowd: list[Vote], gpt4: list[Vote], gpt3: list[Vote]) -> None:
    people = settle(crowd)
    four = agreement_of(people, settle(gpt4), names=("people", "GPT 4"))
    three = agreement_of(people, settle(gpt3), names=("people", "GPT 3.5"))
    assert round(four.without_ties.value or 0, 3) == 0.746
    assert round(three.without_ties.value or 0, 3) == 0.631
    assert four.kappa is not None
    assert three.kappa is not None
    assert 0 < three.kappa < four.kappa


def test_self_preference_is_measured_against_rivals_of_like_strength(crowd: list[Vote], gpt4: list[Vote]) -> None:
    """GPT-4 picks itself in 9 of 12 pairs that people did not give it. That looks like bias against the 40 %
    of an average rival; rivals as strong as itself fare as well, and 12 pairs settle nothing."""
    [own] = self_preference("GPT 4", settle(gpt4), settle(crowd))
    assert (own.own.hits, own.own.n) == (9, 12)
    assert (own.rivals.value or 0) > 0.6
    assert own.delta is not None
    assert abs(own.delta) < 0.15
    assert not own.resolved
    assert "not resolved below 20 pairs" in str(own)


def pairs_judged_by(decide: Callable[[str, str], str], lengths: list[tuple[int, int]], judge: str = "j") -> list[Vote]:
    """Both orders of policies x and y, whose answers have the given lengths, by a deterministic judge."""
    votes = []
    for n, (x, y) in enumerate(lengths):
        texts = {"x": "a" * x, "y": "b" * y}
        for first, second in (("x", "y"), ("y", "x")):
            votes.append(
                Vote(
                    task_id="arena",
                    item_id=f"p{n}",
                    a=first,
                    b=second,
                    winner=decide(texts[first], texts[second]),  # type: ignore[arg-type]
                    judge=judge,
                    kind="model",
                    both_orders=True,
                    style_a={"chars": float(len(texts[first]))},
                    style_b={"chars": float(len(texts[second]))},
                )
            )
    return votes


LENGTHS = st.lists(st.tuples(st.integers(1, 400), st.integers(1, 400)), min_size=1, max_size=40)


@settings(deadline=None)
@given(LENGTHS)
def test_a_judge_of_slots_is_inconsistent_on_every_pair_and_nobody_gains(
    lengths: list[tuple[int, int]],
) -> None:
    votes = pairs_judged_by(lambda a, b: "a", lengths)
    block = bias_of("j", votes)
    assert block.consistency.value == 0
    assert block.flips.value == 1
    assert block.first_slot.value == 1
    assert {result.share for result in settle(votes)} == {0.5}
    assert any("consistency 0.0%" in warning for warning in block.warnings)


@settings(deadline=None)
@given(LENGTHS)
def test_a_judge_of_length_is_consistent_and_the_block_says_what_it_follows(
    lengths: list[tuple[int, int]],
) -> None:
    votes = pairs_judged_by(lambda a, b: "tie" if len(a) == len(b) else "a" if len(a) > len(b) else "b", lengths)
    block = bias_of("j", votes)
    assert block.consistency.value == 1
    assert block.longer_wins.value in (1, None)
    warned = any("follows length" in warning for warning in block.warnings)
    assert warned == (block.length_n >= 20 and block.longer_wins.n > 0)


@settings(deadline=None)
@given(LENGTHS, st.integers(0, 2**32))
def test_the_block_does_not_depend_on_names_or_on_row_order(lengths: list[tuple[int, int]], seed: int) -> None:
    draw = random.Random(seed)
    votes = pairs_judged_by(lambda a, b: draw.choice(["a", "b", "tie"]), lengths)
    shuffled = draw.sample(votes, len(votes))
    renamed = [replace(v, a=_other(v.a), b=_other(v.b)) for v in shuffled]
    first, second = bias_of("j", votes), bias_of("j", renamed)
    assert first == replace(second, length_r=first.length_r)
    assert first.length_r == pytest.approx(second.length_r)


def _other(name: str) -> str:
    return {"x": "y", "y": "x"}[name]


def block_of(votes: list[Vote], **models: str) -> BiasBlock:
    return bias_of("openai/gpt-5.4", votes, models=models)


def test_a_judge_that_is_a_contestant_is_named() -> None:
    votes = pairs_judged_by(lambda a, b: "tie", [(3, 4), (5, 5)], judge="openai/gpt-5.4")
    assert block_of(votes, x="gpt-5.4-2026-02-01", y="claude-opus").self_judged == 2
    both = block_of(votes, x="gpt-5.4", y="gpt-5.4")
    assert (both.judges_itself, both.self_judged) == (["x", "y"], 0)
    assert any("gates refuse" in warning for warning in both.warnings)
    assert block_of(votes, x="claude-opus", y="gpt-5.4-mini").judges_itself == []


def test_silence_is_counted_by_its_cause() -> None:
    reasons = ["unparsable", "truncated", "error timeout", "null", "excluded x: empty", "undone"]
    votes = [
        Vote(task_id="t", item_id=str(n), a="x", b="y", winner=None, judge="j", reason=reason)
        for n, reason in enumerate(reasons)
    ]
    block = bias_of("j", votes)
    assert (block.unparsable, block.errors, block.nulls, block.excluded) == (2, 1, 1, 1)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("gpt-5.4", "GPT-5.4", True),
        ("openai/gpt-4o-2024-08-06", "gpt-4o", True),
        ("claude-opus-4-6-latest", "anthropic/claude-opus-4-6", True),
        ("gpt-4-0613", "gpt-4-0314", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("claude-opus-4-6", "claude-opus-4-5", False),
        ("", "", False),
    ],
)
def test_aliases_of_one_model(one: str, other: str, same: bool) -> None:
    assert same_model(one, other) is same


def test_kappa_by_hand() -> None:
    """45 + 15 of 100 alike; by chance 0.7 * 0.6 + 0.3 * 0.4 = 0.54; kappa = 0.06 / 0.46."""
    labels = [(1, 1)] * 45 + [(1, -1)] * 25 + [(-1, 1)] * 15 + [(-1, -1)] * 15
    assert cohen_kappa(labels) == pytest.approx(0.06 / 0.46)
    assert cohen_kappa([(1, 1)] * 5) is None
