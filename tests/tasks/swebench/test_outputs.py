"""Predictions in, official shapes out, verdicts of official reports in again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.records import Outcome, Reply
from pytest_elo.tasks.swebench import (
    Prediction,
    RunnerError,
    SweBenchTask,
    failure_text,
    load,
    read_predictions,
    write_predictions,
)
from pytest_elo.tasks.swebench.grading import Reason
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.local.runner import LocalRunner
from pytest_elo.tasks.swebench.outputs import run_report, write_evaluation, write_run
from pytest_elo.tasks.swebench.reports import ReportRunner

Suite = dict[str, Instance]
DATA = Path(__file__).parents[3] / "evals" / "data" / "swebench"


def test_predictions_in_every_form_are_the_same(tmp_path: Path) -> None:
    found = {key: Prediction(key, "m/one", f"diff of {key}") for key in ("a-1", "b-2")}
    write_predictions(tmp_path / "all_preds.jsonl", found.values())
    rows = [prediction.to_dict() for prediction in found.values()]
    (tmp_path / "list.json").write_text(json.dumps(rows))
    by_id = {row["instance_id"]: {k: v for k, v in row.items() if k != "instance_id"} for row in rows}
    (tmp_path / "preds.json").write_text(json.dumps(by_id))
    for name in ("all_preds.jsonl", "list.json", "preds.json"):
        assert read_predictions(tmp_path / name, known=["a-1", "b-2"]) == found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"instance_id": "a-1", "model_patch": ""}', "a second prediction for 'a-1'"),
        ('{"instance_id": "z-9", "model_patch": ""}', "instance 'z-9' is not in the dataset"),
        ('{"instance_id": "b-2"}', "key 'model_patch' is missing"),
        ('{"model_patch": ""}', "key 'instance_id' is missing"),
        ('{"instance_id": "b-2", "model_patch": 3}', "key 'model_patch' must be a text or null"),
        ("[1]", "a prediction must be an object"),
        ("{", "not valid JSON"),
    ],
)
def test_predictions_that_cannot_be_used_name_their_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "preds.jsonl"
    path.write_text('{"instance_id": "a-1", "model_patch": null}\n\n' + line + "\n")
    with pytest.raises(DataError) as caught:
        read_predictions(path, known=["a-1", "b-2"])
    assert str(caught.value).startswith(f"{path}:3: ")
    assert message in str(caught.value)


def task(runner: LocalRunner, suite: Suite, **settings: Any) -> SweBenchTask:
    return SweBenchTask(list(suite.values()), lambda: runner, runner.mirrors, **settings)


def test_gold_and_empty_predictions_are_anchors(runner: LocalRunner, suite: Suite, tmp_path: Path) -> None:
    """Imported patches are graded as they are; what is written can be read back with the same verdicts."""
    posed = task(runner, suite, patch_dir=tmp_path / "kept")
    gold, empty = (DATA / "predictions" / f"{name}.jsonl" for name in ("gold", "empty"))
    reasons: dict[str, Reason | None] = {}
    for item_id in posed.item_ids:
        problem = posed.pose(item_id, 0)
        assert problem.preflight() is None
        draft = problem.predicted(gold)
        assert draft.kept == ()
        grade = problem.grade(draft.reply)
        assert (grade.status, grade.score) == ("correct", 1.0), grade.detail
        evaluation = problem.evaluation(draft.reply)
        reasons[item_id] = evaluation.verdict.reason
        write_evaluation(tmp_path / "logs", evaluation)
        assert problem.grade(problem.predicted(empty).reply).status == "empty"
    assert len(list((tmp_path / "kept").glob("*/*/report.json"))) == 2 * len(suite)
    report = run_report(reasons, {"other-1": "the gold patch does not resolve it here"})
    assert report["resolved_ids"] == sorted(posed.item_ids)
    assert report["faithful"] == f"{len(suite)} of {len(suite) + 1}"
    imported = ReportRunner(tmp_path / "logs")
    for instance in suite.values():
        assert imported.evaluate(instance, instance.patch, generated=False).verdict.resolved
    with pytest.raises(RunnerError, match="verdict on another patch"):
        imported.evaluate(suite["money"], suite["poly"].patch, generated=False)
    summary = tmp_path / "gold.run.json"
    summary.write_text(json.dumps(report))
    assert ReportRunner(summary).evaluate(suite["money"], "x", generated=False).verdict.resolved
    few = tmp_path / "few.jsonl"
    write_predictions(few, [Prediction(posed.item_ids[1], "m", "x")])
    with pytest.raises(DataError, match=rf"few.jsonl: no prediction for {posed.item_ids[0]}"):
        posed.pose(posed.item_ids[0], 0).predicted(few)


def test_a_runs_outcomes_become_predictions_and_report(tmp_path: Path) -> None:
    statuses = {
        "a-1": ("correct", "resolved", "diff a"),
        "b-1": ("wrong", "unresolved: 1 of 2 FAIL_TO_PASS not passing: t", "diff b"),
        "c-1": ("wrong", "patch_failed: error: x [repaired:prose]", "diff c"),
        "d-1": ("wrong", "tampered", "diff d"),
        "e-1": ("limit_exceeded", "empty_patch: the patch is empty", None),
        "f-1": ("infra_error", "git is not installed", None),
        "g-1": ("unfaithful", "the gold patch does not resolve it here", None),
    }
    outcomes = [
        Outcome(
            task_id="swebench",
            item_id=key,
            strategy="r3",
            model="org/m",
            status=status,
            detail=detail,
            answer=diff,
        )
        for key, (status, detail, diff) in reversed(statuses.items())
    ]
    again = [dataclasses.replace(outcome, repeat=1) for outcome in outcomes[:2]]
    folders = write_run(tmp_path, [*again, *outcomes])
    assert [folder.name for folder in folders] == ["r3__org__m", "r3__org__m.1"]
    predictions = read_predictions(folders[0] / "all_preds.jsonl")
    assert {key: p.patch for key, p in predictions.items()} == {
        k: s[2] or "" for k, s in statuses.items() if k not in ("f-1", "g-1")
    }
    report = json.loads((folders[0] / "report.json").read_text())
    expected = {
        "resolved": "a",
        "unresolved": "bd",
        "empty_patch": "e",
        "error": "cf",
        "incomplete": "g",
        "completed": "abd",
    }
    for name, letters in expected.items():
        assert report[f"{name}_ids"] == [f"{letter}-1" for letter in letters], name
    assert report["faithful"] == "6 of 7"
    assert report["infra_failure_ids"] == ["f-1"]


def test_statuses_tell_why_there_is_no_patch(runner: LocalRunner, suite: Suite) -> None:
    problem = task(runner, suite).pose("mini__money-1", 0)
    endings: list[tuple[dict[str, Any], str]] = [
        ({"text": ""}, "empty"),
        ({"text": "I cannot see it."}, "no_answer"),
        ({"text": "", "refusal": "No."}, "refused"),
        ({"text": "Let me", "finish_reason": "length"}, "truncated"),
        ({"text": "", "finish_reason": "content_filter"}, "filtered"),
    ]
    assert [problem.grade(Reply(call_id="c", **kwargs)).status for kwargs, _ in endings] == [s for _, s in endings]


def test_failure_text_shows_reason_tests_and_the_logs_end(runner: LocalRunner, suite: Suite, tmp_path: Path) -> None:
    patch = suite["money"].patch.replace("divmod(cents, people)", "divmod(cents, 7)")
    text = failure_text(runner.evaluate(suite["money"], patch, generated=True), tmp_path)
    assert text.startswith("mini__money-1: unresolved\n1 of 2 FAIL_TO_PASS not passing: No cent is lost.; 1 of 4")
    assert "FAILED (failures=" in text
    assert text.endswith(f"all of it: {tmp_path}")


@pytest.mark.parametrize(
    ("content", "message"),
    [("[", "not a JSON report"), ("[]", "not a report"), ('{"a": {"x": 1}}', "entry 'a' has no 'resolved'")],
)
def test_files_that_are_no_report_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        ReportRunner(path)


def test_official_reports_give_verdicts_or_harness_errors(tmp_path: Path, suite: Suite) -> None:
    instance = suite["poly"]
    base = {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": True,
        "resolved": False,
    }
    tests = {"FAIL_TO_PASS": {"success": [], "failure": ["test_mul_sums"]}}
    cases: list[tuple[dict[str, Any], str]] = [
        ({**base, "resolved": True}, "resolved"),
        ({**base, "tests_status": tests}, "unresolved"),
        ({**base, "patch_successfully_applied": False}, "invalid_log"),
        ({**base, "patch_exists": False, "patch_is_None": True}, "empty_patch"),
    ]
    for entry, reason in cases:
        path = tmp_path / "r.json"
        path.write_text(json.dumps({instance.instance_id: entry}))
        assert ReportRunner(path).evaluate(instance, "p", generated=False).verdict.reason == reason
    path.write_text(json.dumps({instance.instance_id: {**base, "infra_failure": True, "infra_failure_reason": "oom"}}))
    with pytest.raises(RunnerError, match="oom"):
        ReportRunner(path).evaluate(instance, "p", generated=False)
    with pytest.raises(RunnerError, match="no verdict"):
        ReportRunner(path).evaluate(suite["money"], "p", generated=False)


def test_task_from_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repositories and environments beside the dataset are found; nothing runs before an item is judged."""
    data = DATA / "instances.jsonl"
    made = load(data, only=["mini__poly-1"], cache=tmp_path)
    assert made.item_ids == ("mini__poly-1",)
    assert made.pose("mini__poly-1", 3).repeat == 3
    assert made.pose("mini__poly-1", 0).material.ranked == ["poly/__init__.py"]
    unsafe = load(data, only=["mini__poly-1"], cache=tmp_path, sandbox="none")
    assert "WITHOUT a sandbox" in unsafe.warnings[0]
    other = load(data, only=["mini__poly-1"], cache=tmp_path, generator="single")
    assert len({made.fingerprint, unsafe.fingerprint, other.fingerprint}) == 3
    with pytest.raises(ConfigError, match=r"tasks.swebench: generator is 'mop'; choose one of map"):
        load(data, generator="mop")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"tasks.mine: limits has no 'walls'"):
        load(data, task_id="mine", limits={"walls": 3})
    with pytest.raises(ConfigError, match=r"needs 'report'"):
        load(data, runner="import")
    bad = tmp_path / "environments.json"
    bad.write_text('{"a/b": {"python": "3.11", "requirements": [], "pythn": 1}}')
    with pytest.raises(DataError, match=r"environments.json: a/b: unknown key 'pythn'"):
        load(data, environments=bad)


def test_without_a_sandbox_items_are_unfaithful_and_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    grade = load(DATA / "instances.jsonl", cache=tmp_path).pose("mini__poly-1", 0).preflight()
    assert grade is not None
    assert grade.status == "unfaithful"
    assert "the local runner needs Linux, not darwin; use the docker runner" in (grade.detail or "")
