from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_elo.gateway.errors import RETRYABLE_KINDS
from pytest_elo.gateway.retry import RetryPolicy, retry_after_s

NOW = 1_800_000_000.0


def delay(
    kind: str = "rate_limit",
    *,
    failures: int = 1,
    time_left_s: float = 600,
    jitter: float = 0.0,
    **headers: str,
) -> float | None:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return RetryPolicy().delay(kind, failures=failures, headers=names, now=NOW, time_left_s=time_left_s, jitter=jitter)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": formatdate(NOW + 90, usegmt=True)}, 90.0),
        ({"retry-after": formatdate(NOW - 90, usegmt=True)}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_in_seconds_milliseconds_and_as_a_date(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers, NOW) == expected


def test_backoff_doubles_up_to_the_longest() -> None:
    policy = RetryPolicy(max_attempts=9)
    delays = [
        policy.delay("timeout", failures=n, headers={}, now=NOW, time_left_s=600, jitter=0.0) for n in range(1, 10)
    ]
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, None]


def test_a_gateway_that_cannot_be_reached_is_waited_for_by_time() -> None:
    def again(most: int, unreached_s: float, kind: str = "connect") -> float | None:
        policy = RetryPolicy(max_attempts=most, patience_s=60)
        return policy.delay(
            kind, failures=12, headers={}, now=NOW, time_left_s=600, jitter=0.0, unreached_s=unreached_s
        )

    assert again(5, 59.0) == 30.0
    assert again(5, 61.0) is None
    assert again(1, 0.0) is None, "who wants no retry gets none"
    assert again(5, 0.0, kind="reset") is None, "what was sent may have been paid for"


def test_a_long_retry_after_is_obeyed_unless_the_run_ends_first() -> None:
    assert delay(retry_after="300") == 300.0
    assert delay(retry_after="300", time_left_s=299) is None


def test_a_proxy_can_forbid_the_retry() -> None:
    assert delay(x_should_retry="false") is None


@pytest.mark.parametrize(
    "kind",
    ["quota", "auth", "forbidden", "not_found", "bad_request", "context", "content_filter", "model_mismatch"],
)
def test_what_would_end_the_same_way_is_not_repeated(kind: str) -> None:
    assert delay(kind) is None


@given(st.sampled_from(sorted(RETRYABLE_KINDS)), st.integers(1, 5), st.floats(0, 1, exclude_max=True))
def test_jitter_takes_at_most_half(kind: str, failures: int, jitter: float) -> None:
    longest = delay(kind, failures=failures)
    jittered = delay(kind, failures=failures, jitter=jitter)
    assert longest is not None
    assert jittered is not None
    assert longest / 2 <= jittered <= longest
