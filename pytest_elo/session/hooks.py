"""The hook implementations of each role. No logic here: every hook delegates to its role."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pytest_elo._gc import without_gc
from pytest_elo._parse import parse_json
from pytest_elo._text import printable
from pytest_elo.errors import ConfigError, EloError
from pytest_elo.session.apart import is_a_plain_process, is_on_another_host
from pytest_elo.session.contest import Contest, ContestKey
from pytest_elo.session.controller import USAGE_PREFIX, Controller
from pytest_elo.session.item import ItemState, share_properties
from pytest_elo.session.live import LiveLedger
from pytest_elo.session.outputs import load
from pytest_elo.session.runner import Runner
from pytest_elo.session.status import test_status
from pytest_elo.session.trial import Posed, Trial, TrialKey

__all__ = ["ControllerPlugin", "ReportPlugin", "RunnerPlugin", "WorkerPlugin", "XdistPlugin"]

K = TypeVar("K", TrialKey, ContestKey)
T = TypeVar("T", Trial, Contest)
R = TypeVar("R")


MOST_PER_REPORT = 4_000_000
"""Characters of events a report carries; what is more waits for the next one."""


class RunnerPlugin:
    """In every process that runs items."""

    def __init__(self, config: pytest.Config, runner: Runner) -> None:
        self._config = config
        self.runner = runner
        self._ended: pytest.Item | None = None

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        mark = metafunc.definition.get_closest_marker("elo")
        name = metafunc.definition.nodeid
        if mark is None:
            raise pytest.Collector.CollectError(f"{USAGE_PREFIX}{name} has no elo mark, so it has no items")
        try:
            keys, ids = self.runner.collector.trials(mark, Path(metafunc.module.__file__), name)
            self.runner.require_condition(keys)
            _require_fixture(keys, metafunc.fixturenames, name)
        except EloError as error:
            raise pytest.Collector.CollectError(f"{USAGE_PREFIX}{error}") from None
        metafunc.parametrize("elo_key", keys, ids=ids, indirect=True)

    def run_trial(self, request: pytest.FixtureRequest, key: TrialKey) -> Iterator[Trial]:
        yield from self._taken(request, self.runner.trial, key, key)

    def run_contest(self, request: pytest.FixtureRequest, key: ContestKey) -> Iterator[Contest]:
        yield from self._taken(request, self.runner.contest, key, None)

    def _taken(
        self, request: pytest.FixtureRequest, take: Callable[[K, int], T], key: K, payer: TrialKey | None
    ) -> Iterator[T]:
        state = ItemState.of(request.node)
        if not self.runner.has_begun:
            pytest.skip("pytest-elo: nothing is asked while pytest only sets fixtures up")
        from pytest_elo.engine import StoppedError

        try:
            taken = take(key, state.begin(request.node, self.runner))
        except StoppedError:
            pytest.skip(f"{USAGE_PREFIX}{self.runner.stop_reason() or 'the run is stopping'}")
        state.posed = taken
        taken.fail_if_unfit()
        taken.direct_calls = state.calls
        with self.runner.charged(payer, state.calls, request.node.nodeid):
            yield taken
        state.require_outcome()

    def pose(self, request: pytest.FixtureRequest, key: TrialKey) -> Iterator[Posed]:
        state = ItemState.of(request.node)
        if not self.runner.has_begun:
            pytest.skip("pytest-elo: nothing is asked while pytest only sets fixtures up")
        posed = state.posed = self.runner.posed(key, state.begin(request.node, self.runner))
        posed.direct_calls = state.calls
        with self.runner.charged(key, state.calls):
            yield posed
        state.require_outcome()

    def client(self, request: pytest.FixtureRequest, *, asynchronous: bool = False) -> Iterator[Any]:
        key = request.getfixturevalue("elo_key") if "elo_key" in request.fixturenames else None
        key = key if isinstance(key, TrialKey) else None
        gateway = self.runner.gateway
        with self.runner.charged(key, ItemState.of(request.node).calls, request.node.nodeid):
            yield gateway.async_client() if asynchronous else gateway.client()

    def gateway_env(self, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
        from pytest_elo.session.leasing import leased

        key = request.getfixturevalue("elo_key") if "elo_key" in request.fixturenames else None
        with leased(self.runner, key, ItemState.of(request.node).calls, request.node.nodeid) as environment:
            yield environment

    def live_ledger(self) -> LiveLedger:
        return LiveLedger(self.runner.journal)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        with without_gc():
            return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        others = self.runner.share.take_others(items) if self.runner.share is not None else []
        if taken := [*others, *self.runner.take_done(items)]:
            config.hook.pytest_deselected(items=taken)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        # Only now is it known what -k, -m and --lf have left; an error of collection stops every kind of session.
        unanchored = list(self.runner.unanchored(session.items))
        for nodeid, said in unanchored:
            report = pytest.CollectReport(nodeid, "failed", f"{USAGE_PREFIX}{said}", [])
            session.config.hook.pytest_collectreport(report=report)
        if not unanchored:
            self.runner.expect(session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        reason = self.runner.stop_reason()
        if reason is not None:
            item.session.shouldstop = f"{USAGE_PREFIX}{reason}"
            return True
        if self._ended is not None:
            ItemState.drop(self._ended)
        self._ended = item
        self.runner.look_ahead(item.session, item, nextitem)
        return None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, Any]:
        state = ItemState.of(item)
        state.write_properties(item, call.when, self.runner.settings.prices)
        report: Any = yield  # an attribute of a report travels from worker to controller with it
        state.saw(report, self.runner.settings.prices)
        if call.excinfo is not None and isinstance(call.excinfo.value, EloError):
            _one_line(report, call.excinfo.value, self._config)
            if self.runner.must_abort(call.excinfo.value):
                report.elo_abort = True
                self.runner.request_stop(str(call.excinfo.value))
                item.session.shouldstop = f"{USAGE_PREFIX}{call.excinfo.value}"
        events = self.runner.take_events(MOST_PER_REPORT)
        if events:
            report.elo_events = events
        return report

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        end = self.runner.close()
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["elo_end"] = json.dumps(end)
            return
        controller = session.config.pluginmanager.get_plugin("elo-controller")
        if isinstance(controller, ControllerPlugin):
            controller.controller.worker_ended(end)


class WorkerPlugin(RunnerPlugin):
    """In a worker of a distributed run."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        yield
        # Other plugins keep reports in workers too; what this one carried has been sent.
        vars(report).pop("elo_events", None)


class ControllerPlugin:
    """In the one process that owns the run directory."""

    def __init__(self, controller: Controller, runner: Runner | None) -> None:
        self.controller = controller
        self._runner = runner

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        option = session.config.option
        if option.collectonly or option.setuponly or option.setupplan:
            return
        with without_gc():
            plan = _or_usage_error(self.controller.start)
        if self._runner is not None:
            self._runner.begin(plan, session.config.rootpath)

    def pytest_report_header(self) -> list[str]:
        return self.controller.header_lines()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if self._runner is not None:
            self.controller.expect(item.nodeid for item in session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        # Nobody needs this process while a gateway is asked, nor while workers run all items.
        if self._runner is not None and self.controller.awaits_preflight:
            load()
        _or_usage_error(self.controller.begin_items)
        if self._runner is None:
            threading.Thread(target=load, name="pytest-elo load").start()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.controller.collection_failed(str(report.longrepr))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        self.controller.saw(report)
        yield
        # The terminal keeps every report to the end; what it carried has arrived.
        vars(report).pop("elo_events", None)
        if hasattr(report, "node"):
            share_properties(report.user_properties)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, Any] | None:
        return test_status(report)

    def pytest_keyboard_interrupt(self) -> None:
        self.controller.request_stop("the run was interrupted")

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        # Innermost: after the workers have ended, before the terminal reads the exit status.
        yield
        session.exitstatus = self.controller.finish(int(session.exitstatus))


class XdistPlugin:
    """In the controller of a distributed run; the hooks are xdist's."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._nodes: list[Any] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        if not is_a_plain_process(node):  # it may not see the file that says what the preflight finds
            _or_usage_error(self._controller.require_preflight)
        plan = self._controller.plan
        node.workerinput["elo_plan"] = "" if plan is None else plan.dumps()
        self._nodes.append(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        self._controller.expect(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        end = getattr(node, "workeroutput", {}).get("elo_end")
        if end is not None:
            self._controller.worker_ended(parse_json(end))
        else:
            self._controller.worker_lost(node.gateway.id, is_apart=is_on_another_host(node))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        if config.option.dist != "load":
            return None
        from pytest_elo.session.scheduling import WindowScheduling

        return WindowScheduling(config, log, self._controller.settings.concurrency)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        # Before xdist ends its workers, which it does after ten seconds whatever they are waiting for.
        self._controller.await_drain(self._nodes)


class ReportPlugin:
    """Prints after everything else of the session: outermost, so that the table is the last thing seen."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        yield
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            from pytest_elo.session.closing import lines

            for line in lines(self._controller):
                terminal.write_line(line)


def _or_usage_error(act: Callable[[], R]) -> R:
    try:
        return act()
    except EloError as error:
        raise pytest.UsageError(f"pytest-elo: {error}") from None


def _require_fixture(keys: Sequence[TrialKey | ContestKey], names: Sequence[str], test: str) -> None:
    """A contest is not a trial: a test that asks for the wrong one would rate nothing."""
    if not keys:
        return
    is_contest = isinstance(keys[0], ContestKey)
    wanted, others = ("contest", {"trial", "problem"}) if is_contest else ("trial", {"contest"})
    wrong = sorted(others & set(names))
    if wrong:
        kind = "is judged in pairs" if is_contest else "is graded by itself"
        raise ConfigError(f"{test}: task {keys[0].task_id!r} {kind}; take the fixture '{wanted}', not '{wrong[0]}'")


def _one_line(report: pytest.TestReport, error: EloError, config: pytest.Config) -> None:
    if not config.getoption("--elo-debug"):
        report.longrepr = printable(str(error))
