"""The source articles' ``settings.json`` and ``config.toml`` in the form of ``elo.yaml``.

Each key of theirs is one line of a table here: where it goes, and how its value is read. A key that is in no
table is an error. Options that only a task kind knows keep their names, in snake case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_elo._text import did_you_mean
from pytest_elo.errors import ConfigError

__all__ = ["from_config_toml", "from_settings_json"]

Reader = Callable[[Any, str], Any]
Place = tuple[str, ...]


def _as_is(value: Any, where: str) -> Any:
    return value


def _key_variable(value: Any, where: str) -> str:
    """The name in ``${env:NAME}``: the key itself never stands in a file."""
    found = re.fullmatch(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}", str(value))
    if found is None:
        raise ConfigError(f"{where}: write ${{env:NAME}}, the variable that holds the key; a key in a file gets out")
    return found[1]


def _milliseconds(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise ConfigError(f"{where} is {str(value)[:80]}; give milliseconds as a number")
    return value / 1000


def _only(*allowed: object) -> Reader:
    """For a key that says what is the case anyway; any other value would be ignored, so it is refused."""

    def read(value: Any, where: str) -> Any:
        if value not in allowed:
            raise ConfigError(f"{where} is {value!r}; only {' or '.join(map(repr, allowed))} is possible")
        return value

    return read


def _parser(value: Any, where: str) -> str:
    if not isinstance(value, bool):
        raise ConfigError(f"{where} is {value!r}; give true or false")
    return "strict" if value else "lenient"


Table = Mapping[str, tuple[Place | None, Reader]]

SETTINGS_JSON: Table = {
    "llm.provider": (None, _only("openai-compatible")),
    "llm.baseUrl": (("gateway", "base_url"), _as_is),
    "llm.apiKey": (("gateway", "api_key_env"), _key_variable),
    "llm.defaultModel": (("model",), _as_is),
    "llm.models.gpqa-runner": (("models", "gpqa"), _as_is),
    "llm.models.swebench-runner": (("models", "swebench"), _as_is),
    "llm.models.arena-judge": (("models", "judge"), _as_is),
    "llm.requestOptions.temperature": (("temperature",), _as_is),
    "llm.requestOptions.maxTokens": (("max_tokens",), _as_is),
    "llm.requestOptions.timeoutMs": (("gateway", "timeout_s"), _milliseconds),
    "evaluation.gpqa.dataset": (("tasks", "gpqa", "data"), _as_is),
    "evaluation.gpqa.answerFormat": (None, _only("ANSWER: [A-D]")),
    "evaluation.gpqa.strictParsing": (("tasks", "gpqa", "parser"), _parser),
    "evaluation.swebench.repoRoot": (("tasks", "swebench", "repo_cache"), _as_is),
    "evaluation.swebench.patchDir": (("tasks", "swebench", "patch_dir"), _as_is),
    "evaluation.swebench.testCommand": (("tasks", "swebench", "test_command"), _as_is),
    "evaluation.arena.pairwise": (None, _only(True)),
    "evaluation.arena.eloK": (("rating", "online_k"), _as_is),
    "evaluation.arena.bootstrapRounds": (("rating", "rounds"), _as_is),
}

CONFIG_TOML: Table = {
    "api.base_url": (("gateway", "base_url"), _as_is),
    "api.api_key_env": (("gateway", "api_key_env"), _as_is),
    "api.request_timeout": (("gateway", "timeout_s"), _as_is),
    "models.candidate": (("model",), _as_is),
    "models.baseline": (("models", "baseline"), _as_is),
    "models.judge": (("models", "judge"), _as_is),
    "swebench.dataset": (("tasks", "swebench", "data"), _as_is),
    "swebench.repo_cache": (("tasks", "swebench", "repo_cache"), _as_is),
    "swebench.max_workers": (("tasks", "swebench", "max_workers"), _as_is),
    "swebench.patch_apply_timeout": (("tasks", "swebench", "patch_apply_timeout"), _as_is),
    "swebench.test_timeout": (("tasks", "swebench", "test_timeout"), _as_is),
    "swebench.prompt.system": (("tasks", "swebench", "system"), _as_is),
    "swebench.prompt.include_repo_map": (("tasks", "swebench", "include_repo_map"), _as_is),
    "swebench.prompt.max_context_tokens": (("tasks", "swebench", "max_context_tokens"), _as_is),
    "gpqa.dataset_path": (("tasks", "gpqa", "data"), _as_is),
    "gpqa.few_shot": (("tasks", "gpqa", "few_shot"), _as_is),
    "gpqa.require_answer_tag": (("tasks", "gpqa", "parser"), _parser),
    "arena.prompts_path": (("tasks", "arena", "data"), _as_is),
    "arena.models": (("models", "arena"), _as_is),
    "arena.output_elo": (("output_elo",), _as_is),
}


def from_settings_json(document: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Raises ``ConfigError`` naming the key that is unknown or cannot be what it says."""
    return _translated(document, SETTINGS_JSON, str(path))


def from_config_toml(document: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Raises ``ConfigError`` naming the key that is unknown or cannot be what it says."""
    return _translated(document, CONFIG_TOML, str(path))


def _translated(document: Mapping[str, Any], table: Table, where: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in _leaves(document, table, where, ()):
        place, read = table[key]
        content = read(value, f"{where}: {key}")
        if place is not None:
            section = values
            for name in place[:-1]:
                section = section.setdefault(name, {})
            section[place[-1]] = content
    return values


def _leaves(section: Mapping[str, Any], table: Table, where: str, above: Place) -> list[tuple[str, Any]]:
    found = []
    for name, value in section.items():
        key = ".".join((*above, name))
        if key in table:
            found.append((key, value))
        elif any(known.startswith(f"{key}.") for known in table):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{where}: {key} must be a section, not {value!r}")
            found += _leaves(value, table, where, (*above, name))
        else:
            depth = len(above)
            siblings = {known.split(".")[depth] for known in table if known.split(".")[:depth] == list(above)}
            inside = f"{where}: {'.'.join(above)}" if above else where
            raise ConfigError(f"{inside}: unknown key {name!r}{did_you_mean(name, siblings)}")
    return found
