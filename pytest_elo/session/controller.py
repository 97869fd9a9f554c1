"""The controller: the one process that owns the run directory, speaks to the user and rates at the end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_elo.config import Settings
from pytest_elo.errors import EloError
from pytest_elo.ledger.fold import Ledger
from pytest_elo.ledger.rundir import RunDir, new_run_id, recover
from pytest_elo.session.gating import Gatekeeper
from pytest_elo.session.plan import Plan, run_header

if TYPE_CHECKING:
    from pytest_elo.report.build import Report
    from pytest_elo.session.access import Access

__all__ = ["Controller"]

USAGE_PREFIX = "pytest-elo: "
"""Starts every collection error that is the user's to mend; the controller turns it into exit code 4."""


class Controller:
    """Collects events and reports from all processes; writes, rates and prints when the session ends."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self.settings = settings
        self.ledger = Ledger()
        self.plan: Plan | None = None
        self.report: Report | None = None
        self.problem: EloError | None = None
        """Why the run could not be rated, when that is an error."""
        self._config = config
        self._access: Access | None = None
        self._gates = Gatekeeper(config, settings)
        self._notices: list[str] = []
        self._expected: dict[str, None] = {}
        self._reported: set[str] = set()
        self._failures = 0
        self._usage_error = False
        self._unused = 0
        self._lost_workers = 0
        self._interrupted = False
        self._started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    @property
    def run_dir(self) -> RunDir:
        assert self.plan is not None
        return self._run_dir

    def start(self) -> Plan:
        """Decide the plan: recover killed runs, find out what answers, check it, make the run directory.

        Raises ``ConfigError`` before anything is spent.
        """
        from pytest_elo.ledger.journal import Journal
        from pytest_elo.session.access import prepare

        chosen = self._config.getoption("--elo-dir")
        base = self._config.rootpath / ".elo"
        path = self._config.invocation_params.dir / chosen if chosen else base / new_run_id()
        self._notices.extend(recover(path.parent))
        self._run_dir = RunDir(path)
        self._run_dir.create()
        journal = Journal(self._run_dir.shards / "controller.jsonl", path.name)
        try:
            self._access = prepare(
                self.settings,
                journal,
                replay=self._config.getoption("--elo-replay"),
                record=self._config.getoption("--elo-record"),
            )
        except EloError:
            self._abandon()
            raise
        finally:
            journal.shut()
        self.plan = self._access.plan(path)
        self._run_dir.point_latest()
        self._run_dir.write_header(run_header(self.settings, self.plan, self._started))
        return self.plan

    def _abandon(self) -> None:
        """Leave a run that could not begin: its attempts are kept, a directory without any is not."""
        self._run_dir.sweep(self.ledger)
        if attempts := self.ledger.attempts():
            self._run_dir.write(attempts, ())
            self._run_dir.finish()
        else:
            self._run_dir.finish()
            self._run_dir.remove_empty()

    def header_lines(self) -> list[str]:
        """For the top of the session: what answers, and where the run is kept."""
        if self.plan is None:
            return []
        return [f"elo: {self.plan.answers}", f"elo: run directory {_short(self.run_dir.path, self._config)}"]

    def expect(self, node_ids: Iterable[str]) -> None:
        """These items are going to run; one without a final report will be named."""
        self._expected.update(dict.fromkeys(node_ids))

    def collection_failed(self, text: str) -> None:
        self._usage_error = self._usage_error or USAGE_PREFIX in text

    def saw(self, report: pytest.TestReport) -> None:
        """Take the events a report carries, and remember that its item has ended."""
        if report.when not in ("setup", "call"):  # teardown, or "???" for an item whose worker crashed
            self._reported.add(report.nodeid)
        self.ledger.add_lines(getattr(report, "elo_events", ""))
        self._usage_error = self._usage_error or getattr(report, "elo_abort", False)
        if report.failed:
            self._failures += 1
            limit = self._config.option.maxfail
            if limit and self._failures >= limit:
                self.request_stop()

    def worker_ended(self, end: Mapping[str, Any]) -> None:
        self.ledger.add_lines(end["events"])
        self._unused += end["unused"]

    def worker_lost(self) -> None:
        """A worker died: what its shard holds is all that is known of its last item."""
        self._lost_workers += 1
        if self.plan is not None:
            self.run_dir.sweep(self.ledger)

    def request_stop(self) -> None:
        """Stop every process before its next item; xdist's own stop comes only behind the queued items."""
        if self.plan is not None:
            self.run_dir.stop_file.touch()

    def finish(self, exit_status: int) -> int:
        """Write the run directory, rate it, and return the session's exit status."""
        if self.plan is None:
            return exit_status
        self._interrupted = exit_status not in (0, 1)
        self.run_dir.sweep(self.ledger)
        if not self.ledger.attempts():
            self._close_access()
            self._abandon()
            return self._exit_status(exit_status)
        self.run_dir.write(self.ledger.attempts(), self.ledger.outcomes())
        self.run_dir.write_header(
            run_header(self.settings, self.plan, self._started) | {"notes": sorted(self.ledger.notes)}
        )
        self._close_access()
        if self.ledger.outcomes():
            self._rate()
        self.run_dir.finish()
        return self._exit_status(exit_status)

    def closing_lines(self) -> list[str]:
        """What the terminal shows after pytest's own summary."""
        from pytest_elo.report.table import lines

        out = [f"elo: {notice}" for notice in self._notices]
        if self.plan is None:
            return out
        if self.report is not None:
            out += lines(self.report)
        if self.problem is not None:
            out.append(f"ERROR: {self.problem}")
        missing = [] if self._interrupted else self._missing()
        if missing:
            shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
            out.append(f"elo: {len(missing)} of {len(self._expected)} items came to no end: {shown}")
        if self._lost_workers:
            out.append(f"elo: {self._lost_workers} workers died; their rows were swept from their journals")
        if self._unused:
            out.append(f"elo: {self._unused} items were bought ahead and not used; their replies are kept")
        if self.ledger.attempts():
            out.append(f"elo: run directory {_short(self.run_dir.path, self._config)}")
        return out

    def _close_access(self) -> None:
        if self._access is not None:
            self._notices.extend(self._access.close(self.run_dir.responses))

    def _missing(self) -> list[str]:
        return [node_id for node_id in self._expected if node_id not in self._reported]

    def _rate(self) -> None:
        from pytest_elo.report.build import build
        from pytest_elo.report.files import write_files

        try:
            self.report = build(self.run_dir.path)
            if not self._interrupted:
                self.report = self._gates.judge(self.report)
        except EloError as error:
            self.problem = error
        if self.report is not None:
            write_files(self.report, self.run_dir.path)

    def _exit_status(self, status: int) -> int:
        from pytest_elo.gates.results import exit_code

        if self._usage_error and status in (0, 1, 2):
            return 4
        if self.problem is not None and status in (0, 1):
            return self.problem.exit_code
        gates = exit_code(self.report.gates) if self.report is not None else 0
        if status in (0, 1) and gates:
            return gates
        if status == 0 and self._missing():
            return 1
        return status


def _short(path: Path, config: pytest.Config) -> str:
    return str(path.relative_to(config.rootpath)) if path.is_relative_to(config.rootpath) else str(path)
