"""What a run leaves behind in the official harness's own shapes, so that anyone can grade it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast, get_args

from pytest_elo.records import Outcome
from pytest_elo.tasks.swebench.grading import GRADER_VERSION, Reason, Verdict
from pytest_elo.tasks.swebench.predictions import Prediction, write_predictions
from pytest_elo.tasks.swebench.runner import Evaluation

__all__ = ["instance_report", "policy_folder", "run_report", "write_evaluation", "write_run"]


def instance_report(verdict: Verdict) -> dict[str, Any]:
    """``report.json`` of one instance, with ours added under ``elo``."""
    report: dict[str, Any] = {
        "patch_is_None": False,
        "patch_exists": verdict.reason != "empty_patch",
        "patch_successfully_applied": verdict.ran,
        "resolved": verdict.resolved,
        "infra_failure": False,
    }
    if verdict.ran:
        report["tests_status"] = {
            "FAIL_TO_PASS": verdict.fail_to_pass.to_dict(),
            "PASS_TO_PASS": verdict.pass_to_pass.to_dict(),
            "FAIL_TO_FAIL": {"success": [], "failure": []},
            "PASS_TO_FAIL": {"success": [], "failure": []},
        }
    report["elo"] = {"reason": verdict.reason, "detail": verdict.detail, "marks": list(verdict.marks)}
    return {verdict.instance_id: report}


def policy_folder(task_id: str, strategy: str, model: str, repeat: int) -> str:
    """The name under which a policy's files stand, and its ``model_name_or_path``: ``[<task>__]r3__model[.1]``."""
    task = "" if task_id == "swebench" else f"{task_id}__"
    return f"{task}{strategy}__{model}".replace("/", "__") + (f".{repeat}" if repeat else "")


def write_evaluation(folder: Path, evaluation: Evaluation) -> Path:
    """Write ``FOLDER/<instance>/{report.json, patch.diff, test_output.txt, run.json}``.

    Returns the instance's folder. Nothing in it depends on the clock.
    """
    verdict = evaluation.verdict
    target = folder / verdict.instance_id
    target.mkdir(parents=True, exist_ok=True)
    _dump(target / "report.json", instance_report(verdict))
    setting = {"setting": evaluation.setting, "grader": GRADER_VERSION, "official": False}
    _dump(target / "run.json", setting)
    (target / "patch.diff").write_text(evaluation.patch, encoding="utf-8", errors="surrogateescape")
    (target / "test_output.txt").write_text(evaluation.log, encoding="utf-8", errors="replace")
    return target


def write_run(folder: Path, outcomes: Iterable[Outcome]) -> list[Path]:
    """Write ``all_preds.jsonl`` and ``report.json`` of each policy and repeat among SWE-bench outcomes.

    Returns the folders below ``folder``, named by ``policy_folder``. The patch of an outcome is its answer; the
    reason of a loss is the first word of its detail. Where the harness failed there is no prediction: an empty one
    would be graded as the policy's loss.
    """
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        name = policy_folder(outcome.task_id, outcome.strategy, outcome.model, outcome.repeat)
        groups.setdefault(name, []).append(outcome)
    written = []
    for name, members in sorted(groups.items()):
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        members.sort(key=lambda outcome: outcome.item_id)
        judged = [outcome for outcome in members if outcome.status != "unfaithful"]
        write_predictions(
            target / "all_preds.jsonl",
            [Prediction(o.item_id, name, o.answer or "") for o in judged if o.status != "infra_error"],
        )
        reasons = {outcome.item_id: _reason(outcome) for outcome in judged}
        unfaithful = {o.item_id: o.detail or "" for o in members if o.status == "unfaithful"}
        _dump(target / "report.json", run_report(reasons, unfaithful))
        written.append(target)
    return written


def _reason(outcome: Outcome) -> Reason | None:
    if outcome.status == "infra_error":
        return None
    if outcome.status == "correct":
        return "resolved"
    word = (outcome.detail or "").partition(":")[0].partition(" ")[0]
    return cast(Reason, word) if word in get_args(Reason) else "empty_patch"


def run_report(reasons: Mapping[str, Reason | None], unfaithful: Mapping[str, str]) -> dict[str, Any]:
    """The summary of one policy's run (``schema_version`` 2).

    Args:
        reasons: of the verdicts, by instance id; ``None`` where the harness failed.
        unfaithful: why, by the ids of instances that could not be judged here.
    """

    def ids(*wanted: Reason | None) -> list[str]:
        return sorted(key for key, reason in reasons.items() if reason in wanted)

    lists = {
        "submitted": sorted(reasons),
        "completed": ids("resolved", "unresolved", "tampered"),
        "resolved": ids("resolved"),
        "unresolved": ids("unresolved", "tampered"),
        "empty_patch": ids("empty_patch"),
        "error": ids(None, "invalid_log", "patch_refused", "patch_failed", "timeout", "output_limit"),
        "incomplete": sorted(unfaithful),
    }
    return {
        "total_instances": len(reasons) + len(unfaithful),
        **{f"{name}_instances": len(found) for name, found in lists.items() if name != "incomplete"},
        **{f"{name}_ids": found for name, found in lists.items()},
        "infra_failure_ids": ids(None),
        "ambiguous_failure_ids": [],
        "failure_reasons": {key: reason for key, reason in sorted(reasons.items()) if reason not in (None, "resolved")},
        "unfaithful": dict(sorted(unfaithful.items())),
        "faithful": f"{len(reasons)} of {len(reasons) + len(unfaithful)}",
        "schema_version": 2,
    }


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=4) + "\n", encoding="utf-8")
