"""What stands behind each ΔElo, on real logs of three tasks, and what repeats make of a pair."""

from __future__ import annotations

import pytest

from pytest_elo.ledger.import_runs import import_runs
from pytest_elo.ledger.read import read_attempts, read_outcomes
from pytest_elo.records import Outcome
from pytest_elo.report.build import build_from
from pytest_elo.report.columns import comparison_records, pair_outcomes
from pytest_elo.report.details import detail_columns, detail_lines
from pytest_elo.report.fitting import WIDEST
from pytest_elo.report.markdown import markdown
from pytest_elo.report.table import lines
from tests.report.test_humaneval import CALLS, DATA, OUTCOMES


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("humaneval")
    import_runs(CALLS, OUTCOMES, DATA / "mapping.yaml", run_dir)
    return (
        list(read_attempts(run_dir / "runs.jsonl", warn=pytest.fail)),
        list(read_outcomes(run_dir / "outcomes.jsonl", warn=pytest.fail)),
    )


def test_ranks_routes_tasks_and_denominators_stand_beside_each_other(logs):
    report = build_from({}, *logs, (), {})
    rows, heads = detail_columns(report.rating, {})
    cells = {row[0]: dict(zip(heads, row, strict=True)) for row in rows}
    policy = next(policy for policy in report.rating.policies if policy.policy == "retry5")
    found = cells["retry5"]
    assert found["rank"] == f"{policy.rank.best}-{policy.rank.worst}"
    assert found["tasks\n+ = -"] == "2 0 1"
    assert found["pooled"] == f"{dict(policy.by_route)['pooled'].value:+.1f}"
    assert found["hier-\narchical"] == f"{dict(policy.by_route)['hierarchical'].value:+.1f}"
    values = [value for _, value in policy.leave_one_out]
    assert found["without\none task"] == f"{min(values):+.1f}..{max(values):+.1f}"
    assert found["Elo per\ndoubling"] == f"{policy.elo_per_doubling.value:+.1f}"
    assert not any("USD" in head for head in heads)  # nobody gave prices
    said = " ".join(detail_lines(report.rating, None))
    assert f"(tau) {report.rating.tau:.1f} Elo" in said
    assert found["without\none task"] in markdown(report)
    (head,) = (line for line in lines(report) if line.startswith("strategy ") and " pooled " in line)
    assert len(head) <= WIDEST


def test_an_undecided_ladder_says_how_many_items_would_decide(logs):
    report = build_from({"ladders": [["baseline", "retry5"]]}, *logs, (), {"route": "hierarchical"})
    verdict = report.rating.ladders[0].verdict
    assert verdict.code == "UNDECIDED"
    assert f"about {verdict.items_needed:,} items would decide" in "\n".join(lines(report))


def test_repeats_that_won_and_lost_are_no_tie():
    outcomes = [
        Outcome(task_id="t", item_id="i", strategy=name, model="m", repeat=repeat, status="correct", score=score)
        for name, scores in (("a", (1.0, 0.0)), ("b", (1.0, 0.0)))
        for repeat, score in enumerate(scores)
    ]
    found = [(row.a, row.b, row.share, row.weight) for row in comparison_records(pair_outcomes(outcomes))]
    assert found == [("a", "b", 0.0, 0.25), ("a", "b", 0.5, 0.5), ("a", "b", 1.0, 0.25)]
