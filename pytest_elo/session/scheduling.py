"""An xdist scheduler that keeps every worker's queue as deep as its share of the calls in flight.

xdist's ``load`` scheduler lets queues shrink to two items, which bounds look-ahead to two. This one tops
each worker up to ``concurrency / workers`` items, and no further, so that the tail stays balanced.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest
from xdist.scheduler import LoadScheduling
from xdist.workermanage import WorkerController

__all__ = ["WindowScheduling"]

MIN_QUEUE = 2
"""A worker must hold a next item to know its ``nextitem``; xdist's own minimum."""


class WindowScheduling(LoadScheduling):  # type: ignore[misc]  # xdist ships no types
    """``load`` with a fixed window of queued items a worker. ``--maxschedchunk`` still caps one sending."""

    def __init__(self, config: pytest.Config, log: Any, concurrency: int) -> None:
        super().__init__(config, log)
        self.maxschedchunk: int | None = config.getoption("maxschedchunk")
        self._concurrency = concurrency

    def schedule(self) -> None:
        if self.collection is None:
            # the first sending is a quarter of everything; no worker needs more than its window
            window = max(MIN_QUEUE, self._concurrency // max(1, len(self.nodes)))
            self.maxschedchunk = window if self.maxschedchunk is None else min(window, self.maxschedchunk)
        super().schedule()

    def check_schedule(self, node: WorkerController, duration: float = 0) -> None:
        if node.shutting_down:
            return
        queued = len(self.node2pending[node])
        window = max(MIN_QUEUE, self._concurrency // len(self.nodes))
        fair = ceil(len(self.pending) / len(self.nodes))
        wanted = min(window - queued, max(MIN_QUEUE - queued, min(fair, self.maxschedchunk or fair)))
        if self.pending and wanted > 0:
            self._send_tests(node, wanted)
        if not self.pending:
            node.shutdown()
