"""A lease: the throwaway token of one item's program, who pays for it, and how much it may spend."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from pytest_elo.gateway.context import CallRecord
from pytest_elo.records import Tag

__all__ = ["OVERHEAD_MARK", "PREFIX", "Admission", "Allowance", "Lease"]

PREFIX = "elo-"
OVERHEAD_MARK = ":overhead"
"""Ending of a model's name by which a program marks its background calls; it is not sent on."""

_OVERHEAD_APIS = frozenset({"other", "count_tokens"})

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a program may spend; ``None`` for no limit. A call in flight when a limit is met is finished and charged."""

    calls: int | None = None
    tokens: int | None = None
    """Prompt and completion tokens of all attempts."""
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Whether the run lets another call be made: asked before each."""

    may_go_on: Callable[[], bool] = lambda: True
    room: Callable[[], AbstractContextManager[None] | None] = nullcontext
    """Room in the run's budget, held until the attempt has its row; ``None``: not yet."""


@dataclass(slots=True)
class Lease:
    """Made by ``Proxy.lease``. Its calls, as far as they have ended, are in ``calls``."""

    tag: Tag
    model: str
    """The program's main model; calls to any other are its overhead."""
    allowance: Allowance
    admission: Admission
    calls: list[CallRecord]
    """A record of every call, those that failed included."""
    token: str = field(default_factory=lambda: PREFIX + secrets.token_urlsafe(24), repr=False)
    takes_labels: bool = False
    """Whether task, item and strategy may stand in the path (a proxy that runs alone)."""
    refused: str | None = None
    """Which limit the program met, in words."""
    was_stopped: bool = False
    """Whether a call was refused because the run is stopping: what the program did after that says nothing."""
    failure: CallRecord | None = None
    """The first call of the main model that no further call could have mended (key, address, model, quota)."""
    is_over: bool = False
    _started: float = field(default_factory=time.monotonic)
    _n_calls: int = 0
    _to_retry: dict[bytes, list[tuple[CallRecord, Key | None]]] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """What has been spent so far: the low end where it is not known."""
        return sum(row.total_tokens for call in self.calls for row in call.attempts)

    def environment(self, origin: str) -> dict[str, str]:
        """What a program needs to find the proxy at ``origin``; the token is in the addresses too.

        OpenAI's clients take a base URL with ``/v1``, Anthropic's append it.
        """
        return {
            "OPENAI_BASE_URL": f"{origin}/{self.token}/v1",
            "OPENAI_API_KEY": self.token,
            "ANTHROPIC_BASE_URL": f"{origin}/{self.token}",
            "ANTHROPIC_AUTH_TOKEN": self.token,
        }

    def refusal(self) -> str | None:
        """Why no further call is forwarded, if so."""
        allowance = self.allowance
        if allowance.calls is not None and self._n_calls >= allowance.calls:
            self.refused = f"its limit of {allowance.calls} calls an item"
        elif allowance.tokens is not None and self.tokens >= allowance.tokens:
            self.refused = f"its limit of {allowance.tokens:,} tokens an item"
        elif allowance.seconds is not None and time.monotonic() - self._started >= allowance.seconds:
            self.refused = f"its limit of {allowance.seconds:g} s an item"
        return self.refused

    def charged(self, api: str, model: str, labels: Mapping[str, str]) -> Tag:
        """Who pays for a call to ``model``; counts it."""
        self._n_calls += api not in _OVERHEAD_APIS
        tag = self.tag
        if labels:
            tag = replace(tag, task_id=labels["task_id"], item_id=labels["item_id"], strategy=labels["strategy"])
        is_overhead = api in _OVERHEAD_APIS or model.endswith(OVERHEAD_MARK) or bool(self.model and model != self.model)
        return replace(tag, role="overhead") if is_overhead else tag

    def retried(self, content: bytes) -> tuple[CallRecord, Key | None] | None:
        """The failed call that a client sends again, by its equal content."""
        waiting = self._to_retry.get(hashlib.sha256(content).digest())
        return waiting.pop(0) if waiting else None

    def failed(self, content: bytes, record: CallRecord, key: Key | None) -> None:
        """Remember a call that its client may send again."""
        self._to_retry.setdefault(hashlib.sha256(content).digest(), []).append((record, key))
