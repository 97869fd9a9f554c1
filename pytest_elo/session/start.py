"""Which roles this process plays; decided once, when pytest is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_elo.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_elo.session.controller import Controller
    from pytest_elo.session.shard import Share

__all__ = ["register"]


def register(config: pytest.Config) -> None:
    """Register the controller, the runner, both or neither; raises ``pytest.UsageError`` for bad settings."""
    try:
        if hasattr(config, "workerinput"):
            _register_worker(config)
        else:
            _register_controller(config)
    except ConfigError as error:
        raise pytest.UsageError(f"pytest-elo: {error}") from None


def _register_worker(config: pytest.Config) -> None:
    text = config.workerinput.get("elo_plan")  # type: ignore[attr-defined]
    if text is None:
        return
    from pytest_elo._gc import without_gc

    with without_gc():
        _join(config, text)


def _join(config: pytest.Config, text: str) -> None:
    from pytest_elo.session.apart import config_paths_here
    from pytest_elo.session.hooks import WorkerPlugin
    from pytest_elo.session.options import find_config, read_settings
    from pytest_elo.session.plan import Plan
    from pytest_elo.session.runner import Runner

    plan = Plan.loads(text) if text else None
    root = config.rootpath
    paths = find_config(config) if plan is None else config_paths_here(plan, root, lambda: find_config(config))
    settings = read_settings(config, paths)
    worker = config.workerinput  # type: ignore[attr-defined]
    runner = Runner(settings, worker["workerid"], worker["workercount"], may_stop_early=bool(config.option.maxfail))
    runner.share = _share(config)
    if plan is not None:
        runner.begin(plan, root)
    config.pluginmanager.register(WorkerPlugin(config, runner), "elo-runner")


def _register_controller(config: pytest.Config) -> None:
    from pytest_elo.session.options import find_config

    paths = find_config(config)
    if not paths or config.option.help or config.option.version or config.option.elo_doctor:
        return
    from pytest_elo._gc import without_gc

    with without_gc():
        _awake(config, paths)


def _awake(config: pytest.Config, paths: Sequence[Path]) -> None:
    from pytest_elo.session.controller import Controller
    from pytest_elo.session.hooks import ControllerPlugin, ReportPlugin, RunnerPlugin, XdistPlugin
    from pytest_elo.session.options import read_settings
    from pytest_elo.session.runner import Runner

    settings = read_settings(config, paths)
    dist = getattr(config.option, "dist", "no")
    if dist == "each":
        raise ConfigError("--dist each would buy every item once per worker; use --dist load")
    controller = Controller(config, settings)
    runner = None
    if dist == "no" or config.option.collectonly:
        runner = Runner(settings, "main", 1, may_stop_early=bool(config.option.maxfail))
        runner.share = _share(config)
        config.pluginmanager.register(RunnerPlugin(config, runner), "elo-runner")
    else:
        config.pluginmanager.register(XdistPlugin(controller), "elo-xdist")
    config.pluginmanager.register(ControllerPlugin(controller, runner), "elo-controller")
    config.pluginmanager.register(ReportPlugin(controller), "elo-report")
    _register_live_line(config, controller)


def _share(config: pytest.Config) -> Share | None:
    from pytest_elo.session.shard import Share, shard_of

    shard = shard_of(config)
    return Share(shard) if shard is not None else None


def _register_live_line(config: pytest.Config, controller: Controller) -> None:
    from pytest_elo.session.progress import LiveLine, Tally, open_terminal

    terminal = None if config.option.collectonly else open_terminal(config)
    if terminal is not None:
        tally = Tally(controller.settings.prices)
        config.pluginmanager.register(
            LiveLine(terminal, lambda: len(controller.arrivals.expected), tally), "elo-live-line"
        )
