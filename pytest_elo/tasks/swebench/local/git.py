"""Git on trees and mirrors of our own, deaf to the user's configuration and to the repository's hooks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_elo.tasks.swebench.errors import RunnerError

__all__ = ["GitError", "git"]

_QUIET = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "safe.directory=*",
    "-c",
    "gc.auto=0",
    "-c",
    "advice.detachedHead=0",
)


class GitError(RunnerError):
    """A git command failed; the message is its last line of output."""


def git(
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    wrap: Sequence[str] = (),
    network: bool = False,
    timeout_s: float = 3600,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Standard output of ``git ARGUMENTS``; never asks a question.

    Args:
        wrap: words put in front, such as a sandbox's ``contain``.
        network: keep the user's own git configuration (proxies, certificates) for a fetch from elsewhere.

    Raises:
        GitError: when git fails, is missing or takes longer than ``timeout_s``.
    """
    own = {} if network else {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = {**inherited, **own, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(environment or {})}
    try:
        done = subprocess.run(
            [*wrap, "git", *_QUIET, *arguments],
            cwd=cwd,
            env=settings,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise GitError("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise GitError(f"git {arguments[0]} took longer than {timeout_s:.0f} s") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitError(f"git {arguments[0]}: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout.decode("utf-8", "surrogateescape")
