"""pytest-elo: which way of spending test-time compute is worth its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_elo.records import Answer as Answer
    from pytest_elo.strategies.registry import strategy as strategy
    from pytest_elo.tasks.own import from_items as own_task

__all__ = ["Answer", "own_task", "strategy"]

_HOMES = {
    "Answer": ("pytest_elo.records", "Answer"),
    "own_task": ("pytest_elo.tasks.own", "from_items"),
    "strategy": ("pytest_elo.strategies.registry", "strategy"),
}


def __getattr__(name: str) -> Any:
    # Looked up when first used: pytest imports this package at every start, evals or not.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module, member = _HOMES[name]
    return getattr(importlib.import_module(module), member)
