"""SWE-bench through a whole session: the shipped instances, gold and empty predictions, verdicts by running tests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.harness import Suite

SHIPPED = Path(__file__).parents[2] / "evals" / "data" / "swebench"


@pytest.fixture
def suite(pytester):
    suite = Suite(pytester)
    (suite.evals / "test_sums.py").unlink()
    shutil.copytree(SHIPPED, suite.evals / "swebench")
    manifest = {"v": 1, "model": "nobody", "host": "test", "date": "2026-01-01", "versions": {}}
    suite.file("evals/recordings/manifest.json", json.dumps(manifest))
    suite.file(
        "evals/test_swebench.py",
        """
        import pytest

        @pytest.mark.elo("swebench", data="swebench/instances.jsonl")
        def test_swebench(trial):
            trial.grade()
        """,
    )
    return suite


def test_gold_predictions_resolve_and_empty_ones_do_not(suite):
    predictions = suite.evals / "swebench" / "predictions"
    suite.strategies(
        empty={"kind": "predictions", "path": str(predictions / "empty.jsonl")},
        gold={"kind": "predictions", "path": str(predictions / "gold.jsonl")},
    )
    suite.set(tasks={"swebench": {"cache": str(suite.path / "cache")}})
    run = suite.run("-n", "2")
    assert run.exit_code == 0, run.output
    scores = {(outcome["item_id"], outcome["strategy"]): outcome["score"] for outcome in run.outcomes}
    assert len(scores) == 10
    assert {score for (_, strategy), score in scores.items() if strategy == "gold"} == {1.0}
    assert {score for (_, strategy), score in scores.items() if strategy == "empty"} == {0.0}
    tokens = {policy["policy"]: policy["tokens_per_item"] for policy in run.json("elo.json")["rating"]["policies"]}
    assert tokens == {"gold": None, "empty": None}  # bought elsewhere: unknown, not 0
    assert "never lost" in run.output or "finite only through the penalty" in run.output
