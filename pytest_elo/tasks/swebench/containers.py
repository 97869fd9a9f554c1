"""Runner ``docker``: the row's own image, by the command line of docker or podman.

The same program, apply chain and grader as the local runner; no network, and limits that the official harness
does not set. One container a run, removed with it.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_elo.errors import ConfigError
from pytest_elo.tasks.swebench.diffs import is_empty
from pytest_elo.tasks.swebench.errors import RunnerError
from pytest_elo.tasks.swebench.evaluations import cached_evaluation
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.patches import prepare, refusal
from pytest_elo.tasks.swebench.runner import (
    Evaluation,
    Preflight,
    judge_preflight,
    not_worth_running,
    read_run,
)
from pytest_elo.tasks.swebench.sandbox import Finished, Furnish, Limits
from pytest_elo.tasks.swebench.sandbox.process import run_limited
from pytest_elo.tasks.swebench.script import BOOTSTRAP, Plan, new_word, read_stages
from pytest_elo.tasks.swebench.session import ShellSession

__all__ = ["ContainerRunner", "find_engine"]

_AMD64 = ("x86_64", "AMD64")

_GRACE_S = 10.0
"""Seconds after which a container ends itself if nobody has ended it at its limit."""

_PRELUDE = (
    "cd $root/testbed || fail copy; "
    "conda=/opt/miniconda3/bin/activate; "
    "[ ! -f $conda ] || { set +u; . $conda; conda activate testbed; set -u; }"
)


def find_engine(wish: str = "auto") -> str:
    """``docker`` or ``podman``, whichever answers; raises ``ConfigError`` with what each said."""
    said = []
    for name in ("docker", "podman") if wish == "auto" else (wish,):
        path = shutil.which(name)
        if path is None:
            said.append(f"{name} is not installed")
            continue
        done = subprocess.run([path, "version"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return path
        said.append(f"{name} does not answer ({(done.stderr.strip().splitlines() or ['no reason given'])[-1]})")
    raise ConfigError(f"swebench: {'; '.join(said)}; start one, or use the local runner on Linux")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRunner:
    """Evaluates instances in containers of their own images.

    Args:
        engine: path of ``docker`` or ``podman``, from ``find_engine``.
        cache: folder for verdicts.
        platform: passed on where the machine is not the one that the official images are for.
        max_workers: containers at a time, over all processes that share the cache.
    """

    engine: str
    cache: Path
    limits: Limits = field(default_factory=Limits)
    platform: str = field(default_factory=lambda: "" if platform.machine() in _AMD64 else "linux/amd64")
    max_workers: int = field(default_factory=lambda: os.cpu_count() or 1)

    @property
    def name(self) -> str:
        return f"docker/{Path(self.engine).name}"

    def evaluate(self, instance: Instance, patch: str | None, *, generated: bool) -> Evaluation:
        return self._evaluated(instance, patch, generated=generated, hidden=True)

    def preflight(self, instance: Instance) -> Preflight:
        without, gold = (
            self._cached(instance, patch, hidden=True) for patch in ("", prepare(instance.patch, generated=False).text)
        )
        return judge_preflight(instance, without, gold)

    def check(self, instance: Instance, patch: str) -> Evaluation:
        if is_empty(patch):
            return self._cached(instance, "", hidden=False)
        return self._evaluated(instance, patch, generated=True, hidden=False)

    @contextlib.contextmanager
    def session(
        self, instance: Instance, patch: str, command_s: float, furnish: Furnish | None = None
    ) -> Iterator[ShellSession]:
        if furnish is not None:
            raise ConfigError("swebench: a program of its own works in the local runner's sandbox, not in containers")
        word, container = new_word(), f"elo-{secrets.token_hex(6)}"
        program = ShellSession.program(word, _PRELUDE, self.limits, command_s)
        try:
            with ShellSession(self.argv(instance, container, program), word, command_s=command_s) as session:
                if patch:
                    session.put(patch)
                yield session
        finally:
            self._kill(container)

    def argv(self, instance: Instance, container: str, program: str = BOOTSTRAP, wall_s: float = 0) -> list[str]:
        """The command line of one run of ``bash -c PROGRAM``; a plan goes to its standard input.

        ``wall_s`` ends it from inside (0: its standard input's end does), since a container lives on when the
        engine's client is killed.

        Raises:
            ConfigError: the row names no image.
        """
        if not instance.image:
            raise ConfigError(
                f"swebench: {instance.instance_id} has no 'image'; use a 5.x dataset, or the local runner"
            )
        emulated = ["--platform", self.platform] if self.platform else []
        return [
            self.engine, "run", "--rm", "--interactive", "--name", container, *emulated,
            "--network", "none", "--memory", f"{self.limits.memory_mb}m",
            "--pids-limit", str(self.limits.processes), "--security-opt", "no-new-privileges",
            "--cap-drop", "ALL", "--cap-add", "CHOWN", "--cap-add", "DAC_OVERRIDE", "--cap-add", "FOWNER",
            "--workdir", "/testbed", "--entrypoint", "timeout", instance.image,
            "--kill-after=5", f"{wall_s:g}", "bash", "-c", program,
        ]  # fmt: skip

    def _evaluated(self, instance: Instance, patch: str | None, *, generated: bool, hidden: bool) -> Evaluation:
        prepared = prepare(patch or "", generated=generated)
        verdict = not_worth_running(instance, patch, prepared, refusal(prepared.text))
        if verdict is not None:
            return Evaluation(verdict=verdict, patch=prepared.text, setting=self._setting(instance))
        return self._cached(instance, prepared.text, hidden=hidden).marked(prepared.marks)

    def _setting(self, instance: Instance) -> str:
        return f"{self.name} network=none environment={instance.image}"

    def _cached(self, instance: Instance, patch: str, *, hidden: bool) -> Evaluation:
        parts = [instance.fingerprint, self._setting(instance), patch, hidden, self.limits.shell()]
        return cached_evaluation(
            self.cache / "verdicts", parts, lambda: self._run(instance, patch, hidden=hidden), self.max_workers
        )

    def _run(self, instance: Instance, patch: str, *, hidden: bool) -> Evaluation:
        plan = Plan(
            word=new_word(),
            prelude=_PRELUDE,
            patch=patch,
            test_command=instance.test_command,
            limits=self.limits,
            base_commit=instance.base_commit,
            test_files=instance.test_files if hidden else (),
            test_patch=instance.test_patch if hidden else None,
        )
        container = f"elo-{secrets.token_hex(6)}"
        argv = self.argv(instance, container, wall_s=self.limits.wall_s + _GRACE_S)
        finished = self._contained(argv, container, plan)
        stages = read_stages(finished.text, plan.word)
        if not stages.started and finished.exit_code == 125:  # the engine's own failure
            tail = " | ".join(finished.text.strip().splitlines()[-2:])
            raise RunnerError(f"{instance.instance_id}: {Path(self.engine).name} could not run it: {tail}")
        return Evaluation(
            verdict=read_run(instance, finished, stages, ()),
            patch=patch,
            setting=self._setting(instance),
            setup_log=stages.setup,
            output=stages.output,
            exit_code=finished.exit_code,
            wall_s=finished.wall_s,
        )

    def _contained(self, argv: Sequence[str], container: str, plan: Plan) -> Finished:
        """Run, and kill the container whatever happens: ending the client does not end it."""
        try:
            return run_limited(argv, stdin=plan.archive(), wall_s=self.limits.wall_s, output_mb=self.limits.output_mb)
        finally:
            self._kill(container)

    def _kill(self, container: str) -> None:
        with contextlib.suppress(OSError):
            subprocess.run([self.engine, "kill", container], capture_output=True, check=False)
