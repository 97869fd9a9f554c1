"""Typed settings: where they come from, in one precedence, and the condition they make.

Precedence, decided in ``load`` and nowhere else: command-line option > environment > pyproject/ini >
``elo.yaml``. Unknown keys are errors with a suggestion. Relative paths in ``elo.yaml`` are relative to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_elo._text import did_you_mean
from pytest_elo.errors import ConfigError

__all__ = [
    "DEFAULT_BASE_URL",
    "GateSettings",
    "Overrides",
    "RatingSettings",
    "Settings",
    "StrategySpec",
    "fingerprint",
    "load",
]

DEFAULT_BASE_URL = "https://taotoken.net/api"
DEFAULT_KEY_VARIABLE = "TAOTOKEN_API_KEY"


@dataclass(frozen=True, slots=True)
class StrategySpec:
    """A strategy as declared: its name in tables and ids, its kind, and the kind's parameters."""

    name: str
    kind: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


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


@dataclass(frozen=True, slots=True)
class GateSettings:
    """Conditions on a run that decide the exit code; ``docs/gates.md`` describes their language."""

    rules: tuple[tuple[str, str], ...] = ()
    """(text, where it stands), in order"""
    strict: bool = False
    """an inconclusive gate breaks the build"""
    allow: tuple[str, ...] = ()
    """what may differ from a stored run: model, endpoint, seed, grading; and self_judging"""
    baselines: Path | None = None
    """folder of the stored runs"""


DEFAULT_STRATEGIES = (
    StrategySpec("baseline", "single", {"temperature": 0.0}),
    StrategySpec("r3", "vote", {"n": 3, "temperature": 0.8}),
    StrategySpec("r5", "vote", {"n": 5, "temperature": 0.8}),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a run was told, after precedence; immutable and the same in every process."""

    path: Path | None = None
    base_url: str = DEFAULT_BASE_URL
    base_url_from: str = "default"
    key_variable: str = DEFAULT_KEY_VARIABLE
    gateway_configured: bool = False
    """Whether an address was chosen explicitly; then a missing key is an error, not a reason to replay."""
    timeout_s: float = 120.0
    max_retries: int = 4
    allow_model_substitution: bool = False
    model: str | None = None
    seed: int = 0
    repeats: int = 1
    max_tokens: int | None = None
    anchor: str = "baseline"
    strategies: tuple[StrategySpec, ...] = DEFAULT_STRATEGIES
    ladders: tuple[tuple[str, ...], ...] = ()
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    recordings: Path | None = None
    rating: RatingSettings = field(default_factory=RatingSettings)
    gates: GateSettings = field(default_factory=GateSettings)
    concurrency: int = 64
    limit: int | None = None
    strict: bool = False

    def strategy(self, name: str) -> StrategySpec:
        return next(spec for spec in self.strategies if spec.name == name)


@dataclass(frozen=True, slots=True)
class Overrides:
    """What stands above ``elo.yaml``: values from options, environment and ini, already in that order."""

    values: Mapping[str, Any] = field(default_factory=dict)
    strategies: tuple[str, ...] | None = None
    gates: tuple[tuple[str, str], ...] = ()
    """(text, where it stands): added to those of ``elo.yaml``"""


def fingerprint(*parts: object) -> str:
    """SHA-256 (hex) of the parts' canonical JSON; equal settings give equal text in every process."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def load(path: Path | None, overrides: Overrides | None = None) -> Settings:
    """Read ``elo.yaml`` (or take the defaults), apply the overrides, check what can be checked without I/O.

    Raises ``ConfigError`` naming the file and key.
    """
    overrides = overrides or Overrides()
    settings = Settings() if path is None else _from_yaml(path)
    settings = replace(settings, **dict(overrides.values))
    if overrides.gates:
        settings = replace(settings, gates=replace(settings.gates, rules=settings.gates.rules + overrides.gates))
    declared = [spec.name for spec in settings.strategies]
    settings = _select_strategies(settings, overrides.strategies)
    _check(settings, declared)
    return settings


_TOP = {
    "gateway",
    "model",
    "seed",
    "repeats",
    "max_tokens",
    "anchor",
    "strategies",
    "ladders",
    "tasks",
    "recordings",
    "rating",
    "gates",
    "concurrency",
}
_GATEWAY = {"base_url", "api_key_env", "timeout_s", "max_retries", "allow_model_substitution"}
_RATING = set(RatingSettings.__dataclass_fields__)
_GATES = {"rules", "strict", "allow", "baselines"}
_ALLOWED_TO_DIFFER = ("model", "endpoint", "seed", "grading", "self_judging")


def _from_yaml(path: Path) -> Settings:
    document = _read_yaml(path)
    where = str(path)
    _known(document, _TOP, where)
    gateway = _section(document, "gateway", where)
    _known(gateway, _GATEWAY, f"{where}: gateway")
    rating = _section(document, "rating", where)
    _known(rating, _RATING, f"{where}: rating")
    strategies = _strategies(document.get("strategies"), where)
    values: dict[str, Any] = {"path": path, "rating": RatingSettings(**rating)}
    if "base_url" in gateway:
        values |= {"base_url": gateway["base_url"], "base_url_from": where, "gateway_configured": True}
    if "api_key_env" in gateway:
        values["key_variable"] = gateway["api_key_env"]
    for key in ("timeout_s", "max_retries", "allow_model_substitution"):
        if key in gateway:
            values[key] = gateway[key]
    for key in ("model", "seed", "repeats", "max_tokens", "concurrency"):
        if document.get(key) is not None:
            values[key] = document[key]
    if strategies:
        values["strategies"] = strategies
        values["anchor"] = document.get("anchor") or strategies[0].name
    elif "anchor" in document:
        values["anchor"] = document["anchor"]
    names = [spec.name for spec in values.get("strategies", DEFAULT_STRATEGIES)]
    values["ladders"] = _ladders(document.get("ladders"), names, where)
    values["tasks"] = _tasks(document.get("tasks"), where)
    values["gates"] = _gates(document.get("gates"), path)
    if document.get("recordings"):
        values["recordings"] = (path.parent / str(document["recordings"])).resolve()
    return Settings(**values)


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml  # imported here: a project without evals never pays for it

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); give a UTF-8 YAML file") from None
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or error
        raise ConfigError(f"{path}:{line} is not valid YAML: {problem}") from None
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deeply to be a configuration") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: the top level must be a mapping of settings, not a {type(document).__name__}")
    return document


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


def _strategies(value: object, where: str) -> tuple[StrategySpec, ...]:
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


def _ladders(value: object, names: list[str], where: str) -> tuple[tuple[str, ...], ...]:
    if value is None:
        return (tuple(names),) if len(names) > 1 else ()
    if not isinstance(value, list) or not all(isinstance(ladder, list) for ladder in value):
        raise ConfigError(f"{where}: ladders must be a list of lists of strategy names, such as [[baseline, r3, r5]]")
    for ladder in value:
        for name in ladder:
            if name not in names:
                raise ConfigError(f"{where}: ladders: no strategy is named {name!r}{did_you_mean(str(name), names)}")
    return tuple(tuple(ladder) for ladder in value)


def _tasks(value: object, where: str) -> dict[str, dict[str, Any]]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(body, dict) for body in value.values()):
        raise ConfigError(f"{where}: tasks must map task names to their options, such as {{gpqa: {{few_shot: 1}}}}")
    return value


def _gates(value: object, path: Path) -> GateSettings:
    """A list of gates, or a mapping with ``rules`` and how they are judged."""
    where = f"{path}: gates"
    body = value if isinstance(value, dict) else {"rules": value}
    _known(body, _GATES, where)
    rules = body.get("rules") or []
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        raise ConfigError(f"{where}: write a list of lines such as [r3 delta_elo > 0], or a mapping with rules")
    strict, allow = body.get("strict", False), body.get("allow") or []
    if not isinstance(strict, bool):
        raise ConfigError(f"{where}.strict is {strict!r}; write true or false")
    if not isinstance(allow, list):
        raise ConfigError(f"{where}.allow is {allow!r}; write a list such as [model]")
    for name in allow:
        if name not in _ALLOWED_TO_DIFFER:
            raise ConfigError(f"{where}.allow: {name!r} cannot be allowed{did_you_mean(str(name), _ALLOWED_TO_DIFFER)}")
    return GateSettings(
        rules=tuple((rule, f"{where}[{number}]") for number, rule in enumerate(rules)),
        strict=strict,
        allow=tuple(allow),
        baselines=path.parent / str(body.get("baselines") or "baselines"),
    )


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
            f"{where}: the anchor {settings.anchor!r} is no strategy{did_you_mean(settings.anchor, declared)}"
        )
    for name, choices in _CHOICES.items():
        value = getattr(settings.rating, name)
        if value not in choices:
            raise ConfigError(f"{where}: rating.{name} is {value!r}; choose one of {', '.join(choices)}")
    for name, low in (("seed", 0), ("repeats", 1), ("concurrency", 1), ("max_retries", 0)):
        value = getattr(settings, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise ConfigError(f"{where}: {name} is {value!r}; give a whole number of at least {low}")
    if not isinstance(settings.rating.level, float) or not 0.5 < settings.rating.level < 1:
        raise ConfigError(f"{where}: rating.level is {settings.rating.level!r}; give a share such as 0.95")
    if not isinstance(settings.timeout_s, int | float) or settings.timeout_s <= 0:
        raise ConfigError(f"{where}: gateway.timeout_s is {settings.timeout_s!r}; give seconds above 0")
    if not isinstance(settings.base_url, str):
        raise ConfigError(f"{where}: gateway.base_url is {settings.base_url!r}; give an address as text")
