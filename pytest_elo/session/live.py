"""The ``ledger`` fixture: what this process has bought so far."""

from __future__ import annotations

from pytest_elo.ledger.fold import Ledger
from pytest_elo.ledger.journal import Journal
from pytest_elo.records import Attempt

__all__ = ["LiveLedger"]


class LiveLedger:
    """A read-only view over this process's own attempts (other workers' reach the controller, not here)."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def attempts(self, *, item_id: str | None = None, strategy: str | None = None) -> list[Attempt]:
        """Rows so far, oldest first, optionally of one item or strategy."""
        ledger = Ledger()
        ledger.add_lines(self._journal.history())
        return [
            row
            for row in sorted(ledger.attempts(), key=lambda row: row.ts)
            if item_id in (None, row.item_id) and strategy in (None, row.strategy)
        ]

    def total_tokens(self, *, item_id: str | None = None, strategy: str | None = None) -> int:
        """Sum of ``total_tokens`` (the low end where a count is an interval)."""
        return sum(row.total_tokens for row in self.attempts(item_id=item_id, strategy=strategy))
