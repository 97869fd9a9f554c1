"""docs/files.md names every field of every file, and nothing else; Parquet holds the same rows."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_elo.ledger.sums import MEASURES
from pytest_elo.rating import results
from pytest_elo.report import budget, online
from tests.harness import Suite
from tests.loopback import LoopbackGateway, reply

DOCS = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^(##+ .*?)\n(.*?)(?=^##|\Z)", re.DOTALL | re.MULTILINE)
SECTIONS = {title.strip("# "): body for title, body in SECTION.findall(DOCS)}
PRICES = {"date": "2026-11-01", "models": {"test-model": {"prompt": 1.0, "completion": 4.0}}}


def documented(section: str) -> set[str]:
    cells = re.findall(r"^\| (`.*?`) \|", SECTIONS[section], flags=re.MULTILINE)
    assert len(cells) == len(re.findall(r"^\| [^-f]", SECTIONS[section], flags=re.MULTILINE))
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    class Place:
        path = tmp_path_factory.mktemp("suite")

    suite = Suite(Place).items(6)  # type: ignore[arg-type]
    suite.set(prices=PRICES, gates=["r3 score >= 0.1"])
    with LoopbackGateway([reply("ANSWER: 4")]) as gateway:
        return suite, suite.live(gateway, "--junitxml=junit.xml")


@pytest.mark.parametrize(
    "name",
    ["RatingReport", "PolicyReport", "TaskReport", "PolicyTask", "LadderReport", "Step", "Verdict", "LegacyVerdict",
     "Measure", "Interval", "Bound", "Power", "RankInterval", "EqualBudgets", "Budget", "Offer", "OnlineView",
     "OnlineRow"],
)  # fmt: skip
def test_every_record_of_elo_json_is_documented(name):
    record = next(found for room in (results, budget, online) if (found := getattr(room, name, None)))
    assert documented(name) == {field.name for field in dataclasses.fields(record)}


def test_every_field_of_every_line_is_documented(run):
    _, session = run
    assert documented("runs.jsonl") == {name for row in session.rows for name in row}
    assert documented("outcomes.jsonl") == {name for row in session.outcomes for name in row}
    failures = [json.loads(line) for line in session.text("failures.jsonl").splitlines()]
    assert documented("failures.jsonl") == {name for row in failures for name in row}
    assert documented("pairwise.json") == {name for row in session.json("pairwise.json") for name in row}
    assert documented("elo.json") == set(session.json("elo.json"))
    assert documented("gates.json") == set(session.json("gates.json")["gates"][0])
    only_there = {"resumed", "partial", "lost", "shard", "whole", "gates", "parts"}
    assert documented("run.json") == set(session.json("run.json")) | only_there
    tokens = [*session.json("tokens_by_strategy.json"), *session.json("tokens_by_task_strategy.json")]
    assert documented("tokens_by_strategy.json") == {name for row in tokens for name in row}
    (heads, *_) = csv.reader(io.StringIO(session.text("elo.csv")))
    assert documented("elo.csv") == set(heads)
    assert documented("Sufficient statistics") == set(MEASURES)


def test_every_file_is_documented(run):
    _, session = run
    written = {path.name for path in session.run_dir.iterdir()}
    stems = {re.sub(r"^tokens_by_.*", "tokens_by_strategy.json", name) for name in written}
    assert {name for name in stems if f"## {name}\n" not in DOCS and name not in SECTIONS["The others"]} == set()


def test_junit_properties_say_what_an_item_was_and_cost(run):
    suite, session = run
    cases = ElementTree.parse(suite.path / "junit.xml").getroot().iter("testcase")
    found = [{entry.get("name"): entry.get("value") for entry in case.iter("property")} for case in cases]
    documented_names = set(re.findall(r"`(elo_\w+)`", SECTIONS["JUnit XML"])) - {"elo_reruns"}
    assert len(found) == 18
    assert all(set(properties) == documented_names for properties in found)
    one = next(properties for properties in found if properties["elo_strategy"] == "r3")
    assert int(one["elo_tokens"]) == 45
    assert float(one["elo_usd"]) == pytest.approx(3 * (10 * 1.0 + 5 * 4.0) / 1e6)
    assert sum(int(properties["elo_tokens"]) for properties in found) == sum(r["total_tokens"] for r in session.charged)


def test_parquet_holds_the_rows(run):
    parquet = pytest.importorskip("pyarrow.parquet")
    suite, session = run
    command = [sys.executable, "-m", "pytest_elo", "export", str(session.run_dir), "--out", "warehouse"]
    subprocess.run(command, cwd=suite.path, check=True)
    runs = parquet.read_table(suite.path / "warehouse" / "runs.parquet").to_pylist()
    plain = [name for name in runs[0] if name != "parameters"]
    assert [{name: row[name] for name in plain} for row in runs] == [{n: row[n] for n in plain} for row in session.rows]
    assert [json.loads(row["parameters"]) for row in runs] == [row["parameters"] for row in session.rows]
    assert parquet.read_table(suite.path / "warehouse" / "outcomes.parquet").num_rows == 18
