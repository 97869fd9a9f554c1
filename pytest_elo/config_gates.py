"""The ``gates`` of ``elo.yaml``: a list of lines, or a mapping that also says how they are judged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_elo._text import did_you_mean
from pytest_elo.errors import ConfigError

__all__ = ["GateSettings", "check_gates", "gates_of"]

_KEYS = ("rules", "strict", "allow", "baselines")
_MAY_DIFFER = ("model", "endpoint", "seed", "grading", "self_judging")


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


def gates_of(value: object, path: Path) -> GateSettings:
    """The settings that stand under ``gates`` in the file ``path``; raises ``ConfigError`` naming the key."""
    body = check_gates(value, path)
    return GateSettings(
        rules=tuple((rule, f"{path}: gates[{number}]") for number, rule in enumerate(body.get("rules") or [])),
        strict=body.get("strict", False),
        allow=tuple(body.get("allow") or ()),
        baselines=path.parent / str(body.get("baselines") or "baselines"),
    )


def check_gates(value: object, path: Path) -> dict[str, Any]:
    """``gates`` in its long form. Raises ``ConfigError`` for unknown keys and values of another type."""
    where = f"{path}: gates"
    body = value if isinstance(value, dict) else {"rules": value}
    for key in body:
        if key not in _KEYS:
            raise ConfigError(f"{where}: unknown key {str(key)!r}{did_you_mean(str(key), _KEYS)}")
    rules = body.get("rules") or []
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        raise ConfigError(f"{where}: write a list of lines such as [r3 delta_elo > 0], or a mapping with rules")
    if not isinstance(body.get("strict", False), bool):
        raise ConfigError(f"{where}.strict is {body['strict']!r}; write true or false")
    allow = body.get("allow") or []
    if not isinstance(allow, list):
        raise ConfigError(f"{where}.allow is {allow!r}; write a list such as [model]")
    for name in allow:
        if name not in _MAY_DIFFER:
            raise ConfigError(f"{where}.allow: {name!r} cannot be allowed{did_you_mean(str(name), _MAY_DIFFER)}")
    return body
