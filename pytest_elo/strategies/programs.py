"""Programs that can be a policy: how known agents are called, and what of the host an installed one needs to see."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_elo._text import did_you_mean
from pytest_elo.errors import ConfigError

__all__ = ["PRESETS", "Program", "interpreter", "needed_folders", "preset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A command line and variables, with placeholders; ``command`` documents them."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


_QUIET_CLAUDE = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
}

PRESETS: Mapping[str, Program] = {
    "claude-code": Program(
        argv=[
            "claude", "-p", "{problem}", "--permission-mode", "acceptEdits",
            "--allowedTools", "Bash,Edit,Write,Read,Glob,Grep",
        ],
        # the background model is the same one under a name by which its calls are told apart
        environment={
            "ANTHROPIC_MODEL": "{model}",
            "ANTHROPIC_SMALL_FAST_MODEL": "{overhead_model}",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": "{overhead_model}",
            **_QUIET_CLAUDE,
        },
    ),
    "codex": Program(
        argv=[
            "codex", "exec", "--skip-git-repo-check", "--model", "{model}",
            # its own sandbox does not work inside another one, and this one is stricter
            "--dangerously-bypass-approvals-and-sandbox",
            "-c", "model_provider=elo",
            "-c", 'model_providers.elo={name="elo", base_url="{openai_base_url}", env_key="OPENAI_API_KEY", '
            'wire_api="responses"}',
            "-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false",
            "{problem}",
        ],
    ),
    "mini-swe-agent": Program(
        argv=[
            "mini", "--yolo", "--exit-immediately", "--model", "openai/{model}", "--task", "{problem}",
            "--output", "{scratch}/trajectory.json",
        ],
        environment={
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OPENAI_API_BASE": "{openai_base_url}",
        },
    ),
}  # fmt: skip


def preset(name: str) -> Program:
    """The program of that name; raises ``ConfigError`` with the closest known ones."""
    known = PRESETS.get(name)
    if known is None:
        raise ConfigError(f"command knows no preset {name!r}{did_you_mean(name, PRESETS)}; write its command line")
    return known


def interpreter() -> Path:
    """The Python that runs us, outside any virtual environment."""
    return Path(sys.executable).resolve()


def needed_folders(words: Sequence[str], extra: Sequence[str] = ()) -> tuple[str, list[Path]]:
    """The program's path and the folders and files that a command needs to see, outside the system's own.

    Found are the installation prefix (``X`` of ``X/bin/program``), the outermost ``node_modules``, what symbolic links
    and the first line of a script lead to, and what other words name as absolute paths.

    Raises ``ConfigError`` for a program that is not installed, and where a home folder would have to be shown.
    """
    program = words[0]
    found = shutil.which(program)
    if found is None:
        raise ConfigError(f"command: {program!r} is not installed here (not on PATH); install it or give its path")
    path = Path(os.path.abspath(found))
    folders = [_checked(folder, program) for folder in _prefixes(path)]
    folders += [_checked(Path(word), word) for word in words[1:] if word.startswith("/") and Path(word).exists()]
    folders += [_existing(Path(name)) for name in extra]
    kept: list[Path] = []
    for folder in sorted(set(folders), key=lambda folder: len(folder.parts)):
        if not any(folder.is_relative_to(known) for known in (*kept, *_SYSTEM)):
            kept.append(folder)
    return str(path), kept


_SYSTEM = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store")))


def _prefixes(path: Path, depth: int = 0) -> Iterator[Path]:
    yield _prefix(path)
    real = path.resolve()
    if real != path:
        yield _prefix(real)
    first = _first_line(real)
    if not first.startswith("#!") or depth > 3:
        return
    words = first[2:].split()
    if words and words[0].endswith("/env"):
        words = [shutil.which(words[1]) or ""] if len(words) > 1 else []
    if words and Path(words[0]).is_file():
        yield from _prefixes(Path(words[0]), depth + 1)


def _prefix(path: Path) -> Path:
    if "node_modules" in path.parts:
        return Path(*path.parts[: path.parts.index("node_modules") + 1])
    return path.parent.parent if path.parent.name == "bin" else path.parent


def _first_line(path: Path) -> str:
    with path.open("rb") as stream:
        return stream.readline(512).decode("utf-8", "replace").strip()


def _checked(folder: Path, program: str) -> Path:
    home = Path(os.path.expanduser("~"))
    if home.is_relative_to(folder) and folder not in _SYSTEM:
        raise ConfigError(
            f"command: {program!r} lies in {folder}, and showing all of it to a model's program would show your files; "
            "install it in a folder of its own"
        )
    return folder


def _existing(path: Path) -> Path:
    if not path.is_absolute() or not path.exists():
        raise ConfigError(f"command: mounts: {path} does not exist; give absolute paths")
    return path
