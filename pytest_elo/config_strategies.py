"""The ``strategies`` of ``elo.yaml``, and what names them: ladders, and the strategies of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_elo._text import did_you_mean
from pytest_elo.errors import ConfigError

__all__ = ["DEFAULT_STRATEGIES", "StrategySpec", "check_task_strategies", "ladders_of", "strategies_of"]


@dataclass(frozen=True, slots=True)
class StrategySpec:
    """A strategy as declared: its name in tables and ids, its kind, and the kind's parameters."""

    name: str
    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


DEFAULT_STRATEGIES = (
    StrategySpec("baseline", "single", {"temperature": 0.0}),
    StrategySpec("r3", "vote", {"n": 3, "temperature": 0.8}),
    StrategySpec("r5", "vote", {"n": 5, "temperature": 0.8}),
)


def strategies_of(value: object, where: str) -> tuple[StrategySpec, ...]:
    if value is None:
        return ()
    if not isinstance(value, dict) or not value:
        raise ConfigError(f"{where}: strategies must map names to {{kind: ..., ...}}")
    specs = []
    for name, body in value.items():
        if not _is_name(name):
            raise ConfigError(f"{where}: strategies: {name!r} is not a usable name; use letters, digits, _ and .")
        if not isinstance(body, dict) or "kind" not in body:
            raise ConfigError(f"{where}: strategies.{name}: needs a mapping with a 'kind', such as {{kind: single}}")
        parameters = {key: item for key, item in body.items() if key != "kind"}
        specs.append(StrategySpec(name, str(body["kind"]), parameters))
    return tuple(specs)


def _is_name(name: object) -> bool:
    # "-" separates the item from the strategy in test ids, so a strategy's name cannot hold one.
    return isinstance(name, str) and name.isascii() and bool(name) and name.replace("_", "").replace(".", "").isalnum()


def ladders_of(value: object, names: list[str], where: str) -> tuple[tuple[str, ...], ...]:
    if value is None:
        return (tuple(names),) if len(names) > 1 else ()
    if not isinstance(value, list) or not all(isinstance(ladder, list) for ladder in value):
        raise ConfigError(f"{where}: ladders must be a list of lists of strategy names, such as [[baseline, r3, r5]]")
    for ladder in value:
        for name in ladder:
            if name not in names:
                raise ConfigError(f"{where}: ladders: no strategy is named {name!r}{did_you_mean(str(name), names)}")
    return tuple(tuple(ladder) for ladder in value)


def check_task_strategies(tasks: Mapping[str, Mapping[str, Any]], names: list[str], where: str) -> None:
    for task, options in tasks.items():
        chosen = options.get("strategies")
        if chosen is None:
            continue
        place = f"{where}: tasks.{task}.strategies"
        if not isinstance(chosen, list) or not chosen:
            raise ConfigError(f"{place} is {chosen!r}; give a list of strategy names, such as [baseline, r3]")
        for name in chosen:
            if name not in names:
                raise ConfigError(f"{place}: no strategy is named {name!r}{did_you_mean(str(name), names)}")
