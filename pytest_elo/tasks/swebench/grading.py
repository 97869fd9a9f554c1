"""From a test log to a verdict: ``(instance, log, exit code) -> Verdict``, with no I/O.

The status rules equal those of the official grader (swebench 5.0.2): a test of FAIL_TO_PASS must pass, one
of PASS_TO_PASS must pass or be skipped, an expected test that is not in the log has failed, a log without a
sign of a test run is invalid. On top of it a run whose transcript contradicts itself is *tampered* and not
resolved: tests reported outside the runner's own summary, a summary that is missing, a count that does not
match, or an exit code of success beside reported failures. An honest run of the supported runners never looks
like that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.logparsers import FAMILIES, PARSERS
from pytest_elo.tasks.swebench.transcripts import contradiction

__all__ = [
    "END",
    "EXIT_CODE",
    "GRADER_VERSION",
    "START",
    "Reason",
    "TestSplit",
    "Verdict",
    "grade_log",
    "unrun",
]

GRADER_VERSION = "1"
"""Part of every cache key and report: raise it when a verdict could change."""

START, END, EXIT_CODE = ">>>>> Start Test Output", ">>>>> End Test Output", ">>>>> Test Exit Code"

Reason = Literal[
    "resolved",
    "unresolved",
    "tampered",
    "invalid_log",
    "empty_patch",
    "patch_refused",
    "patch_failed",
    "timeout",
    "output_limit",
]


@dataclass(frozen=True, slots=True)
class TestSplit:
    """Expected tests by outcome, in the dataset's order."""

    __test__ = False
    success: tuple[str, ...] = ()
    failure: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, list[str]]:
        return {"success": list(self.success), "failure": list(self.failure)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The grading of one patch. Every reason but ``resolved`` is a loss of whoever wrote the patch."""

    instance_id: str
    reason: Reason
    detail: str = ""
    fail_to_pass: TestSplit = TestSplit()
    pass_to_pass: TestSplit = TestSplit()
    marks: tuple[str, ...] = ()
    """What a reader must know: ``repaired``, ``protected:<file>``, ``binary_dropped:<file>``, ..."""

    @property
    def resolved(self) -> bool:
        return self.reason == "resolved"

    @property
    def ran(self) -> bool:
        """Whether the patch was applied and the tests left a log that could be read."""
        return self.reason in ("resolved", "unresolved", "tampered")


def unrun(instance: Instance, reason: Reason, detail: str, marks: Sequence[str] = ()) -> Verdict:
    """The verdict on a patch whose tests gave nothing to grade."""
    return Verdict(instance_id=instance.instance_id, reason=reason, detail=detail, marks=tuple(marks))


def grade_log(instance: Instance, log: str, exit_code: int | None, marks: Sequence[str] = ()) -> Verdict:
    """Grade the output of the instance's test command.

    Args:
        log: what the test command printed, alone or inside the official start and end markers.
        exit_code: the test command's own exit code; ``None`` when unknown (imported logs).
    """
    output = _between_markers(log)
    if output is None:
        return unrun(instance, "tampered", "the output holds more than one start or end marker", marks)
    statuses = PARSERS[instance.parser](output)
    if not statuses:
        return unrun(instance, "invalid_log", "the test command reported no test", marks)
    failed = any(status in ("FAILED", "ERROR") for status in statuses.values())
    if exit_code not in (None, 0) and not failed:
        return unrun(instance, "invalid_log", f"exit code {exit_code} without a failed test in the log", marks)
    split_f2p = _split(instance.fail_to_pass, statuses, accept=("PASSED", "XFAIL"))
    split_p2p = _split(instance.pass_to_pass, statuses, accept=("PASSED", "XFAIL", "SKIPPED"))
    reason: Reason = "unresolved" if split_f2p.failure or split_p2p.failure else "resolved"
    detail = _failures(split_f2p, split_p2p)
    if reason == "resolved":
        graded = [*instance.fail_to_pass, *instance.pass_to_pass]
        passed = {key for name in graded if (key := _find(name, statuses)) and statuses[key] == "PASSED"}
        problem = contradiction(FAMILIES[instance.parser], PARSERS[instance.parser], output, exit_code, passed)
        if problem:
            reason, detail = "tampered", problem
    return Verdict(
        instance_id=instance.instance_id,
        reason=reason,
        detail=detail,
        fail_to_pass=split_f2p,
        pass_to_pass=split_p2p,
        marks=tuple(marks),
    )


def _between_markers(log: str) -> str | None:
    """The part between the markers; the whole log without markers; ``None`` when a marker is there twice."""
    starts, ends = log.count(START), log.count(END)
    if (starts, ends) == (0, 0):
        return log
    if (starts, ends) != (1, 1):
        return None
    return log.split(START)[1].split(END)[0]


def _split(expected: Sequence[str], statuses: Mapping[str, str], accept: tuple[str, ...]) -> TestSplit:
    success: list[str] = []
    failure: list[str] = []
    for name in expected:
        key = _find(name, statuses)
        (success if key is not None and statuses[key] in accept else failure).append(name)
    return TestSplit(tuple(success), tuple(failure))


def _find(name: str, statuses: Mapping[str, str]) -> str | None:
    """The log's key for an expected test.

    Ids that the dataset cut inside their parameter (more ``[`` than ``]``) match by prefix when all
    candidates agree on having passed or not; every other id must match exactly.
    """
    if name in statuses:
        return name
    if name.count("[") <= name.count("]"):
        return None
    candidates = [key for key in statuses if key.startswith(name)]
    if candidates and len({statuses[key] in ("PASSED", "XFAIL") for key in candidates}) == 1:
        return candidates[0]
    return None


def _failures(fail_to_pass: TestSplit, pass_to_pass: TestSplit) -> str:
    parts = []
    for label, split in (("FAIL_TO_PASS", fail_to_pass), ("PASS_TO_PASS", pass_to_pass)):
        if split.failure:
            total = len(split.success) + len(split.failure)
            shown = ", ".join(split.failure[:3]) + (", ..." if len(split.failure) > 3 else "")
            parts.append(f"{len(split.failure)} of {total} {label} not passing: {shown}")
    return "; ".join(parts)
