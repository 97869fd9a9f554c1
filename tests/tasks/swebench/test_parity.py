"""The same logs through our grader and the official one (development only).

Set ``ELO_OFFICIAL_PYTHON`` to the interpreter of an environment with ``swebench==5.0.2``; it is heavy, so it
is never a dependency. Where we say ``tampered`` the official grader may say resolved, else we agree.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pytest_elo.tasks.swebench.grading import END, EXIT_CODE, START, grade_log
from pytest_elo.tasks.swebench.instance import Instance, instance_from_row
from pytest_elo.tasks.swebench.local.runner import LocalRunner

PYTHON = os.environ.get("ELO_OFFICIAL_PYTHON")
DATA = Path(__file__).parents[3] / "evals" / "data" / "swebench"
GRADE = """
import json, pathlib, sys
from swebench.harness.grading import get_eval_report
from swebench.harness.utils import make_test_spec
for case in json.load(sys.stdin):
    path = pathlib.Path(sys.argv[1]) / "log.txt"
    path.write_text(case["log"])
    row = case["row"]
    prediction = {"instance_id": row["instance_id"], "model_patch": "x"}
    print(json.dumps(get_eval_report(make_test_spec(row), prediction, str(path), True)[row["instance_id"]]))
"""

pytestmark = pytest.mark.skipif(
    PYTHON is None, reason="ELO_OFFICIAL_PYTHON is not set: an interpreter with swebench==5.0.2"
)


def official(cases: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    assert PYTHON is not None
    done = subprocess.run(
        [PYTHON, "-c", GRADE, str(folder)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def wrapped(output: str, exit_code: int) -> str:
    return f"+ : '{START}'\n{output}\n+ : '{END}'\n{EXIT_CODE}: {exit_code}\n"


STATUSES = ["PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS", ""]


def status_cases(row: dict[str, Any]) -> list[tuple[dict[str, Any], str, int]]:
    """Every pair of statuses for one F2P and one P2P test, ids whole, cut and ambiguous."""
    cases = []
    names = [("t::a", "t::b", "t::a"), ("t::a[x", "t::b", "t::a[x y]"), ("t::a[l(", "t::b", "t::a[l(p)]")]
    for f2p, p2p, shown in names:
        for first in STATUSES:
            for second in STATUSES:
                lines = [f"{first} {shown}" if first else "", f"{second} {p2p}" if second else ""]
                passed = sum(line.startswith("PASSED") for line in lines)
                failed = sum(line.startswith(("FAILED", "ERROR")) for line in lines)
                summary = "\n".join(line for line in lines if line)
                totals = f"==== {failed} failed, {passed} passed in 0.01s ===="
                log = f"==== short test summary info ====\n{summary}\n{totals}\n"
                new = {**row, "FAIL_TO_PASS": [f2p], "PASS_TO_PASS": [p2p], "log_parser": "parse_log_pytest"}
                cases.append((new, log, 1 if failed else 0))
                cases.append((new, log + f"PASSED {shown} again\n", 2))
    return cases


def test_every_pair_of_statuses_is_graded_alike(tmp_path: Path) -> None:
    row = json.loads((DATA / "instances.jsonl").read_text().splitlines()[0])
    cases = status_cases(row)
    theirs = official([{"row": row, "log": wrapped(log, code)} for row, log, code in cases], tmp_path)
    for (row, log, code), report in zip(cases, theirs, strict=True):
        ours = grade_log(instance_from_row(row, "case"), wrapped(log, code), code)
        if ours.reason == "tampered":
            continue
        assert ours.resolved == report["resolved"], (log, code, ours, report)
        assert ours.ran == report["patch_successfully_applied"], (log, code, ours, report)


def test_real_logs_are_graded_alike(tmp_path: Path, runner: LocalRunner, suite: dict[str, Instance]) -> None:
    lines = (DATA / "instances.jsonl").read_text(encoding="utf-8").splitlines()
    rows = {row["repo"].split("/")[1]: row for row in map(json.loads, lines)}
    cases, ours = [], []
    for name, instance in suite.items():
        gold = instance.patch
        half = "diff --git" + gold.split("diff --git")[1]
        for patch in (gold, half, gold.replace("return", "raise", 1)):
            evaluation = runner.evaluate(instance, patch, generated=True)
            if evaluation.verdict.ran:
                cases.append({"row": rows[name], "log": evaluation.log})
                ours.append(evaluation.verdict)
        unpatched = runner.preflight(instance).without_patch
        assert unpatched is not None
        cases.append({"row": rows[name], "log": unpatched.log})
        ours.append(unpatched.verdict)
    for verdict, report in zip(ours, official(cases, tmp_path), strict=True):
        assert verdict.resolved == report["resolved"]
        status = report["tests_status"]
        assert list(verdict.fail_to_pass.failure) == status["FAIL_TO_PASS"]["failure"]
        assert list(verdict.pass_to_pass.failure) == status["PASS_TO_PASS"]["failure"]
    assert {verdict.reason for verdict in ours} == {"resolved", "unresolved"}
