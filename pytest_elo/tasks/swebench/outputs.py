"""What a run leaves behind in the official harness's own shapes, so that anyone can grade it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_elo.tasks.swebench.grading import GRADER_VERSION, Verdict
from pytest_elo.tasks.swebench.runner import Evaluation

__all__ = ["instance_report", "run_report", "write_evaluation"]


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


def write_evaluation(folder: Path, model: str, evaluation: Evaluation) -> Path:
    """Write ``FOLDER/<model>/<instance>/{report.json, patch.diff, test_output.txt, run.json}``.

    Returns the instance's folder. Nothing in it depends on the clock.
    """
    verdict = evaluation.verdict
    target = folder / model.replace("/", "__") / verdict.instance_id
    target.mkdir(parents=True, exist_ok=True)
    _dump(target / "report.json", instance_report(verdict))
    setting = {"setting": evaluation.setting, "grader": GRADER_VERSION, "official": False}
    _dump(target / "run.json", setting)
    (target / "patch.diff").write_text(evaluation.patch, encoding="utf-8", errors="surrogateescape")
    (target / "test_output.txt").write_text(evaluation.log, encoding="utf-8", errors="replace")
    return target


def run_report(verdicts: Mapping[str, Verdict | None], unfaithful: Mapping[str, str]) -> dict[str, Any]:
    """The summary of one policy's run (``schema_version`` 2).

    Args:
        verdicts: by instance id; ``None`` where the harness failed.
        unfaithful: why, by the ids of instances that could not be judged here.
    """

    def ids(*reasons: str) -> list[str]:
        return sorted(key for key, verdict in verdicts.items() if verdict and verdict.reason in reasons)

    lists = {
        "submitted": sorted(verdicts),
        "completed": sorted(key for key, verdict in verdicts.items() if verdict and verdict.ran),
        "resolved": ids("resolved"),
        "unresolved": ids("unresolved", "tampered"),
        "empty_patch": ids("empty_patch"),
        "error": sorted(
            [*(key for key, verdict in verdicts.items() if verdict is None),
             *ids("invalid_log", "patch_refused", "patch_failed", "timeout", "output_limit")]
        ),
        "incomplete": sorted(unfaithful),
    }  # fmt: skip
    reasons = {
        key: verdict.reason for key, verdict in sorted(verdicts.items()) if verdict and not verdict.resolved
    }
    return {
        "total_instances": len(verdicts) + len(unfaithful),
        **{f"{name}_instances": len(found) for name, found in lists.items() if name != "incomplete"},
        **{f"{name}_ids": found for name, found in lists.items()},
        "infra_failure_ids": [],
        "ambiguous_failure_ids": [],
        "failure_reasons": reasons,
        "unfaithful": dict(sorted(unfaithful.items())),
        "faithful": f"{len(verdicts)} of {len(verdicts) + len(unfaithful)}",
        "schema_version": 2,
    }


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=4) + "\n", encoding="utf-8")
