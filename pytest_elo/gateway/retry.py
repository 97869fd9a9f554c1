"""Whether a failed attempt is repeated, and after how long. Pure: no clock, no sleeping, no randomness
but the number it is given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from pytest_elo.gateway.errors import RETRYABLE_KINDS

__all__ = ["RetryPolicy", "retry_after_s"]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter, bounded in number and in time.

    ``delay`` doubles from ``first_delay_s`` up to ``longest_delay_s``, then loses up to a half at random, so
    that workers which failed together do not come back together. A ``Retry-After`` of the gateway is obeyed
    exactly (plus up to a tenth) as long as it fits in the time left. Rate limits are the gateway asking for
    patience, not a failure, so they have a count of their own. So has a gateway that cannot be reached, and it is
    waited for by time: a network that is gone for a minute fails every call, however often each is tried.
    """

    max_attempts: int = 6
    max_rate_limited: int = 20
    first_delay_s: float = 0.5
    longest_delay_s: float = 30.0
    patience_s: float = 0.0
    """Seconds since the gateway was last reached for which calls go on beyond ``max_attempts``, unless that is 1."""
    final_kinds: frozenset[str] = frozenset()
    """Retryable kinds that are not retried all the same."""

    def delay(
        self,
        kind: str,
        *,
        failures: int,
        headers: Mapping[str, str],
        now: float,
        time_left_s: float,
        jitter: float,
        unreached_s: float = math.inf,
    ) -> float | None:
        """Seconds to wait before the next attempt, or ``None`` to stop.

        ``failures`` counts this call's failures of that sort so far (1 after the first); ``now`` is Unix
        time (for HTTP dates), ``jitter`` a number in [0, 1), ``time_left_s`` what the call and the run may
        still use, ``unreached_s`` for how long no connection to the gateway has come about.
        """
        most = self.max_rate_limited if kind == "rate_limit" else self.max_attempts
        if kind not in RETRYABLE_KINDS or kind in self.final_kinds:
            return None
        is_waited_for = kind == "connect" and self.max_attempts > 1 and unreached_s < self.patience_s
        if failures >= most and not is_waited_for:
            return None
        if headers.get("x-should-retry") == "false":
            return None
        asked = retry_after_s(headers, now)
        if asked is not None:
            delay = asked * (1 + jitter / 10)
        else:
            delay = min(self.first_delay_s * 2 ** (failures - 1), self.longest_delay_s) * (1 - jitter / 2)
        return delay if delay < time_left_s else None


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that ``retry-after-ms`` or ``Retry-After`` (seconds or HTTP date) asks for.

    ``None`` when absent, unreadable, negative, zero or in the past: then the own backoff applies.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return _positive(date.timestamp() - now)


def _number(value: str | None) -> float | None:
    try:
        return _positive(float(value)) if value is not None else None
    except ValueError:
        return None


def _positive(value: float) -> float | None:
    return value if value > 0 and math.isfinite(value) else None
