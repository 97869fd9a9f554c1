"""The session's exit status: pytest's own, unless the run says otherwise."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["INTERRUPTED", "NOTHING_COLLECTED", "OK", "TESTS_FAILED", "USAGE_ERROR", "Ending"]

OK, TESTS_FAILED, INTERRUPTED, USAGE_ERROR, NOTHING_COLLECTED = 0, 1, 2, 4, 5
"""pytest's exit codes that mean something here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What a run came to, as far as it decides the exit status."""

    is_usage_error: bool
    had_nothing_to_do: bool = False
    """Nothing was missing of a resumed run, or all items are other shards'."""
    problem: int = OK
    """The exit code of what kept the run from being rated."""
    gates: int = OK
    is_partial: bool = False
    is_incomplete: bool = False
    """An item came to no end."""

    def status(self, status: int) -> int:
        """The session's exit status where pytest's is ``status``."""
        if self.is_usage_error and status in (OK, TESTS_FAILED, INTERRUPTED):
            return USAGE_ERROR
        if status == NOTHING_COLLECTED and self.had_nothing_to_do:
            status = OK
        if status not in (OK, TESTS_FAILED):
            return status
        if self.problem or self.gates:
            return self.problem or self.gates
        if status == OK and self.is_partial:
            return INTERRUPTED  # stopped during its last item, which pytest saw as skipped
        return TESTS_FAILED if self.is_incomplete else status
