"""The error of this room: the harness failed, not the patch."""

from __future__ import annotations

from pytest_elo.errors import EloError

__all__ = ["RunnerError"]


class RunnerError(EloError):
    """No verdict is possible through no doing of a patch; the outcome is an ``infra_error``."""
