"""The controller: the one process that owns the run directory, speaks to the user and rates at the end."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_elo._text import usable
from pytest_elo.config import Settings
from pytest_elo.errors import ConfigError, EloError
from pytest_elo.ledger.fold import Ledger
from pytest_elo.ledger.partial import partial_tiers
from pytest_elo.ledger.rundir import RunDir, new_run_id, recover
from pytest_elo.session.apart import lost_note
from pytest_elo.session.arrivals import Arrivals
from pytest_elo.session.exit_status import INTERRUPTED, NOTHING_COLLECTED, OK, TESTS_FAILED, Ending
from pytest_elo.session.gating import Gatekeeper
from pytest_elo.session.plan import Plan, run_header
from pytest_elo.session.preflight import Preflight
from pytest_elo.session.shard import shard_of
from pytest_elo.session.task_files import write_task_files
from pytest_elo.session.termination import Termination

if TYPE_CHECKING:
    from pytest_elo.report.build import Report
    from pytest_elo.session.access import Access

__all__ = ["USAGE_PREFIX", "Controller"]

USAGE_PREFIX = "pytest-elo: "
"""Starts every collection error that is the user's to mend; the controller turns it into exit code 4."""

_POLL_S = 0.05


class Controller:
    """Collects events and reports from all processes; writes, rates and prints when the session ends."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self.settings = settings
        self.ledger = Ledger()
        self.plan: Plan | None = None
        self.report: Report | None = None
        self.problem: EloError | None = None
        """Why the run could not be rated, when that is an error."""
        self.notices: list[str] = []
        self.arrivals = Arrivals()
        self.lost_workers = 0
        self.stop_reason: str | None = None
        """Why the run ended before its last item; ``None`` when it did not."""
        self.top_failures: int = config.getoption("--elo-top-failures")
        """Cases that the terminal shows with their raw output."""
        self.shard = shard_of(config)
        """Which part of the suite this run is; ``None`` for all of it."""
        self._config = config
        self._access: Access | None = None
        self._preflight: Preflight | None = None
        self._gates = Gatekeeper(config, settings)
        self._run_dir: RunDir | None = None
        self._termination: Termination | None = None
        self._failures = 0
        self._usage_error = False
        self._facts: dict[str, Any] = {}

    @property
    def run_dir(self) -> RunDir:
        assert self._run_dir is not None
        return self._run_dir

    def start(self) -> Plan:
        """Decide the plan: recover killed runs, find out what answers, make the run directory, begin the preflight.

        Raises ``ConfigError`` before anything is spent.
        """
        from pytest_elo.session.resume import continued, require_same, run_to_continue

        base = self._config.rootpath / ".elo"
        resumed = self._config.getoption("--elo-resume")
        path = self._path(base) if resumed is None else run_to_continue(resumed, base, self._invoked_in)
        self.notices.extend(recover(path.parent))
        self._run_dir = RunDir(path)
        if resumed is None and self._run_dir.has_rows:
            raise ConfigError(f"{path} holds a run already; go on with it by --elo-resume={path}, or choose another")
        self._run_dir.create()
        try:
            header: Mapping[str, Any] = {}
            if resumed is not None:
                header = self._run_dir.checked_header()
                self._run_dir.read(self.ledger)
                require_same(header, self.settings, None, path)
                self._require_same_shard(header, path)
            plan = self._prepare(path)
            if resumed is not None:
                require_same(header, self.settings, plan, path)
                plan = continued(plan, self.ledger)
        except EloError:
            self._abandon()
            raise
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        started = header.get("started", now)
        self._facts = {"started": started, "notes": header.get("notes", []), "expected": header.get("expected", {})}
        if self.shard is not None:
            self._facts |= {
                "shard": asdict(self.shard),
                "whole": header.get("whole", {}),
                "gates": self._gates.stored(),
            }
        if header.get("lost"):
            self._facts["lost"] = header["lost"]
        if resumed is not None:
            self._facts["resumed"] = [*header.get("resumed", []), now]
        self.plan = plan
        self._run_dir.mark(plan.nonce)
        self._termination = Termination(self._run_dir, interrupts=True)
        self._termination.install()
        self._write_header()
        if plan.awaits_preflight:
            assert self._access is not None
            self._preflight = Preflight(self._access, self._run_dir)
        return plan

    @property
    def awaits_preflight(self) -> bool:
        return self._preflight is not None

    def require_preflight(self) -> None:
        """Wait until the gateway has been seen to answer: before this, no item may be handed out.

        Raises ``ConfigError`` when it has not.
        """
        if self._preflight is None or self.plan is None:
            return
        found = self._preflight.result()
        self._preflight = None
        self.run_dir.write_preflight(found)
        self.plan = self.plan.checked(found)

    def begin_items(self) -> None:
        """The first item comes next. Raises ``ConfigError`` when nothing would answer it."""
        self.require_preflight()
        if self.plan is not None:
            self.run_dir.point_latest()

    @property
    def _invoked_in(self) -> Path:
        return self._config.invocation_params.dir

    def _require_same_shard(self, header: Mapping[str, Any], path: Path) -> None:
        then, now = header.get("shard"), None if self.shard is None else asdict(self.shard)
        if then != now:
            word = "the whole suite" if then is None else f"shard {then['index']}/{then['of']}"
            raise ConfigError(f"--elo-resume: the run in {path} is {word}; give the same --elo-shard as then")

    def _path(self, base: Path) -> Path:
        chosen = self._config.getoption("--elo-dir")
        try:
            return usable(self._invoked_in / chosen) if chosen else base / new_run_id()
        except ValueError as error:
            raise ConfigError(f"--elo-dir {chosen[:80]!r} is no path ({error})") from None

    def _prepare(self, path: Path) -> Plan:
        from pytest_elo.session.access import earlier_stores, prepare

        option = self._config.getoption
        self._access = prepare(self.settings, replay=option("--elo-replay"), record=option("--elo-record"))
        stores = earlier_stores(path) if option("--elo-cache") else None
        plan = self._access.plan(path, stores=stores)
        return replace(plan, nonce=secrets.token_hex(8), root=str(self._config.rootpath))

    def _write_header(self) -> None:
        assert self.plan
        self.run_dir.write_header(run_header(self.settings, self.plan) | self._facts)

    def _abandon(self) -> None:
        """Leave a run that could not begin: its attempts are kept, a directory without any is not."""
        self.run_dir.sweep(self.ledger)
        if self.ledger.attempts():
            self.run_dir.write(self.ledger)
            self.run_dir.finish()
        else:
            self.run_dir.finish()
            self.run_dir.remove_empty()

    def header_lines(self) -> list[str]:
        """For the top of the session: what answers, and where the run is kept."""
        if self.plan is None:
            return []
        lines = [f"elo: {self.plan.answers}", f"elo: run directory {self.short(self.run_dir.path)}"]
        if self.shard is not None:
            lines.append(f"elo: shard {self.shard}")
        if self.plan.done:
            lines.append(f"elo: resumed, {len(self.plan.done)} outcomes are there already")
        return lines

    def expect(self, node_ids: Iterable[str]) -> None:
        """These items are going to run; one without a final report will be named."""
        self.arrivals.expect(node_ids)

    def collection_failed(self, text: str) -> None:
        if USAGE_PREFIX not in text:
            return
        self._usage_error = True
        if not self._config.option.continue_on_collection_errors:
            # pytest stops here by itself and calls it an interrupt; xdist would go on and buy the other tests' items
            self.request_stop("a task cannot be run as it is set up")

    def saw(self, report: pytest.TestReport) -> None:
        """Take the events a report carries, and remember that its item has ended."""
        if report.when not in ("setup", "call"):  # teardown, or "???" for an item whose worker crashed
            self.arrivals.item_ended(report.nodeid)
        self._take(getattr(report, "elo_events", ""))
        self._usage_error = self._usage_error or getattr(report, "elo_abort", False)
        if report.failed and not hasattr(report, "wasxfail"):
            self._failures += 1
            limit = self._config.option.maxfail
            if limit and self._failures >= limit:
                self.request_stop(f"stopping after {self._failures} failures")

    def worker_ended(self, end: Mapping[str, Any]) -> None:
        """A process came to its end: its last events, and how many it wrote to which shard."""
        self._take(end["events"])
        self.arrivals.process_ended(end["shard"], end["written"])

    def _take(self, events: str) -> None:
        self.ledger.add_lines(events)
        if self.plan is not None:
            self.run_dir.keep_responses(self.ledger.take_responses())

    def worker_lost(self, worker: str, *, is_apart: bool) -> None:
        """A worker died: what its shard holds is all that is known of its last item.

        Of one on another disk no more is known than what its reports brought; the report says so.
        """
        self.lost_workers += 1
        if self.plan is not None:
            shard = next((name for name in self.ledger.apart if name.startswith(f"{worker}-")), None)
            if is_apart or shard is not None:
                place = None if shard is None else self.ledger.apart[shard]
                self._facts["lost"] = {
                    **self._facts.get("lost", {}),
                    shard or worker: lost_note(worker, place, self.plan.run_id),
                }
            # xdist hands the dead worker's items on only after this: whoever gets them looks for its purchases
            self.run_dir.note_lost()
            self.run_dir.sweep(self.ledger)

    def request_stop(self, reason: str) -> None:
        """Stop every process before its next item; xdist's own stop comes only behind the queued items."""
        if self.plan is not None:
            self.run_dir.stop(reason)

    def await_drain(self, workers: Sequence[Any]) -> None:
        """After an interrupt, wait until the workers' calls in flight have ended; a second interrupt ends it."""
        if self.plan is None or self.run_dir.stop_reason is None:
            return
        deadline = time.monotonic() + self.settings.timeout_s
        try:
            for worker in workers:
                worker.shutdown()
            while self.run_dir.has_live_shards() and time.monotonic() < deadline:
                time.sleep(_POLL_S)
        except KeyboardInterrupt:
            self.run_dir.stop_now()

    def finish(self, exit_status: int) -> int:
        """Write the run directory, rate it, and return the session's exit status."""
        if self.plan is None:
            return Ending(is_usage_error=self._usage_error).status(exit_status)
        self.stop_reason = self.run_dir.stop_reason
        if self.stop_reason is None and exit_status not in (OK, TESTS_FAILED, NOTHING_COLLECTED):
            self.stop_reason = "the session ended early"
        try:
            return self._finish(exit_status) if self._preflight is None else self._finish_unbegun(exit_status)
        except OSError as error:
            self.problem = self._rescued(error)
            self.run_dir.release()
            return self._exit_status(exit_status)
        finally:
            if self._termination is not None:
                self._termination.restore()

    def _finish(self, exit_status: int) -> int:
        # an interrupt may have come while an event was taken in
        is_undisturbed = not self.lost_workers and self.stop_reason is None
        known = self.arrivals.shards_known(self.ledger.lines) if is_undisturbed else ()
        self.run_dir.sweep(self.ledger, known=known)
        if not self.ledger.attempts() and not self.ledger.outcomes() and self.ledger.whole is None:
            self._close_access()
            self._abandon()
            return self._exit_status(exit_status)
        if self.stop_reason is None and self.ledger.adaptive:
            self._judge_what_waits()
        self.run_dir.write(self.ledger)
        write_task_files(self.run_dir.path, self.ledger)
        self._facts["notes"] = sorted({*self._facts["notes"], *self.ledger.notes, *filter(None, [self.ledger.damage])})
        self._facts["expected"] = self.ledger.expected
        self._facts |= {"whole": self.ledger.whole} if self.ledger.whole is not None else {}
        partial = partial_tiers(self.ledger) if self.stop_reason is not None else []
        self._facts |= {"partial": partial} if partial else {}
        self._write_header()
        self._close_access()
        if self.ledger.outcomes() or partial:
            self._rate()
        self.run_dir.finish()
        return self._exit_status(exit_status)

    def _finish_unbegun(self, exit_status: int) -> int:
        """The session ends with the preflight failed, or not yet waited for: by an interrupt, or a bad path."""
        assert self._preflight is not None
        if exit_status != INTERRUPTED:
            self._preflight.wait()
        self.arrivals = Arrivals()
        self.stop_reason = None  # there was nothing to stop
        self._close_access()
        self._abandon()
        return self._exit_status(exit_status)

    def _judge_what_waits(self) -> None:
        from pytest_elo.session.adaptive import judge_what_waits

        assert self.plan is not None
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.write_line(f"\nelo: judging pairs of {', '.join(sorted(self.ledger.adaptive))}")
        try:
            judge_what_waits(self.settings, self.plan, self.run_dir, self.ledger)
        except EloError as error:
            self.problem = error
        except KeyboardInterrupt:
            self.notices.append("the judging was interrupted; --elo-resume goes on with it")

    def _rescued(self, error: OSError) -> EloError:
        """What to tell of a run directory that cannot be written; its rows go where there is room."""
        from pytest_elo.ledger.rundir import rescue

        what = f"{self.run_dir.path} cannot be written ({error.strerror})"
        place = rescue(self.run_dir, self.ledger)
        if place is None:
            return ConfigError(f"{what}, and no other place either; its shards hold what could be kept")
        return ConfigError(
            f"{what}; the ledger stands in {place} instead: make room, copy its files back and go on with --elo-resume"
        )

    def short(self, path: Path) -> str:
        root = self._config.rootpath
        return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)

    def _close_access(self) -> None:
        if self._access is not None:
            self.notices.extend(self._access.close(self.run_dir.responses))

    def _rate(self) -> None:
        from pytest_elo.report.build import build

        try:
            self.report = build(self.run_dir.path)
            if self.stop_reason is None and self.shard is None:  # a part decides nothing: merge judges the gates
                self.report = self._gates.judge(self.report)
        except EloError as error:
            self.problem = error
        if self.report is None:
            return
        from pytest_elo.session.outputs import write_outputs

        png = self._config.getoption("--elo-png")
        self.notices += write_outputs(
            self.report,
            self.run_dir.path,
            with_page=self._config.getini("elo_html"),
            is_whole=self.shard is None,
            elo_json=self.settings.output_elo,
            png=self._invoked_in / png if png else None,
        )

    def _exit_status(self, status: int) -> int:
        from pytest_elo.gates.results import exit_code

        return Ending(
            is_usage_error=self._usage_error,
            had_nothing_to_do=self.plan is not None and bool(self.plan.done or self.ledger.whole),
            problem=OK if self.problem is None else self.problem.exit_code,
            gates=OK if self.report is None else exit_code(self.report.gates),
            is_partial=bool(self._facts.get("partial")),
            is_incomplete=bool(self.arrivals.missing()),
        ).status(status)
