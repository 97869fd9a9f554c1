"""What all calls of a gateway in one process share, and where a request is looked up before it is made."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_elo.gateway.context import CallRecord, current_calls
from pytest_elo.gateway.limits import SharedLimits
from pytest_elo.gateway.meter import Meter
from pytest_elo.gateway.negotiate import Negotiator
from pytest_elo.gateway.recorded import Recorded
from pytest_elo.gateway.recordings import Recordings, request_key
from pytest_elo.gateway.replaying import not_recorded, replayed_rows
from pytest_elo.gateway.retry import RetryPolicy
from pytest_elo.records import Tag

__all__ = ["Rules", "key_of", "lookup", "replay_call"]


@dataclass(slots=True, kw_only=True)
class Rules:
    """What all calls of a gateway in one process have in common."""

    meter: Meter
    limits: SharedLimits
    negotiator: Negotiator
    retry: RetryPolicy
    host: str
    secret: str = field(repr=False, default="")
    source: str = "live"
    call_budget_s: float = 900.0
    """Seconds that one call may take with all its attempts."""
    time_left_s: Callable[[], float] = lambda: float("inf")
    """Seconds that the run may still take."""
    allowed_models: frozenset[str] = frozenset()
    """Names besides the requested one under which an answer is accepted; ``*`` accepts any."""
    recordings: Recordings | None = None
    _unreachable_since: float | None = None

    def heard(self, kind: str | None) -> None:
        """An attempt ended with an error kind, or well."""
        if kind != "connect":
            self._unreachable_since = None
        elif self._unreachable_since is None:
            self._unreachable_since = time.monotonic()

    @property
    def unreached_s(self) -> float:
        """Seconds since the first of the attempts in a row that brought no connection about; 0 without any."""
        return 0.0 if self._unreachable_since is None else time.monotonic() - self._unreachable_since


def key_of(rules: Rules, tag: Tag, api: str, body: Mapping[str, Any]) -> tuple[str, int] | None:
    """(request key, occurrence) of a request under the recordings of ``rules``; ``None`` without any."""
    if rules.recordings is None or not body.get("model"):
        return None
    key = request_key(api, body)
    return key, rules.recordings.occurrence(tag, key)


def lookup(rules: Rules, tag: Tag, api: str, body: Mapping[str, Any], key: tuple[str, int] | None) -> Recorded | None:
    """The recording that answers a request, if any may and one does; raises ``NotRecordedError`` in replay."""
    recordings = rules.recordings
    if recordings is None:
        return None
    found = None if key is None else recordings.find(tag, *key)
    # streams are made again of chat completions only
    if found is not None and (api == "chat" or not body.get("stream")):
        return found
    if recordings.replays:
        raise not_recorded(tag, str(body.get("model") or ""), "none" if key is None else key[0])
    return None


def replay_call(rules: Rules, recorded: Recorded, tag: Tag, model: str) -> CallRecord:
    """Put a recorded call on the ledger of this run; returns its record."""
    recordings, run_id = rules.recordings, rules.meter.run_id
    assert recordings is not None
    call = CallRecord(call_id=recordings.call_id(tag, recorded, run_id), tag=tag)
    watchers = current_calls.get()
    if watchers is not None:
        watchers.append(call)
    meter = rules.meter
    for row in replayed_rows(recorded, tag, call_id=call.call_id, run_id=meter.run_id, ts=meter.now(), model=model):
        meter.replayed(call, row)
    return call
