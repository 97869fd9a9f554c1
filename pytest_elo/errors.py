"""The errors a user can cause, each with the exit code it leads to.

A message has three parts in one line: what was wrong and where (file, line or key), and what to do.
"""

from __future__ import annotations

__all__ = ["ConfigError", "DataError", "EloError", "GatewayError", "LimitExceededError", "NotRecordedError"]


class EloError(Exception):
    """Base of every error that is reported as one line instead of a traceback."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(filter(None, map(str.strip, message.splitlines()))))


class ConfigError(EloError):
    """A setting, option, key or address that cannot be used (exit code 4, pytest's usage error)."""

    exit_code = 4


class DataError(EloError):
    """A data file (items, ledger, votes, recordings) that cannot be read as what it claims to be."""

    exit_code = 4


class GatewayError(EloError):
    """A call that ended without a usable reply after all its attempts.

    ``kind`` is the ``error_kind`` of the last attempt; ``status`` is the outcome status it leads to
    (``infra_error``, ``config_error``, ``context_exceeded``, ``filtered``, ...).
    """

    def __init__(self, message: str, *, kind: str, status: str = "infra_error") -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


class NotRecordedError(GatewayError):
    """Replay was asked for a request that was never recorded; nothing is ever invented in its place."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="not_recorded", status="config_error")


class LimitExceededError(GatewayError):
    """A strategy used up what it may spend on one item: the item has no answer, and all others go on."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="limit", status="limit_exceeded")
