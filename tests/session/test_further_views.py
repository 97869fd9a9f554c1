"""Views that a suite asks for: online Elo by the article's eloK, and Elo per dollar by a dated price table."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pytest_elo.rating.online import online_elo
from tests.harness import Suite
from tests.loopback import LoopbackGateway, Request, Response, reply

PRICES = {"date": "2026-01-31", "models": {"test-model": {"prompt": 3.0, "completion": 15.0}}}


def answer(request: Request) -> Response:
    prompt = request.body["messages"][-1]["content"]
    if not prompt.startswith("What is"):
        return reply("OK")
    number = int(prompt.split()[2])
    wrong = (request.body["seed"] + number) % 3 == 0
    return reply(f"ANSWER: {2 * number + wrong}")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    class Where:
        path = tmp_path_factory.mktemp("views")

    suite = Suite(Where).items(12).set(prices=PRICES)
    suite.strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3})
    suite.file("evals/settings.json", json.dumps({"evaluation": {"arena": {"eloK": 32}}}))
    with LoopbackGateway(answer) as gateway:
        files = ("evals/elo.yaml", "evals/settings.json")
        return suite.live(gateway, *(part for file in files for part in ("--elo-config", file)))


def test_the_articles_elo_k_turns_the_online_view_on(run):
    assert run.exit_code == 0, run.output
    view = run.json("elo.json")["online_elo"]
    assert (view["k"], view["orders"]) == (32, 100)
    rows = run.json("pairwise.json")
    shares = [row["share"] for row in rows]
    assert {row["weight"] for row in rows} == {1.0}
    known = online_elo([0] * len(rows), [1] * len(rows), shares, 2, k=32)
    assert [row["strategy"] for row in view["rows"]] == ["baseline", "r3"]
    assert [row["elo"] for row in view["rows"]] == pytest.approx(known.mean.tolist())
    assert [row["spread"] for row in view["rows"]] == pytest.approx(known.spread.tolist())
    assert min(row["spread"] for row in view["rows"]) > 0
    for text in (run.output, run.text("report.md")):
        assert "Online Elo (K = 32), mean over 100 random orders" in text
        assert "Bradley-Terry, the default" in text
        assert "takes all votes at once and has no order" in text


def test_elo_per_dollar_follows_the_dated_prices(run):
    policy = next(row for row in run.json("elo.json")["rating"]["policies"] if row["policy"] == "r3")
    spent = [row for row in run.charged if row["strategy"] == "r3"]
    usd = sum(3.0 * row["prompt_tokens"] + 15.0 * row["completion_tokens"] for row in spent) / 1e6 / 12
    assert policy["usd_per_item"] == pytest.approx(usd)
    assert policy["delta"]["value"] != 0
    assert policy["elo_per_usd"]["value"] == pytest.approx(policy["delta"]["value"] / usd)
    assert "USD by the settings' prices of 2026-01-31" in run.output


def test_the_report_command_shows_the_view_for_a_run_without_it(pytester):
    suite = Suite(pytester).items(6)
    suite.strategies(baseline={"kind": "single"}, r3={"kind": "vote", "n": 3})
    with LoopbackGateway(answer) as gateway:
        done = suite.live(gateway)
    assert "Online Elo" not in done.output
    assert done.json("elo.json")["online_elo"] is None
    command = [sys.executable, "-m", "pytest_elo", "report", str(done.run_dir), "--online-k"]
    printed = subprocess.run(command, capture_output=True, text=True, cwd=suite.path, check=True).stdout
    assert "Online Elo (K = 32)" in printed
