"""Typed settings: where they come from, in one precedence, and the condition they make.

Precedence, decided in ``load`` and nowhere else: command-line option > environment > pyproject/ini >
``elo.yaml`` > ``config.toml`` > ``settings.json`` > default. Unknown keys are errors with a suggestion.
Relative paths in a file are relative to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_elo._text import did_you_mean, text_hash
from pytest_elo.config_files import Document, merged, read_document
from pytest_elo.config_gates import GateSettings, check_gates, gates_of
from pytest_elo.config_strategies import (
    DEFAULT_STRATEGIES,
    StrategySpec,
    check_task_strategies,
    ladders_of,
    strategies_of,
)
from pytest_elo.errors import ConfigError

__all__ = [
    "DEFAULT_BASE_URL",
    "Overrides",
    "Price",
    "RatingSettings",
    "Settings",
    "StrategySpec",
    "fingerprint",
    "load",
]

DEFAULT_BASE_URL = "https://taotoken.net/api"
DEFAULT_KEY_VARIABLE = "TAOTOKEN_API_KEY"


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in USD per million tokens."""

    prompt: float
    completion: float
    cached: float | None = None
    """Prompt tokens read from the provider's cache; ``None``: as other prompt tokens."""


@dataclass(frozen=True, slots=True)
class RatingSettings:
    """How outcomes become Elo; see ``docs/statistics.md``."""

    ties: str = "half"
    route: str = "anchored"
    interval: str = "cr1"
    level: float = 0.95
    rounds: int = 1000
    worth_elo_per_1k: float = 5.0
    missing_anchor: str = "error"
    online_k: float | None = None
    """K of the online Elo view, a further table; ``None``: there is none. No rating depends on it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a run was told, after precedence; immutable and the same in every process."""

    path: Path | None = None
    """The highest of ``paths``; names the settings in errors."""
    paths: tuple[Path, ...] = ()
    base_url: str = DEFAULT_BASE_URL
    base_url_from: str = "default"
    key_variable: str = DEFAULT_KEY_VARIABLE
    gateway_configured: bool = False
    """Whether an address was chosen explicitly; then a missing key is an error, not a reason to replay."""
    timeout_s: float = 120.0
    max_retries: int = 4
    patience_s: float = 120.0
    """Seconds that a gateway which cannot be reached any more is waited for."""
    allow_model_substitution: bool = False
    model: str | None = None
    models: Mapping[str, Any] = field(default_factory=dict)
    """Further models by role: ``judge``, ``baseline``, or the name of a task."""
    temperature: float | None = None
    """Of calls whose strategy names none."""
    seed: int = 0
    repeats: int = 1
    max_tokens: int | None = None
    anchor: str = "baseline"
    strategies: tuple[StrategySpec, ...] = DEFAULT_STRATEGIES
    ladders: tuple[tuple[str, ...], ...] = ()
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    kind_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options for all tasks of a kind, above the tasks' own: those of the command line."""
    recordings: Path | None = None
    rating: RatingSettings = field(default_factory=RatingSettings)
    gates: GateSettings = field(default_factory=GateSettings)
    concurrency: int = 64
    limit: int | None = None
    strict: bool = False
    token_budget: int | None = None
    usd_budget: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By model."""
    prices_date: str | None = None
    output_elo: Path | None = None
    """Where a copy of ``elo.json`` goes besides the run directory."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each setting that is no default comes from, by its key in ``elo.yaml`` or its option."""

    def strategy(self, name: str) -> StrategySpec:
        return next(spec for spec in self.strategies if spec.name == name)

    def strategies_of(self, task_id: str) -> tuple[StrategySpec, ...]:
        """Those that a task's items run under: all, or what its ``strategies`` names of the selected ones."""
        named = self.tasks.get(task_id, {}).get("strategies")
        return tuple(spec for spec in self.strategies if named is None or spec.name in named)

    def why_unanchored(self, task_id: str) -> str | None:
        """Why a task cannot be aligned with the others; ``None`` if it can, or is to be dropped from the ratings."""
        named = self.tasks.get(task_id, {}).get("strategies")
        if named is None or self.anchor in named or self.rating.missing_anchor == "drop":
            return None
        return (
            f"{self.path or 'settings'}: tasks.{task_id}.strategies lacks the anchor {self.anchor!r}, on which tasks "
            "are aligned; add it, or set rating.missing_anchor to drop"
        )


@dataclass(frozen=True, slots=True)
class Overrides:
    """What stands above all files: values from options, environment and ini, already in that order."""

    values: Mapping[str, Any] = field(default_factory=dict)
    strategies: tuple[str, ...] | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    gates: tuple[tuple[str, str], ...] = ()
    """(text, where it stands): added to those of the files"""
    missing_anchor: str | None = None


def fingerprint(*parts: object) -> str:
    """SHA-256 (hex) of the parts' canonical JSON; equal settings give equal text in every process."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return text_hash(text).hexdigest()


def load(paths: Path | Sequence[Path] | None, overrides: Overrides | None = None) -> Settings:
    """Read the files (or take the defaults), apply the overrides, check what can be checked without I/O.

    Raises ``ConfigError`` naming the file and key.
    """
    overrides = overrides or Overrides()
    files = [paths] if isinstance(paths, Path) else list(paths or ())
    document = merged([_known_keys(read_document(path)) for path in files])
    settings = _from_document(document) if files else Settings()
    origins = {key: str(path) for key, path in document.origins.items()} | dict(overrides.origins)
    settings = replace(settings, **dict(overrides.values), origins=origins)
    if overrides.gates:
        settings = replace(settings, gates=replace(settings.gates, rules=settings.gates.rules + overrides.gates))
    if overrides.missing_anchor is not None:
        settings = replace(settings, rating=replace(settings.rating, missing_anchor=overrides.missing_anchor))
    declared = [spec.name for spec in settings.strategies]
    settings = _select_strategies(settings, overrides.strategies)
    _check(settings, declared)
    return replace(settings, strategies=tuple(_with_temperature(spec, settings) for spec in settings.strategies))


def _with_temperature(spec: StrategySpec, settings: Settings) -> StrategySpec:
    """The general ``temperature`` is that of single calls; copies of one answer would be no vote."""
    is_named = "temperature" in spec.parameters and spec not in DEFAULT_STRATEGIES
    if settings.temperature is None or spec.kind != "single" or is_named:
        return spec
    return replace(spec, parameters={**spec.parameters, "temperature": settings.temperature})


_PLAIN = ("model", "temperature", "seed", "repeats", "max_tokens", "concurrency", "token_budget", "usd_budget")
_TOP = {
    *_PLAIN,
    "gateway",
    "models",
    "anchor",
    "strategies",
    "ladders",
    "tasks",
    "recordings",
    "rating",
    "gates",
    "prices",
    "output_elo",
}
_GATEWAY = {"base_url", "api_key_env", "timeout_s", "max_retries", "patience_s", "allow_model_substitution"}
_RATING = set(RatingSettings.__dataclass_fields__)


def _known_keys(document: Document) -> Document:
    """Each file is checked by itself, so that an error names the file it is in."""
    where = str(document.paths[0])
    _known(document.values, _TOP, where)
    _known(_section(document.values, "gateway", where), _GATEWAY, f"{where}: gateway")
    _known(_section(document.values, "rating", where), _RATING, f"{where}: rating")
    _tasks(document.values.get("tasks"), where)
    _prices(document.values.get("prices"), where)
    check_gates(document.values.get("gates"), document.paths[0])
    return document


def _from_document(document: Document) -> Settings:
    found, path = document.values, document.paths[0]
    where = str(path)
    gateway = _section(found, "gateway", where)
    strategies = strategies_of(found.get("strategies"), where)
    values: dict[str, Any] = {
        "path": path,
        "paths": document.paths,
        "rating": RatingSettings(**_section(found, "rating", where)),
    }
    if "base_url" in gateway:
        origin = str(document.origins["gateway.base_url"])
        values |= {"base_url": gateway["base_url"], "base_url_from": origin, "gateway_configured": True}
    if "api_key_env" in gateway:
        values["key_variable"] = gateway["api_key_env"]
    for key in ("timeout_s", "max_retries", "patience_s", "allow_model_substitution"):
        if key in gateway:
            values[key] = gateway[key]
    for key in _PLAIN:
        if found.get(key) is not None:
            values[key] = found[key]
    if strategies:
        values["strategies"] = strategies
        values["anchor"] = found.get("anchor") or strategies[0].name
    elif "anchor" in found:
        values["anchor"] = found["anchor"]
    names = [spec.name for spec in values.get("strategies", DEFAULT_STRATEGIES)]
    values["ladders"] = ladders_of(found.get("ladders"), names, where)
    values["tasks"] = _tasks(found.get("tasks"), where)
    check_task_strategies(values["tasks"], names, where)
    values["models"] = _section(found, "models", where)
    values["prices"], values["prices_date"] = _prices(found.get("prices"), where)
    gates_from = next((file for key, file in document.origins.items() if key.split(".")[0] == "gates"), path)
    values["gates"] = gates_of(found.get("gates"), gates_from)
    for key in ("recordings", "output_elo"):
        if found.get(key):
            values[key] = Path(str(found[key]))
    return Settings(**values)


def _prices(value: object, where: str) -> tuple[dict[str, Price], str | None]:
    """``{date: 2026-01-31, models: {name: {prompt: 5, completion: 25}}}``: prices change, so they carry a date."""
    if value is None:
        return {}, None
    form = "{date: <when they were read>, models: {<name>: {prompt: <USD per million>, completion: <the same>}}}"
    models = value.get("models") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(models, dict) or "date" not in value:
        raise ConfigError(f"{where}: prices must be {form}")
    _known(value, ("date", "models"), f"{where}: prices")
    found: dict[str, Price] = {}
    for name, price in models.items():
        place = f"{where}: prices.models.{name}"
        if not isinstance(price, dict):
            raise ConfigError(f"{place} is {price!r}; give {{prompt: <USD per million tokens>, completion: ...}}")
        _known(price, Price.__dataclass_fields__, place)
        for key in ("prompt", "completion", *(["cached"] if "cached" in price else [])):
            if not _is_number(price.get(key)) or price[key] < 0:
                raise ConfigError(f"{place}: {key} is {price.get(key)!r}; give USD per million tokens")
        found[str(name)] = Price(**price)
    return found, str(value["date"])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _known(section: Mapping[Any, Any], known: Iterable[str], where: str) -> None:
    names = set(known)
    for key in section:
        if key not in names:
            raise ConfigError(f"{where}: unknown key {str(key)!r}{did_you_mean(str(key), names)}")


def _section(document: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: {name} must be a mapping, not {value!r}")
    return value


def _tasks(value: object, where: str) -> dict[str, dict[str, Any]]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(body, dict) for body in value.values()):
        raise ConfigError(f"{where}: tasks must map task names to their options, such as {{gpqa: {{few_shot: 1}}}}")
    return value


def _select_strategies(settings: Settings, names: tuple[str, ...] | None) -> Settings:
    if names is None:
        return settings
    declared = [spec.name for spec in settings.strategies]
    for name in names:
        if name not in declared:
            raise ConfigError(f"--elo-strategies: no strategy is named {name!r}{did_you_mean(name, declared)}")
    kept = tuple(spec for spec in settings.strategies if spec.name in names)
    return replace(settings, strategies=kept)


_CHOICES = {
    "ties": ("half", "davidson", "drop"),
    "route": ("anchored", "pooled", "hierarchical"),
    "interval": ("cr1", "percentile", "bca"),
    "missing_anchor": ("error", "drop"),
}


def _check(settings: Settings, declared: list[str]) -> None:
    where = str(settings.path or "settings")
    if settings.anchor not in declared:
        raise ConfigError(
            f"{where}: the anchor {settings.anchor!r} is no strategy{did_you_mean(str(settings.anchor), declared)}"
        )
    for name, choices in _CHOICES.items():
        value = getattr(settings.rating, name)
        if value not in choices:
            raise ConfigError(f"{where}: rating.{name} is {value!r}; choose one of {', '.join(choices)}")
    for name, low in (("seed", 0), ("repeats", 1), ("concurrency", 1), ("max_retries", 0)):
        value = getattr(settings, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise ConfigError(f"{where}: {name} is {value!r}; give a whole number of at least {low}")
    for name, low in (("token_budget", 1), ("max_tokens", 1)):
        value = getattr(settings, name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < low):
            raise ConfigError(f"{where}: {name} is {value!r}; give a whole number of at least {low}")
    for name, value in (("usd_budget", settings.usd_budget), ("rating.online_k", settings.rating.online_k)):
        if value is not None and (not _is_number(value) or value <= 0):
            raise ConfigError(f"{where}: {name} is {value!r}; give a number above 0")
    if settings.usd_budget is not None and not settings.prices:
        raise ConfigError(f"{where}: usd_budget needs prices: {{date: ..., models: {{<name>: {{prompt: ...}}}}}}")
    if settings.temperature is not None and not (_is_number(settings.temperature) and settings.temperature >= 0):
        raise ConfigError(f"{where}: temperature is {settings.temperature!r}; give a number of at least 0")
    if not isinstance(settings.rating.level, float) or not 0.5 < settings.rating.level < 1:
        raise ConfigError(f"{where}: rating.level is {settings.rating.level!r}; give a share such as 0.95")
    if not _is_number(settings.timeout_s) or not 0 < settings.timeout_s < 1e9:
        raise ConfigError(f"{where}: gateway.timeout_s is {settings.timeout_s!r}; give seconds above 0")
    if not _is_number(settings.patience_s) or not 0 <= settings.patience_s < 1e9:
        raise ConfigError(f"{where}: gateway.patience_s is {settings.patience_s!r}; give seconds of at least 0")
    if not isinstance(settings.base_url, str):
        raise ConfigError(f"{where}: gateway.base_url is {settings.base_url!r}; give an address as text")
