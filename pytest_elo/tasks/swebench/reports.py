"""Runner ``import``: verdicts that the official harness has already given."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pytest_elo._forms import known, listed, maybe, text
from pytest_elo._parse import parse_json
from pytest_elo.errors import DataError
from pytest_elo.tasks.swebench.errors import RunnerError
from pytest_elo.tasks.swebench.grading import Reason, TestSplit, Verdict, unrun
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.runner import Evaluation, Preflight
from pytest_elo.tasks.swebench.sandbox.cell import Furnish
from pytest_elo.tasks.swebench.session import ShellSession

__all__ = ["ReportRunner"]


_SPLIT = known(success=listed(text), failure=listed(text))
TESTED = known(tests_status=maybe(known(FAIL_TO_PASS=_SPLIT, PASS_TO_PASS=_SPLIT)), infra_failure_reason=maybe(text))
SUMMARY = dict.fromkeys(
    ("unresolved_ids", "resolved_ids", "empty_patch_ids", "error_ids", "infra_failure_ids"), listed(text)
)


class ReportRunner:
    """Reads ``report.json`` of instances (one file, or a folder of runs) or a run's summary file.

    The verdict belongs to the patch that was graded there; where a ``patch.diff`` lies beside a report, a
    different patch is an error instead of somebody else's verdict.
    """

    name = "import"

    def __init__(self, path: Path) -> None:
        """Raises ``DataError`` naming the file that is no report."""
        self._path = path
        self._entries: dict[str, Mapping[str, Any]] = {}
        self._patches: dict[str, str] = {}
        files = sorted(path.rglob("report.json")) if path.is_dir() else [path]
        if not files:
            raise DataError(f"{path}: holds no report.json; expected the logs folder of an official run")
        for file in files:
            self._read(file)

    def evaluate(self, instance: Instance, patch: str | None, *, generated: bool) -> Evaluation:
        entry = self._entries.get(instance.instance_id)
        if entry is None:
            raise RunnerError(f"{instance.instance_id}: no verdict in {self._path}")
        graded = self._patches.get(instance.instance_id)
        if graded is not None and patch is not None and graded.strip() != patch.strip():
            raise RunnerError(f"{instance.instance_id}: {self._path} holds the verdict on another patch")
        if entry.get("infra_failure") or entry.get("error"):
            why = entry.get("infra_failure_reason") or "the run gave no verdict"
            raise RunnerError(f"{instance.instance_id}: {why}, says {self._path}")
        verdict = _verdict(instance, entry)
        return Evaluation(verdict=verdict, patch=patch or "", setting=f"import {self._path.name}", cached=True)

    def preflight(self, instance: Instance) -> Preflight:
        return Preflight(instance_id=instance.instance_id, faithful=True)

    def session(
        self, instance: Instance, patch: str, command_s: float, furnish: Furnish | None = None
    ) -> AbstractContextManager[ShellSession]:
        raise RunnerError(f"{instance.instance_id}: an imported report has no shell; use another runner")

    def check(self, instance: Instance, patch: str) -> Evaluation:
        raise RunnerError(f"{instance.instance_id}: an imported report cannot run visible tests; use another runner")

    def _read(self, path: Path) -> None:
        try:
            values = parse_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: not a JSON report ({error})") from None
        if not isinstance(values, dict):
            raise DataError(f"{path}: not a report of the official harness")
        if wrong := sorted(key for key in SUMMARY.keys() & values.keys() if not SUMMARY[key](values[key])):
            raise DataError(f"{path}: {wrong[0]!r} is no list of instances; not an official report")
        if "resolved_ids" in values:
            self._entries.update(_from_summary(values))
            return
        for instance_id, entry in values.items():
            if not isinstance(entry, dict) or "resolved" not in entry:
                raise DataError(f"{path}: entry {instance_id!r} has no 'resolved'; not an official report")
            if not TESTED(entry):
                raise DataError(f"{path}: entry {instance_id!r} has other 'tests_status' than an official report")
            self._entries[instance_id] = entry
            diff = path.with_name("patch.diff")
            if diff.is_file() and len(values) == 1:
                self._patches[instance_id] = diff.read_text(encoding="utf-8", errors="surrogateescape")


def _from_summary(values: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    applied = {"patch_exists": True, "patch_successfully_applied": True}
    kinds: dict[str, dict[str, Any]] = {
        "unresolved_ids": {"resolved": False, **applied},
        "resolved_ids": {"resolved": True, **applied},
        "empty_patch_ids": {"resolved": False, "patch_exists": False},
        "error_ids": {"resolved": False, "error": True},
        "infra_failure_ids": {"resolved": False, "infra_failure": True},
    }
    return {instance_id: entry for key, entry in kinds.items() for instance_id in values.get(key, ())}


def _verdict(instance: Instance, entry: Mapping[str, Any]) -> Verdict:
    if not entry.get("patch_exists") or entry.get("patch_is_None"):
        return unrun(instance, "empty_patch", "the patch is empty")
    if not entry.get("patch_successfully_applied"):
        return unrun(instance, "invalid_log", "the official run could not read a test result")
    status = entry.get("tests_status") or {}
    splits = [
        TestSplit(tuple(status.get(name, {}).get("success", ())), tuple(status.get(name, {}).get("failure", ())))
        for name in ("FAIL_TO_PASS", "PASS_TO_PASS")
    ]
    reason: Reason = "resolved" if entry["resolved"] else "unresolved"
    return Verdict(
        instance_id=instance.instance_id,
        reason=reason,
        fail_to_pass=splits[0],
        pass_to_pass=splits[1],
        detail="" if entry["resolved"] else f"{sum(len(s.failure) for s in splits)} graded tests not passing",
    )
