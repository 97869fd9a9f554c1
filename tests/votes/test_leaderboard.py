from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.votes.imports import import_votes
from pytest_elo.votes.leaderboard import Leaderboard, leaderboard
from pytest_elo.votes.leaderboard_page import to_html
from pytest_elo.votes.leaderboard_text import to_csv, to_json, to_table
from pytest_elo.votes.records import Vote

VOTES = Path(__file__).parent.parent / "data" / "votes"


def golden(name: str) -> dict[str, float]:
    with (VOTES / name).open(encoding="utf-8") as file:
        scores = [r for r in csv.DictReader(file) if r["algorithm"] == "bradley_terry"]
    return normalised({row["item"]: float(row["score"]) for row in scores})


def normalised(scores: dict[str, float]) -> dict[str, float]:
    total = sum(scores.values())
    return {name: score / total for name, score in scores.items()}


def strengths(board: Leaderboard) -> dict[str, float]:
    return normalised({s.policy: 10 ** ((s.elo or 0.0) / 400) for s in board.standings})


@pytest.mark.parametrize(
    ("votes", "scores"),
    [
        ("llmfao_crowd-comparisons.csv", "llmfao_golden_scores.csv"),
        ("evalica_food.csv", "evalica_food-golden.csv"),
    ],
)
def test_ratings_equal_the_published_ones(votes: str, scores: str) -> None:
    board = leaderboard(import_votes([VOTES / votes]).votes)
    assert strengths(board) == pytest.approx(golden(scores), abs=1e-9)


def test_a_real_pair_file_from_votes_to_table() -> None:
    board = leaderboard(import_votes([VOTES / "fastchat_gpt-4_pair_compact.jsonl"]).votes)
    assert {(s.policy, s.won, s.tied, s.lost) for s in board.standings} == {
        ("phi-3", 18, 35, 20),
        ("phi-3-dpo", 20, 35, 18),
    }
    assert board.results == {"consistent": 46, "incomplete": 2, "inconsistent": 27}
    table = to_table(board)
    assert "consistency 63.0%" in table
    assert "124, phi-3 against phi-3-dpo, by gpt-4: incomplete (error)" in table
    assert "phi-3-dpo is not told from phi-3: 73 items" in table
    assert "more" in table.splitlines()[-1]


def length_loving_votes() -> list[Vote]:
    """Both orders by a judge that prefers the longer answer; verbose writes longer, never better."""
    draw = random.Random(0)
    votes = []
    for n in range(60):
        chars = {
            "terse": draw.uniform(80, 200),
            "plain": draw.uniform(80, 200),
            "verbose": draw.uniform(150, 400),
        }
        for a, b in (("terse", "plain"), ("plain", "verbose"), ("terse", "verbose")):
            for first, second in ((a, b), (b, a)):
                votes.append(
                    Vote(
                        task_id="arena",
                        item_id=f"p{n}",
                        a=first,
                        b=second,
                        winner="a" if chars[first] > chars[second] else "b",
                        judge="j",
                        kind="model",
                        both_orders=True,
                        style_a={"chars": chars[first], "headers": 0.0},
                        style_b={"chars": chars[second], "headers": 0.0},
                    )
                )
    return votes


def test_raw_and_controlled_differ_where_the_judge_prefers_length_and_the_block_says_so() -> None:
    board = leaderboard(length_loving_votes(), anchor="plain")
    verbose = next(s for s in board.standings if s.policy == "verbose")
    assert verbose.elo is not None
    assert verbose.controlled_elo is not None
    assert verbose.elo - 1000 > 200
    assert abs(verbose.controlled_elo - 1000) < (verbose.elo - 1000) / 2
    table = to_table(board)
    assert "follows length" in table
    assert "Elo, style controlled" in table
    assert "style control left out headers: it never varies" in table


def test_a_judge_of_slots_gives_nobody_a_point() -> None:
    board = leaderboard([replace(vote, winner="a") for vote in length_loving_votes()])
    assert board.results == {"inconsistent": 180}
    assert {s.elo for s in board.standings} == {1000.0}
    assert {(s.best_rank, s.worst_rank) for s in board.standings} == {(1, 3)}


def test_the_order_of_votes_changes_no_byte() -> None:
    votes = list(import_votes([VOTES / "evalica_food.csv"]).votes) + length_loving_votes()
    shuffled = random.Random(1).sample(votes, len(votes))
    one, other = leaderboard(votes[:30]), leaderboard(random.Random(2).sample(votes[:30], 30))
    assert (to_json(one), to_csv(one), to_html(one)) == (to_json(other), to_csv(other), to_html(other))
    with pytest.raises(ConfigError, match="anchor 'Tofu' has no vote"):
        leaderboard(shuffled, anchor="Tofu")


def test_csv_and_json_hold_the_same_numbers() -> None:
    board = leaderboard(length_loving_votes(), anchor="plain")
    rows = list(csv.DictReader(io.StringIO(to_csv(board))))
    document = json.loads(to_json(board))
    assert [row["policy"] for row in rows] == [s["policy"] for s in document["standings"]]
    assert [float(row["elo"]) for row in rows] == [s["elo"] for s in document["standings"]]
    assert document["bias"][0]["warnings"]


def test_the_page_escapes_every_name() -> None:
    votes = [replace(v, a=v.a + "<script>alert(1)</script>") for v in import_votes([VOTES / "evalica_food.csv"]).votes]
    page = to_html(leaderboard(votes))
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_nothing_to_rate_is_an_error() -> None:
    silent = Vote(task_id="t", item_id="1", a="x", b="y", winner=None, judge="j", reason="null")
    with pytest.raises(DataError, match="none of them names a winner or a tie"):
        leaderboard([silent])
