"""Who is asking, and what became of it: the context a request is made in.

``current_tag`` travels with asyncio tasks and threads' contexts, so a request made anywhere below an item
is charged to that item. ``watch_calls`` collects what the requests in its block turned into.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from pytest_elo.records import Attempt, Tag

__all__ = ["UNTAGGED", "CallRecord", "current_calls", "current_tag", "tagged", "watch_calls"]

UNTAGGED = Tag(task_id="(untagged)", item_id="(untagged)", strategy="(untagged)")
"""Who pays for a request made outside any item: shown in the report, charged to no policy of the suite."""

current_tag: ContextVar[Tag | None] = ContextVar("pytest_elo_tag", default=None)


@dataclass(slots=True)
class CallRecord:
    """One call and its closed attempts, in order."""

    call_id: str
    tag: Tag
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def error_kind(self) -> str | None:
        """``error_kind`` of the last attempt; ``None`` when it succeeded or none was made."""
        return self.attempts[-1].error_kind if self.attempts else None


current_calls: ContextVar[list[CallRecord] | None] = ContextVar("pytest_elo_calls", default=None)


@contextmanager
def watch_calls() -> Iterator[list[CallRecord]]:
    """Collect a record of every call started in the block (including those that fail)."""
    calls: list[CallRecord] = []
    token = current_calls.set(calls)
    try:
        yield calls
    finally:
        current_calls.reset(token)


@contextmanager
def tagged(tag: Tag) -> Iterator[None]:
    """Charge every request made in the block to ``tag``."""
    token = current_tag.set(tag)
    try:
        yield
    finally:
        current_tag.reset(token)
