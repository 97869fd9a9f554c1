"""Strategies by kind: the built-in ones and a user's own.

A strategy is an async function ``(problem, ask, **parameters) -> Answer | Reply``. Registering it under a
kind makes it usable in ``elo.yaml``: ``mine: {kind: my_kind, rounds: 2}``.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pytest_elo._text import did_you_mean
from pytest_elo.errors import ConfigError

__all__ = ["StrategyFunction", "check", "find", "strategy"]

StrategyFunction = Callable[..., Awaitable[Any]]

BUILT_IN: Mapping[str, str] = {"single": "pytest_elo.strategies.single", "vote": "pytest_elo.strategies.vote"}

_registered: dict[str, StrategyFunction] = {}


def strategy(kind: str) -> Callable[[StrategyFunction], StrategyFunction]:
    """Register an async function ``(problem, ask, **parameters)`` under ``kind``.

    Raises ``ConfigError`` when the function is not async or the kind is taken by another function.
    """

    def register(function: StrategyFunction) -> StrategyFunction:
        if not inspect.iscoroutinefunction(function):
            raise ConfigError(f"strategy {kind!r}: {function.__qualname__} must be an async function (problem, ask)")
        known = _registered.get(kind)
        if kind in BUILT_IN or (known and known.__qualname__ != function.__qualname__):
            raise ConfigError(f"strategy {kind!r} exists already; choose another name for {function.__qualname__}")
        _registered[kind] = function
        return function

    return register


def find(kind: str) -> StrategyFunction:
    """The function of a kind; raises ``ConfigError`` with the closest known kinds."""
    if kind in _registered:
        return _registered[kind]
    if kind not in BUILT_IN:
        known = [*BUILT_IN, *_registered]
        raise ConfigError(
            f"no strategy kind {kind!r}{did_you_mean(kind, known)}; your own needs @pytest_elo.strategy({kind!r}) "
            "in a module that is imported before the items are collected, such as conftest.py"
        )
    module = importlib.import_module(BUILT_IN[kind])
    return getattr(module, kind)  # type: ignore[no-any-return]


def check(name: str, kind: str, parameters: Mapping[str, Any]) -> None:
    """Refuse parameters that the strategy does not take, before anything is spent."""
    signature = inspect.signature(find(kind))
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    own = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    for key in parameters:
        if key not in own and not takes_any:
            raise ConfigError(f"strategies.{name}: {kind} takes no {key!r}{did_you_mean(key, own)}")
    for parameter in signature.parameters.values():
        required = parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
        if required and parameter.name not in parameters:
            raise ConfigError(f"strategies.{name}: {kind} needs {parameter.name!r}")
