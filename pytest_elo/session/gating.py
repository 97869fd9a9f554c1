"""Gates in a session: read before anything is bought, judged when the run is rated."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_elo._text import did_you_mean
from pytest_elo.config import Settings
from pytest_elo.errors import ConfigError

if TYPE_CHECKING:
    from pytest_elo.gates.language import Gate
    from pytest_elo.report.build import Report

__all__ = ["Gatekeeper", "narrowed_by"]


class Gatekeeper:
    """Holds the session's gates. Raises ``ConfigError`` at once for text that is no gate."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._gates = self._read() if settings.gates.rules else ()

    def judge(self, report: Report) -> Report:
        """The report with the answer to every gate.

        Raises ``ConfigError`` for a gate about something that does not exist, and for a stored run that
        cannot be read.
        """
        if not self._gates:
            return report
        from pytest_elo.gates.judge import Judging, judge
        from pytest_elo.report.judging import judged_run, stored_run

        settings = self._settings.gates
        folder = settings.baselines or Path("baselines")
        how = Judging(
            strict=settings.strict,
            allowed=settings.allow,
            selection=narrowed_by(self._config, self._settings),
            baseline=lambda name: stored_run(name, folder, self._config.invocation_params.dir),
        )
        declared = [spec.name for spec in self._settings.strategies]
        return replace(report, gates=judge(self._gates, judged_run(report, declared), how))

    def stored(self) -> dict[str, Any]:
        """What ``run.json`` of a shard says of the gates, so that they can be judged when the shards are joined."""
        settings = self._settings.gates
        return {
            "rules": [text for text, _ in settings.rules],
            "strict": settings.strict,
            "allow": list(settings.allow),
            "baselines": os.path.relpath(settings.baselines) if settings.baselines is not None else None,
            "selection": narrowed_by(self._config, self._settings),
        }

    def _read(self) -> tuple[Gate, ...]:
        from pytest_elo.gates.language import AgainstRun, parse

        gates = []
        for text, where in self._settings.gates.rules:
            gate = parse(text, where)
            if isinstance(gate, AgainstRun):
                self._check_reference(gate.reference, f"{where}: gate {gate.text!r}")
            gates.append(gate)
        return tuple(gates)

    def _check_reference(self, name: str, where: str) -> None:
        """A baseline that is missing beside others is a slip of the pen; without any there is none yet."""
        from pytest_elo.gates.baseline import baseline_path, stored_names

        folder = self._settings.gates.baselines
        if folder is None or "/" in name or (self._config.invocation_params.dir / name).exists():
            return
        names = stored_names(folder)
        if names and not baseline_path(folder, name).is_file():
            raise ConfigError(f"{where}: no baseline {name!r} in {folder}{did_you_mean(name, names)}")


def narrowed_by(config: pytest.Config, settings: Settings) -> str:
    """How the user narrowed the run, as on the command line; empty when the whole suite was meant to run."""
    return ", ".join(_narrowings(config, settings))


def _narrowings(config: pytest.Config, settings: Settings) -> Iterator[str]:
    option = config.option
    for flag, name in (("-k", "keyword"), ("-m", "markexpr")):
        if getattr(option, name, ""):
            yield f"{flag} {getattr(option, name)}"
    for flag, name in (("--lf", "lf"), ("--deselect", "deselect"), ("--ignore", "ignore"), ("--sw", "stepwise")):
        if getattr(option, name, None):
            yield flag
    for flag in ("--elo-limit", "--elo-strategies"):
        if config.getoption(flag):
            yield f"{flag} {config.getoption(flag)}"
    root = settings.path.parent if settings.path is not None else config.rootpath
    for argument in config.args:
        path = Path(config.invocation_params.dir, argument.split("::", 1)[0]).resolve()
        if "::" in argument or not root.is_relative_to(path):
            yield argument
