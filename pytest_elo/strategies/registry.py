"""Strategies by kind: the built-in ones and a user's own.

A strategy is an async function ``(problem, ask, **parameters) -> Answer | Reply``. Registering it under a
kind makes it usable in ``elo.yaml``: ``mine: {kind: my_kind, rounds: 2}``. ``limits`` is taken by every kind.

A built-in strategy's module may define ``suits(problem, **parameters)``, which raises ``ConfigError`` for
parameters out of range and for a problem that lacks what the strategy needs.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields
from typing import Any

from pytest_elo._text import did_you_mean
from pytest_elo.errors import ConfigError
from pytest_elo.records import Problem
from pytest_elo.strategies.asks import Limits

__all__ = ["StrategyFunction", "check", "check_problem", "find", "models_named", "split_limits", "strategy"]

StrategyFunction = Callable[..., Awaitable[Any]]

BUILT_IN: Mapping[str, str] = {
    kind: f"pytest_elo.strategies.{kind}"
    for kind in ("single", "vote", "reflect", "best_of", "tree", "escalate", "agent", "command", "predictions")
}

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
    try:
        _, parameters = split_limits(parameters)
    except ConfigError as error:
        raise ConfigError(f"strategies.{name}: {error}") from None
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    own = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    for key in parameters:
        if key not in own and not takes_any:
            raise ConfigError(f"strategies.{name}: {kind} takes no {key!r}{did_you_mean(key, own)}")
    for parameter in signature.parameters.values():
        required = parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
        if required and parameter.name not in parameters:
            raise ConfigError(f"strategies.{name}: {kind} needs {parameter.name!r}")


def check_problem(name: str, kind: str, parameters: Mapping[str, Any], problem: Problem) -> None:
    """Refuse a problem that lacks what the strategy needs, before anything is spent."""
    if kind in _registered or kind not in BUILT_IN:
        return
    suits = getattr(importlib.import_module(BUILT_IN[kind]), "suits", None)
    if suits is None:
        return
    try:
        suits(problem, **split_limits(parameters)[1])
    except ConfigError as error:
        raise ConfigError(f"strategies.{name} on {problem.task_id}[{problem.item_id}]: {error}") from None


MODEL_PARAMETERS = ("model", "to", "judge_model", "small_model")
"""Parameters that name a model, in built-in strategies and, by convention, in a user's own."""


def models_named(parameters: Mapping[str, Any]) -> list[str]:
    """Models that a strategy asks besides the run's own: preflight checks them before anything is spent."""
    return [str(parameters[name]) for name in MODEL_PARAMETERS if parameters.get(name) is not None]


def split_limits(parameters: Mapping[str, Any]) -> tuple[Limits, dict[str, Any]]:
    """``limits: {calls: 20, tokens: 8000, seconds: 600}`` and all other parameters."""
    own = dict(parameters)
    given = own.pop("limits", None) or {}
    names = [field.name for field in fields(Limits)]
    if not isinstance(given, Mapping):
        raise ConfigError(f"limits is {given!r}; write limits: {{calls: 20, tokens: 8000, seconds: 600}}")
    for name, value in given.items():
        if name not in names:
            raise ConfigError(f"limits takes no {str(name)!r}{did_you_mean(str(name), names)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ConfigError(f"limits.{name} is {value!r}; give a number above 0")
    return Limits(**given), own
