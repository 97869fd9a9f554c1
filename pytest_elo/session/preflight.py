"""The preflight of a live run, asked while pytest starts its workers and collects."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from pytest_elo.errors import EloError
from pytest_elo.ledger.journal import Journal
from pytest_elo.ledger.rundir import RunDir

if TYPE_CHECKING:
    from pytest_elo.session.access import Access

__all__ = ["Preflight"]


class Preflight:
    """``Access.check`` in a thread of its own, begun at once; its attempts go to the controller's shard."""

    def __init__(self, access: Access, run_dir: RunDir) -> None:
        self._access = access
        self._journal = Journal(run_dir.shards / "controller.jsonl", run_dir.path.name)
        self._found: Future[str] = Future()
        # A second interrupt must end the process, whatever the gateway does.
        threading.Thread(target=self._ask, name="pytest-elo preflight", daemon=True).start()

    def _ask(self) -> None:
        try:
            found = self._access.check(self._journal, self._journal.run_id)
        except BaseException as error:
            self._journal.shut()
            self._found.set_exception(error)
        else:
            self._journal.shut()
            self._found.set_result(found)

    def result(self) -> str:
        """What ``Plan.checked`` takes, once all models have answered. Raises ``ConfigError`` when one has not."""
        return self._found.result()

    def wait(self) -> None:
        """Let the attempt in flight end: it is paid for, and its row says for what."""
        with contextlib.suppress(EloError):
            self._found.result()
