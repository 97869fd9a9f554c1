"""``pytest-elo doctor``: every check that a run makes before its first item, each with its result; no item runs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_elo.config import Settings
from pytest_elo.errors import EloError
from pytest_elo.session.options import find_config, read_settings
from pytest_elo.session.plan import choose_mode

__all__ = ["doctor"]

PRECEDENCE = "option > environment > pyproject/ini > elo.yaml > config.toml > settings.json > default"


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the doctor: ``ok``, ``warn`` or ``FAIL``."""

    result: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.result:<4}  {self.name}: {self.text}"


def doctor(config: pytest.Config, write: Callable[[str], None]) -> int:
    """Print every finding; returns 0, or 4 when something must be mended before a run can begin."""
    findings: list[Finding] = []

    def tell(finding: Finding) -> None:
        findings.append(finding)
        write(str(finding))

    try:
        settings = _settings(config, tell, write)
        for finding in _checks(config, settings):
            tell(finding)
    except EloError as error:
        tell(Finding("FAIL", "settings", str(error)))
    failed = sum(finding.result == "FAIL" for finding in findings)
    write("all is well" if not failed else f"{failed} to mend before a run can begin")
    return 4 if failed else 0


def _settings(config: pytest.Config, tell: Callable[[Finding], None], write: Callable[[str], None]) -> Settings:
    paths = find_config(config)
    settings = read_settings(config, paths)
    found = ", ".join(map(str, settings.paths)) if paths else "none; defaults"
    tell(Finding("ok" if paths else "warn", "settings", found))
    write(f"      precedence: {PRECEDENCE}")
    for key, origin in sorted(settings.origins.items()):
        write(f"      {key} from {origin}")
    return settings


def _checks(config: pytest.Config, settings: Settings) -> Iterator[Finding]:
    from pytest_elo.session.client_files import check_clients, home

    yield _run_directory(config)
    yield from (Finding("warn", "anchor", why) for task in settings.tasks if (why := settings.why_unanchored(task)))
    yield from _gateway(config, settings)
    yield from _sandbox(settings)
    root = config.rootpath
    yield from (Finding("FAIL", "secrets", text) for text in _tracked_env_files(root))
    host = _host(settings)
    complaints = list(check_clients(home(), root, host, os.environ))
    yield from (Finding("warn", "clients", complaint) for complaint in complaints)
    if not complaints:
        yield Finding("ok", "clients", "no crossed or stale Claude Code, Codex, Cline or CC Switch configuration")


def _run_directory(config: pytest.Config) -> Finding:
    chosen = config.getoption("--elo-dir")
    path = config.invocation_params.dir / chosen if chosen else config.rootpath / ".elo"
    made = not path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b"x")
    except OSError as error:
        return Finding("FAIL", "ledger", f"{path} cannot be written ({error.strerror}); choose another with --elo-dir")
    finally:
        if made:
            with contextlib.suppress(OSError):
                path.rmdir()
    return Finding("ok", "ledger", f"{path} can be written")


def _gateway(config: pytest.Config, settings: Settings) -> Iterator[Finding]:
    replay, record = config.getoption("--elo-replay"), config.getoption("--elo-record")
    mode = choose_mode(settings, replay=replay, record=record)
    if mode == "live":
        yield from _preflight(settings)
        return
    from pytest_elo.session.access import prepare

    access = prepare(settings, replay=replay, record=record)
    try:
        yield Finding("ok", "answers", access.answers)
    finally:
        list(access.close(Path(os.devnull)))


def _preflight(settings: Settings) -> Iterator[Finding]:
    from pytest_elo.session.access import live_endpoint, live_preflight

    endpoint, models = live_endpoint(settings)
    for step in live_preflight(settings, endpoint, models, _Unwritten()).steps:
        yield Finding("ok" if step.is_ok else "FAIL", step.name, step.text)


def _sandbox(settings: Settings) -> Iterator[Finding]:
    """Whether patches can be tested here, where a task of that name is configured; without it items are skipped."""
    options = {**settings.tasks.get("swebench", {}), **settings.kind_options.get("swebench", {})}
    if "swebench" not in settings.tasks or options.get("runner", "local") != "local":
        return
    from pytest_elo.tasks.swebench.sandbox import choose_sandbox

    try:
        name = choose_sandbox(str(options.get("sandbox", "auto"))).name
    except EloError as error:
        yield Finding("warn", "sandbox", str(error))
        return
    unsafe = Finding("warn", "sandbox", "none: model-written code runs unprotected")
    yield unsafe if name == "none" else Finding("ok", "sandbox", f"{name} holds code that a model wrote")


class _Unwritten:
    """A sink for the doctor's own attempts, which belong to no run."""

    def open(self, attempt: object) -> None: ...

    def close(self, attempt: object) -> None: ...


def _host(settings: Settings) -> str:
    from urllib.parse import urlsplit

    with contextlib.suppress(ValueError):  # no address at all, which its own check says
        return urlsplit(settings.base_url).netloc
    return ""


def _tracked_env_files(root: Path) -> Iterator[str]:
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--", ".env", "*/.env", ".env.*", "*/.env.*"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return
    for name in filter(None, listed.split("\0")):
        if not name.endswith((".example", ".sample", ".template")):
            yield f"{name} is tracked by git; run `git rm --cached {name}`, ignore it, and replace the keys in it"
