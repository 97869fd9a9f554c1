"""Whether this machine can put walls around a program: without, what runs model-written code cannot be tested."""

from __future__ import annotations

import pytest

from pytest_elo.errors import ConfigError
from pytest_elo.tasks.swebench.sandbox import choose_sandbox

__all__ = ["needs_walls"]


def _why_not() -> str:
    try:
        choose_sandbox()
    except ConfigError as error:
        return str(error)
    return ""


needs_walls = pytest.mark.skipif(bool(why := _why_not()), reason=why or "there are walls")
