"""A SWE-bench instance as posed to a model: prompts, generators, the public check and the grade."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.records import Ask, CheckResult, Draft, Grade, Message, Reply, Role
from pytest_elo.tasks.swebench.diffs import is_empty
from pytest_elo.tasks.swebench.errors import RunnerError
from pytest_elo.tasks.swebench.generate.agent import LIMIT, from_agent
from pytest_elo.tasks.swebench.generate.calls import from_map, from_single_prompt, revise, single_messages
from pytest_elo.tasks.swebench.generate.edits import proposal
from pytest_elo.tasks.swebench.generate.prompts import feedback_prompt
from pytest_elo.tasks.swebench.generate.settings import GeneratorName, GeneratorSettings, Material
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.logparsers import PARSERS
from pytest_elo.tasks.swebench.outputs import policy_folder, write_evaluation
from pytest_elo.tasks.swebench.patches import patch_key
from pytest_elo.tasks.swebench.predictions import Prediction
from pytest_elo.tasks.swebench.runner import Evaluation, Runner
from pytest_elo.tasks.swebench.sandbox.cell import Furnish
from pytest_elo.tasks.swebench.session import ShellSession

__all__ = ["SweBenchProblem", "failure_text"]

PREDICTION = "prediction"
"""``finish_reason`` of a reply that another agent's file holds: graded as it is, without repairs."""


class SweBenchProblem:
    """One instance in one repeat.

    ``grade``, ``check`` and ``preflight`` run processes for seconds to minutes: call them in a worker
    thread; ``generate`` is awaited like a strategy's ``ask`` and does its own blocking work in threads.
    """

    def __init__(
        self,
        instance: Instance,
        repeat: int,
        *,
        task_id: str,
        runner: Callable[[], Runner],
        material: Callable[[Instance], Material],
        settings: GeneratorSettings,
        predictions: Callable[[str], Mapping[str, Prediction]],
        patch_dir: Path | None = None,
    ) -> None:
        self.instance = instance
        self.repeat = repeat
        self.task_id = task_id
        self._runner = runner
        self._material = material
        self._settings = settings
        self._predictions = predictions
        self._patch_dir = patch_dir
        self._graded: dict[str, Evaluation] = {}

    @property
    def item_id(self) -> str:
        return self.instance.instance_id

    @property
    def max_tokens(self) -> int:
        return self._settings.max_tokens

    @property
    def material(self) -> Material:
        """What may be shown to a model."""
        return self._material(self.instance)

    @property
    def messages(self) -> Sequence[Message]:
        """The one-shot prompt, for strategies that know nothing of ``generate``."""
        return single_messages(self.material, self._settings)

    @property
    def prompt_identity(self) -> str:
        """All that the prompts are made of; the repository, which may have to be cloned for them, by its commit."""
        instance = self.instance
        parts = [instance.repo, instance.base_commit, instance.problem_statement, instance.hints]
        return json.dumps([*parts, dataclasses.asdict(self._settings)])

    @property
    def statement(self) -> str:
        """The issue, for a program that works in the tree."""
        return self.material.issue

    def workplace(self, furnish: Furnish, command_s: float) -> AbstractContextManager[ShellSession]:
        """The prepared tree for a program; a command in it may take ``command_s`` seconds."""
        return self._runner().session(self.instance, "", command_s, furnish)

    async def generate(
        self,
        ask: Ask,
        *,
        sample: int = 0,
        role: Role = "generate",
        temperature: float | None = None,
        generator: GeneratorName | None = None,
        previous: Draft | None = None,
        feedback: str = "",
    ) -> Draft:
        """One sample of a repair by the task's generator, or by the one named.

        With ``previous`` and ``feedback`` it goes on from an earlier draft (``map`` and ``single`` continue
        the conversation, ``agent`` starts with the draft's changes in the tree).

        Raises:
            RunnerError: the agent's sandbox failed.
        """
        material = await asyncio.to_thread(lambda: self.material)
        settings = self._settings
        name = generator or settings.generator
        if name == "agent":
            start = self.patch_of(previous.reply) or "" if previous else ""
            return await from_agent(
                material.issue,
                lambda command_s: self._runner().session(self.instance, start, command_s),
                ask,
                settings,
                sample=sample,
                temperature=temperature,
                notes=feedback_prompt(feedback) if previous else "",
            )
        if previous is not None:
            return await revise(
                material, ask, settings, previous, feedback, sample=sample, role=role, temperature=temperature
            )
        make = from_map if name == "map" else from_single_prompt
        return await make(material, ask, settings, sample=sample, role=role, temperature=temperature)

    def predicted(self, path: str) -> Draft:
        """The draft that another agent's predictions file holds; no call, and its tokens are unknown.

        Raises:
            DataError: the file cannot be used (naming the line), or holds none for this instance.
        """
        prediction = self._predictions(path).get(self.item_id)
        if prediction is None:
            raise DataError(f"{path}: no prediction for {self.item_id}; remove the instance or add its prediction")
        reply = Reply(
            call_id=f"prediction:{self.item_id}",
            text=prediction.patch,
            finish_reason=PREDICTION,
            model=prediction.model,
        )
        return Draft(reply=reply, kept=(), messages=())

    def patch_of(self, reply: Reply) -> str | None:
        """The diff a reply proposes; ``None`` when it proposes none."""
        if reply.finish_reason == PREDICTION:
            return reply.text or None
        return proposal(reply.text, self.material.read).diff

    def answer_key(self, reply: Reply) -> Hashable | None:
        """Equal for replies whose diffs change the same lines."""
        diff = self.patch_of(reply)
        return None if is_empty(diff) else patch_key(diff or "")

    def evaluation(self, reply: Reply) -> Evaluation:
        """Run and grade a reply. Raises ``RunnerError`` when the harness fails."""
        generated = reply.finish_reason != PREDICTION
        return self._runner().evaluate(self.instance, self.patch_of(reply), generated=generated)

    def grade(self, reply: Reply) -> Grade:
        try:
            evaluation = self.evaluation(reply)
        except RunnerError as error:
            return Grade(status="infra_error", score=0.0, detail=str(error))
        verdict = evaluation.verdict
        told = self._why_empty(reply) if verdict.reason == "empty_patch" else verdict.detail
        detail = f"{verdict.reason}: {told}" if told else verdict.reason
        if verdict.marks:
            detail += f" [{', '.join(verdict.marks)}]"
        self._graded[reply.text] = evaluation
        if self._patch_dir is not None:
            key = patch_key(evaluation.patch) or "empty"
            write_evaluation(self._patch_dir / key[:12], evaluation)
        return Grade(
            status=_status(verdict.reason, reply),
            score=float(verdict.resolved),
            answer=evaluation.patch or None,
            scores={
                "fail_to_pass": _share(verdict.fail_to_pass.success, self.instance.fail_to_pass),
                "pass_to_pass": _share(verdict.pass_to_pass.success, self.instance.pass_to_pass),
            },
            detail=detail,
        )

    def leave(self, reply: Reply, run_dir: Path, strategy: str, model: str) -> None:
        """Keep what the grade of a reply rests on: ``swebench/<policy>/logs/<instance>/`` of the run directory."""
        evaluation = self._graded.get(reply.text)
        if evaluation is not None:
            policy = policy_folder(self.task_id, strategy, model, self.repeat)
            write_evaluation(run_dir / "swebench" / policy / "logs", evaluation)

    def explain(self, reply: Reply) -> str:
        """The reason of a loss, the first failing tests and the end of the log; empty when it was not run."""
        evaluation = self._graded.get(reply.text)
        return failure_text(evaluation) if evaluation is not None else ""

    def _why_empty(self, reply: Reply) -> str:
        if not reply.text.strip():
            return "the reply is empty"
        problems = proposal(reply.text, self.material.read).problems
        return "; ".join(problems[:3]) or "the reply holds no edit block and no diff that changes anything"

    def preflight(self) -> Grade | None:
        """``None`` when the instance can be judged here; else the grade (``unfaithful``) to record instead.

        Nothing is to be asked of a model before: the gold patch has to resolve the instance first.
        """
        try:
            result = self._runner().preflight(self.instance)
        except RunnerError as error:
            return Grade(status="infra_error", score=0.0, detail=str(error))
        except ConfigError as error:  # no sandbox, no interpreter, no repository: nothing a model did
            return Grade(status="unfaithful", score=0.0, detail=str(error))
        return None if result.faithful else Grade(status="unfaithful", score=0.0, detail=result.reason)

    def check(self, reply: Reply) -> CheckResult:
        """Do the tests that the repository already has still pass? A public verifier: no hidden test is used.

        Fails for a reply without an applicable patch, and when a test that passes without the patch does not
        pass with it.

        Raises:
            RunnerError: the harness failed.
        """
        diff = self.patch_of(reply)
        if is_empty(diff):
            return CheckResult(False, "The answer holds no change that could be applied.")
        parse = PARSERS[self.instance.parser]
        evaluation = self._runner().check(self.instance, diff or "")
        if evaluation.verdict.reason in ("patch_failed", "patch_refused"):
            return CheckResult(False, f"The patch does not apply: {evaluation.verdict.detail}")
        before = parse(self._runner().check(self.instance, "").output)
        after = parse(evaluation.output)
        passing = sorted(name for name, status in before.items() if status == "PASSED")
        broken = [name for name in passing if after.get(name) != "PASSED"]
        if not broken:
            return CheckResult(True, f"All {len(passing)} existing tests still pass.")
        tail = "\n".join(evaluation.output.strip().splitlines()[-60:])
        told = f"{len(broken)} existing tests no longer pass: {', '.join(broken[:5])}\n\n{tail}"
        return CheckResult(False, told, score=1 - len(broken) / len(passing))


def failure_text(evaluation: Evaluation, artefact: Path | None = None) -> str:
    """What a person wants to see of a lost instance: the reason, the first failing tests, the log's end."""
    verdict = evaluation.verdict
    parts = [f"{verdict.instance_id}: {verdict.reason}", verdict.detail]
    if verdict.marks:
        parts.append(f"marks: {', '.join(verdict.marks)}")
    log = evaluation.output if evaluation.output.strip() else evaluation.setup_log
    parts += log.strip().splitlines()[-30:]
    if artefact is not None:
        parts.append(f"all of it: {artefact}")
    return "\n".join(part for part in parts if part)


def _status(reason: str, reply: Reply) -> str:
    if reason == "resolved":
        return "correct"
    if reason != "empty_patch":
        return "wrong"
    if reply.refusal is not None:
        return "refused"
    by_end = {"length": "truncated", "content_filter": "filtered", LIMIT: "limit_exceeded"}
    return by_end.get(reply.finish_reason or "", "no_answer" if reply.text.strip() else "empty")


def _share(success: Sequence[str], expected: Sequence[str]) -> float:
    return len(success) / len(expected) if expected else 1.0
