"""Estimates that others have published must come out, to the digits they give."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_elo.rating.bradley_terry import bradley_terry
from pytest_elo.rating.scale import ELO_PER_LOGIT
from pytest_elo.rating.votes import A_WON, B_WON, TIE, count_votes, intern_names

OUTCOME = {"left": A_WON, "tie": TIE, "right": B_WON}


def tables_of(rows):
    names, a, b = intern_names([row["left"] for row in rows], [row["right"] for row in rows])
    outcome = np.array([OUTCOME[row["winner"]] for row in rows], dtype=np.int8)
    return names, *count_votes(a, b, outcome, len(names))


@pytest.mark.parametrize(
    ("votes", "golden"),
    [
        ("evalica_simple.csv", "evalica_simple-golden.csv"),
        ("evalica_food.csv", "evalica_food-golden.csv"),
        ("llmfao_crowd.csv.gz", "llmfao_golden.csv.gz"),
    ],
)
def test_evalica_bradley_terry_and_newman(table, votes, golden):
    names, wins, ties = tables_of(table(votes))
    expected = {(row["algorithm"], row["item"]): float(row["score"]) for row in table(golden)}

    half = np.exp(bradley_terry(wins, ties, "half").theta)
    half /= half.sum()
    assert half == pytest.approx([expected["bradley_terry", name] for name in names], rel=1e-9)

    davidson = bradley_terry(wins, ties, "davidson")
    newman = np.log([expected["newman", name] for name in names])
    assert davidson.theta - davidson.theta[0] == pytest.approx(newman - newman[0], rel=1e-9, abs=1e-9)


def test_stigler_citations_to_five_digits(table):
    journals = ["Biometrika", "Comm Statist", "JASA", "JRSS-B"]
    wins = np.zeros((4, 4))
    for row in table("stigler_citations.csv"):
        wins[journals.index(row["winner"]), journals.index(row["loser"])] += float(row["count"])
    theta = bradley_terry(wins, np.zeros_like(wins)).theta
    assert theta[1:] - theta[0] == pytest.approx([-2.94907, -0.47957, 0.26895], abs=6e-6)


def test_agresti_baseball_to_two_digits(table):
    rows = table("agresti_baseball1987.csv")
    teams = sorted({row["home"] for row in rows})
    wins = np.zeros((7, 7))
    for row in rows:
        home, away = teams.index(row["home"]), teams.index(row["away"])
        wins[home, away] += float(row["home_wins"])
        wins[away, home] += float(row["away_wins"])
    theta = bradley_terry(wins, np.zeros_like(wins)).theta
    ability = dict(zip(teams, np.round(theta - theta[teams.index("Baltimore")], 2), strict=True))
    assert ability == {
        "Baltimore": 0.0, "Boston": 1.11, "Cleveland": 0.68, "Detroit": 1.44, "Milwaukee": 1.58,
        "New York": 1.25, "Toronto": 1.29,
    }  # fmt: skip


def test_springall_ties_under_davidson(table):
    wins, ties = np.zeros((9, 9)), np.zeros((9, 9))
    for row in table("springall1973_ties.csv"):
        i, j = int(row["row"]) - 1, int(row["col"]) - 1
        wins[i, j], wins[j, i] = float(row["row_wins"]), float(row["col_wins"])
        ties[i, j] = ties[j, i] = float(row["ties"])
    fit = bradley_terry(wins, ties, "davidson")
    assert fit.nu == pytest.approx(0.8655, abs=6e-5)
    expected = [-2.2732, -3.2907, -0.3976, -1.8948, -2.8428, 1.2815, 0.0049, -0.6074]
    assert fit.theta[1:] - fit.theta[0] == pytest.approx(expected, abs=6e-5)


def test_one_lost_game_is_ln_3_under_firth():
    wins = np.array([[0.0, 0.0], [1.0, 0.0]])
    fit = bradley_terry(wins, np.zeros_like(wins))
    assert fit.penalised
    assert (fit.theta[0] - fit.theta[1]) * ELO_PER_LOGIT == pytest.approx(-ELO_PER_LOGIT * math.log(3.0), abs=1e-9)


def test_many_policies_by_conjugate_gradients_agree_with_the_inverse():
    rng = np.random.default_rng(5)
    wins = rng.poisson(3.0, (60, 60)).astype(float)
    np.fill_diagonal(wins, 0.0)
    large = bradley_terry(wins, np.zeros_like(wins)).theta
    small = bradley_terry(wins[:40, :40], np.zeros((40, 40))).theta
    for theta, table_ in ((large, wins), (small, wins[:40, :40])):
        gap = theta[:, None] - theta[None, :]
        expected = ((table_ + table_.T) / (1.0 + np.exp(-gap))).sum(axis=1)
        assert expected == pytest.approx(table_.sum(axis=1), rel=1e-10)
