"""pytest-elo: which way of spending test-time compute is worth its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_elo.records import Answer as Answer
    from pytest_elo.strategies.registry import strategy as strategy

__all__ = ["Answer", "strategy"]

_HOMES = {"Answer": "pytest_elo.records", "strategy": "pytest_elo.strategies.registry"}


def __getattr__(name: str) -> Any:
    # Looked up when first used: pytest imports this package at every start, evals or not.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
