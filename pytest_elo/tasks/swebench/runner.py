"""What every runner offers: evaluate a patch, check that an instance can be judged here at all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from pytest_elo.tasks.swebench.diffs import is_empty
from pytest_elo.tasks.swebench.errors import RunnerError
from pytest_elo.tasks.swebench.grading import (
    END,
    EXIT_CODE,
    START,
    Reason,
    TestSplit,
    Verdict,
    grade_log,
    unrun,
)
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.patches import Prepared
from pytest_elo.tasks.swebench.sandbox.process import Finished
from pytest_elo.tasks.swebench.script import Stages

if TYPE_CHECKING:
    from pytest_elo.tasks.swebench.sandbox.cell import Furnish
    from pytest_elo.tasks.swebench.session import ShellSession

__all__ = [
    "Evaluation",
    "Preflight",
    "Runner",
    "judge_preflight",
    "not_worth_running",
    "read_run",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A verdict with what it rests on.

    ``setup_log`` is what applying the patches printed, ``output`` what the test command printed. ``setting``
    names runner, sandbox, network and environment. ``wall_s`` is 0 for a verdict from the cache.
    """

    verdict: Verdict
    patch: str
    setting: str
    setup_log: str = ""
    output: str = ""
    exit_code: int | None = None
    wall_s: float = 0.0
    cached: bool = False

    @property
    def log(self) -> str:
        """The output in the official log's form, which the official grader reads."""
        code = "" if self.exit_code is None else f"\n{EXIT_CODE}: {self.exit_code}\n"
        return f"{self.setup_log}\n+ : '{START}'\n{self.output}\n+ : '{END}'{code}"

    def marked(self, marks: Sequence[str]) -> Evaluation:
        """The same evaluation with further marks before its own."""
        return replace(self, verdict=replace(self.verdict, marks=(*marks, *self.verdict.marks)))

    def to_dict(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "instance_id": verdict.instance_id,
            "reason": verdict.reason,
            "detail": verdict.detail,
            "marks": list(verdict.marks),
            "fail_to_pass": verdict.fail_to_pass.to_dict(),
            "pass_to_pass": verdict.pass_to_pass.to_dict(),
            "patch": self.patch,
            "setting": self.setting,
            "setup_log": self.setup_log,
            "output": self.output,
            "exit_code": self.exit_code,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Evaluation:
        """The inverse of ``to_dict``; the result is marked as cached."""
        splits = [
            TestSplit(tuple(values[name]["success"]), tuple(values[name]["failure"]))
            for name in ("fail_to_pass", "pass_to_pass")
        ]
        verdict = Verdict(
            instance_id=values["instance_id"],
            reason=values["reason"],
            detail=values["detail"],
            marks=tuple(values["marks"]),
            fail_to_pass=splits[0],
            pass_to_pass=splits[1],
        )
        return cls(
            verdict=verdict,
            patch=values["patch"],
            setting=values["setting"],
            setup_log=values["setup_log"],
            output=values["output"],
            exit_code=values["exit_code"],
            cached=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """Whether an instance can be judged here: the gold patch must resolve it, no patch must not.

    ``reason`` says why not; an unfaithful instance is skipped, counted and named, never charged to a model.
    """

    instance_id: str
    faithful: bool
    reason: str = ""
    without_patch: Evaluation | None = None
    with_gold: Evaluation | None = None


class Runner(Protocol):
    """Runs instances; all methods block (for minutes) and may be called from several threads."""

    @property
    def name(self) -> str: ...

    def evaluate(self, instance: Instance, patch: str | None, *, generated: bool) -> Evaluation:
        """Apply, run, grade. Raises ``RunnerError`` when the harness fails."""
        ...

    def preflight(self, instance: Instance) -> Preflight: ...

    def session(
        self, instance: Instance, patch: str, command_s: float, furnish: Furnish | None = None
    ) -> AbstractContextManager[ShellSession]:
        """A shell in the prepared tree, with a patch already in it; no hidden test is there.

        ``furnish`` adds to the sandbox's cell. Raises ``ConfigError`` where there is no such cell.
        """
        ...

    def check(self, instance: Instance, patch: str) -> Evaluation:
        """Run the tree's own visible tests of the touched test files on a patch: no hidden test is used."""
        ...


def judge_preflight(instance: Instance, without: Evaluation, gold: Evaluation) -> Preflight:
    """Faithful when the gold patch resolves the instance and no patch does not."""
    reason = ""
    if not gold.verdict.resolved:
        reason = f"the gold patch does not resolve it here: {gold.verdict.detail or gold.verdict.reason}"
    elif without.verdict.resolved:
        reason = "its tests pass without any patch"
    return Preflight(
        instance_id=instance.instance_id,
        faithful=not reason,
        reason=reason,
        without_patch=without,
        with_gold=gold,
    )


def not_worth_running(instance: Instance, patch: str | None, prepared: Prepared, refused: str) -> Verdict | None:
    """The verdict on a patch that is empty or refused (with why); ``None`` when it is to be run."""
    if is_empty(patch):
        return unrun(instance, "empty_patch", "the patch is empty")
    if refused:
        return unrun(instance, "patch_refused", refused, prepared.marks)
    if is_empty(prepared.text):
        return unrun(instance, "empty_patch", "the patch holds binary files only", prepared.marks)
    return None


def read_run(instance: Instance, finished: Finished, stages: Stages, marks: Sequence[str]) -> Verdict:
    """The verdict on a finished run.

    Raises:
        RunnerError: the run broke outside the patch's reach.
    """
    all_marks = (*marks, *stages.marks)
    if stages.failed == "patch":
        said = [line for line in stages.setup.splitlines() if line.startswith(("error:", "patch:"))]
        detail = "; ".join(dict.fromkeys(said[:4])) or "git and patch both refuse it"
        return unrun(instance, "patch_failed", detail, all_marks)
    if stages.failed == "patch_program":
        raise RunnerError(
            f"{instance.instance_id}: git refuses the patch, and the program patch, which the official harness asks "
            "next, is not installed; run: apt install patch (or your system's like)"
        )
    if stages.failed is not None or not stages.started:
        if stages.failed == "install":
            return unrun(instance, "invalid_log", "the patched project does not install", all_marks)
        where = f"stage {stages.failed}" if stages.failed else f"before the tests ({finished.ended})"
        tail = " | ".join(stages.setup.strip().splitlines()[-3:])
        raise RunnerError(f"{instance.instance_id}: the harness failed in {where}: {tail or finished.text[-300:]}")
    if finished.ended != "exit":
        reason: Reason = "timeout" if finished.ended == "timeout" else "output_limit"
        words = {"timeout": f"no end after {finished.wall_s:.0f} s", "output_limit": "too much output"}
        return unrun(instance, reason, words[reason], all_marks)
    return grade_log(instance, stages.output, finished.exit_code, all_marks)
