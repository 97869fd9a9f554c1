"""Real logs: 32,576 API calls of five agent strategies give the Elo per token that was computed from them elsewhere."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_elo.ledger.import_runs import import_runs
from pytest_elo.ledger.read import read_attempts, read_outcomes
from pytest_elo.report.build import build_from

DATA = Path(__file__).parents[1] / "data" / "agents_that_matter"
CALLS, OUTCOMES = DATA / "humaneval_calls.csv.gz", DATA / "humaneval_by_task.csv.gz"
FAMILIES = ("gpt-4-turbo-2024-04-09", "gpt-4-0613", "gpt-3.5-turbo-0613")


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("humaneval")
    mapped = import_runs(CALLS, OUTCOMES, DATA / "mapping.yaml", run_dir)
    return run_dir, mapped


@pytest.mark.parametrize("family", FAMILIES)
def test_points_and_intervals_equal_the_reference(imported, family):
    run_dir, _ = imported
    attempts = [row for row in read_attempts(run_dir / "runs.jsonl", warn=pytest.fail) if row.task_id == family]
    outcomes = [row for row in read_outcomes(run_dir / "outcomes.jsonl", warn=pytest.fail) if row.task_id == family]
    overrides = {"interval": "percentile", "rounds": 4000}
    report = build_from({}, attempts, outcomes, (), overrides)
    policies = {policy.policy: policy for policy in report.rating.policies}
    with (DATA / "elo_humaneval.csv").open(newline="") as stream:
        golden = {row["strategy"]: row for row in csv.DictReader(stream) if row["family"] == family}
    assert policies.keys() == golden.keys()
    for name, row in golden.items():
        policy = policies[name]
        # 0.9 tokens of 6,532 are the baseline's other three runs, which "same item and run" leaves out
        assert policy.tokens_per_item == pytest.approx(float(row["tokens_per_task"]), rel=2e-4)
        assert policy.delta.value == pytest.approx(float(row["dElo_half"]), abs=0.1)
        assert policy.elo_per_1k.value == pytest.approx(float(row["elo_per_1k"]), abs=0.1)
        if policy.is_anchor:
            continue
        assert_ends(policy.delta.interval, float(row["dElo_half_lo"]), float(row["dElo_half_hi"]))
        assert_ends(policy.elo_per_1k.interval, float(row["e1k_lo"]), float(row["e1k_hi"]))


def assert_ends(interval, low: float, high: float) -> None:
    """Ends agree to 10 % of the interval's width: two bootstraps with other random numbers."""
    width = high - low
    assert interval.low == pytest.approx(low, abs=0.1 * width)
    assert interval.high == pytest.approx(high, abs=0.1 * width)


def test_the_import_says_which_part_of_a_denominator_is_missing(imported):
    _, mapped = imported
    notes = "\n".join(mapped.notes)
    assert "LDB (no seed tokens): 754 of 820 outcomes have no call in the log" in notes
    assert "the log leaves out the first generation" in notes
    assert "rows belong to no group of the mapping" in notes


def test_the_command_imports_and_prints_the_table(tmp_path):
    command = [
        *(sys.executable, "-m", "pytest_elo", "import-runs", str(tmp_path / "run")),
        *("--calls", str(CALLS), "--outcomes", str(OUTCOMES), "--mapping", str(DATA / "mapping.yaml")),
    ]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "imported 19723 calls and 14268 outcomes" in printed
    document = json.loads((tmp_path / "run" / "elo.json").read_text())
    by_policy = {policy["policy"]: policy for policy in document["rating"]["policies"]}
    # over the three models: warming5 +12.3, +14.4, +20.8
    assert by_policy["warming5"]["delta"]["value"] == pytest.approx(15.8, abs=0.1)
    assert by_policy["warming5"]["between_task_sd"] == pytest.approx(4.4, abs=0.1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("groups: []\ncolums: {}", "unknown key 'colums'"),
        ("groups: [{where: {strategy: simple}}]", "groups[0]: needs where, task and strategy"),
        ("groups: [{where: {agent: simple}, task: t, strategy: s}]", "no column agent"),
        ("columns: {scroe: solved}\ngroups: []", "unknown column 'scroe'; did you mean 'score'?"),
    ],
)
def test_a_mapping_that_means_nothing_is_one_line(tmp_path, text, said):
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(text)
    command = [
        *(sys.executable, "-m", "pytest_elo", "import-runs", str(tmp_path / "run")),
        *("--calls", str(CALLS), "--outcomes", str(OUTCOMES), "--mapping", str(mapping)),
    ]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 4
    assert said in process.stderr
    assert len(process.stderr.splitlines()) == 1
