"""The hook implementations of each role. No logic here: every hook delegates to its role."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_elo.errors import EloError
from pytest_elo.session.controller import USAGE_PREFIX, Controller
from pytest_elo.session.live import LiveLedger
from pytest_elo.session.runner import Runner
from pytest_elo.session.status import test_status
from pytest_elo.session.trial import Posed, Trial, TrialKey

__all__ = ["WORKER_PLAN", "ControllerPlugin", "ReportPlugin", "RunnerPlugin", "XdistPlugin"]

WORKER_PLAN = "elo_plan"
WORKER_END = "elo_end"

POSED = pytest.StashKey[Posed]()
FAILED = pytest.StashKey[bool]()


class RunnerPlugin:
    """In every process that runs items."""

    def __init__(self, config: pytest.Config, runner: Runner) -> None:
        self._config = config
        self.runner = runner

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        mark = metafunc.definition.get_closest_marker("elo")
        name = metafunc.definition.nodeid
        if mark is None:
            raise pytest.Collector.CollectError(f"{USAGE_PREFIX}{name} has no elo mark, so it has no items")
        try:
            keys, ids = self.runner.collector.trials(mark, Path(metafunc.module.__file__))
        except EloError as error:
            raise pytest.Collector.CollectError(f"{USAGE_PREFIX}{error}") from None
        metafunc.parametrize("elo_key", keys, ids=ids, indirect=True)

    def run_trial(self, request: pytest.FixtureRequest, key: TrialKey) -> Iterator[Trial]:
        trial = self.runner.trial(key)
        request.node.stash[POSED] = trial
        trial.fail_if_unfit()
        with self.runner.charged(key):
            yield trial
        _require_outcome(request, trial)

    def pose(self, request: pytest.FixtureRequest, key: TrialKey) -> Iterator[Posed]:
        posed = self.runner.posed(key)
        request.node.stash[POSED] = posed
        with self.runner.charged(key):
            yield posed
        _require_outcome(request, posed)

    def client(self, request: pytest.FixtureRequest, *, asynchronous: bool = False) -> Iterator[Any]:
        key = request.getfixturevalue("elo_key") if "elo_key" in request.fixturenames else None
        with self.runner.charged(key, request.node.nodeid):
            yield self.runner.gateway.async_client() if asynchronous else self.runner.gateway.client()

    def live_ledger(self) -> LiveLedger:
        return LiveLedger(self.runner.journal)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if self.runner.stop_requested():
            item.session.shouldstop = "pytest-elo: the run was stopped"
            return True
        self.runner.look_ahead(item.session, item, nextitem)
        return None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, Any]:
        report: Any = yield  # an attribute of a report travels from worker to controller with it
        item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
        posed = item.stash.get(POSED, None)
        if posed is not None and posed.outcome is not None:
            report.elo_status = posed.outcome.status
        if call.excinfo is not None and isinstance(call.excinfo.value, EloError):
            _one_line(report, call.excinfo.value, self._config)
            if self.runner.must_abort(call.excinfo.value):
                report.elo_abort = True
                self.runner.request_stop()
                item.session.shouldstop = f"pytest-elo: {call.excinfo.value}"
        events = self.runner.take_events()
        if events:
            report.elo_events = events
        return report

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        unused = self.runner.close()
        end = {"events": self.runner.take_events(), "unused": unused}
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[WORKER_END] = json.dumps(end)
        else:
            controller = session.config.pluginmanager.get_plugin("elo-controller")
            if isinstance(controller, ControllerPlugin):
                controller.controller.worker_ended(end)


class ControllerPlugin:
    """In the one process that owns the run directory."""

    def __init__(self, controller: Controller, runner: Runner | None) -> None:
        self.controller = controller
        self._runner = runner

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        if session.config.option.collectonly:
            return
        try:
            plan = self.controller.start()
        except EloError as error:
            raise pytest.UsageError(f"pytest-elo: {error}") from None
        if self._runner is not None:
            self._runner.begin(plan)

    def pytest_report_header(self) -> list[str]:
        return self.controller.header_lines()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if self._runner is not None:
            self.controller.expect(item.nodeid for item in session.items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.controller.collection_failed(str(report.longrepr))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.controller.saw(report)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, Any] | None:
        return test_status(report)

    def pytest_keyboard_interrupt(self) -> None:
        self.controller.request_stop()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        # Innermost: after the workers have ended, before the terminal reads the exit status.
        yield
        session.exitstatus = self.controller.finish(int(session.exitstatus))


class XdistPlugin:
    """In the controller of a distributed run; the hooks are xdist's."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        if self._controller.plan is not None:
            node.workerinput[WORKER_PLAN] = self._controller.plan.dumps()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        self._controller.expect(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        end = getattr(node, "workeroutput", {}).get(WORKER_END)
        if end is not None:
            self._controller.worker_ended(json.loads(end))
        else:
            self._controller.worker_lost()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        if config.option.dist != "load":
            return None
        from pytest_elo.session.scheduling import WindowScheduling

        return WindowScheduling(config, log, self._controller.settings.concurrency)


class ReportPlugin:
    """Prints after everything else of the session: outermost, so that the table is the last thing seen."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        yield
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            for line in self._controller.closing_lines():
                terminal.write_line(line)


def _require_outcome(request: pytest.FixtureRequest, posed: Posed) -> None:
    if posed.outcome is None and not request.node.stash.get(FAILED, False):
        pytest.fail("the item has no outcome: call grade() or score(x), or it would vanish", pytrace=False)


def _one_line(report: pytest.TestReport, error: EloError, config: pytest.Config) -> None:
    if not config.getoption("--elo-debug"):
        report.longrepr = str(error)
