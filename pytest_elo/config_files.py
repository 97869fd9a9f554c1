"""Configuration files as documents of one form: that of ``elo.yaml``.

``elo.yaml`` is the canonical form; the source articles' ``settings.json`` and ``config.toml`` are translated
into it. Several files together are merged key by key; yaml stands above toml, toml above json, in whatever
order they are named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_elo._parse import parse_json, parse_toml, parse_yaml
from pytest_elo._text import usable
from pytest_elo.errors import ConfigError

__all__ = ["Document", "merged", "read_document", "resolve"]

PRECEDENCE = (".json", ".toml", ".yml", ".yaml")
"""File types from the lowest to the highest."""
_FORMATS = {".json": "JSON", ".toml": "TOML", ".yml": "YAML", ".yaml": "YAML"}

_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)S?$")
_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Document:
    """The settings of one file, or of several, in the form of ``elo.yaml``."""

    values: Mapping[str, Any]
    paths: tuple[Path, ...]
    """The files it comes from, the highest first."""
    origins: Mapping[str, Path]
    """Which file each key (``model``, ``gateway.base_url``, ``tasks.gpqa``) was taken from."""


def read_document(path: Path) -> Document:
    """Read one file by its ending. Raises ``ConfigError`` with file and line or key."""
    from pytest_elo.articles import from_config_toml, from_settings_json

    if path.suffix == ".json":
        values = from_settings_json(_read(path, parse_json), path)
    elif path.suffix == ".toml":
        values = from_config_toml(_read(path, parse_toml), path)
    elif path.suffix in (".yaml", ".yml"):
        values = _read(path, parse_yaml)
    else:
        raise ConfigError(f"{path}: settings are read from .yaml, .toml and .json files")
    try:
        values = _anchored(resolve(values, str(path)), path.parent)
    except RecursionError:
        raise ConfigError(
            f"{path}: a value holds itself (an alias inside its own anchor) or is nested too deep"
        ) from None
    return Document(values, (path,), dict.fromkeys(_keys(values), path))


def merged(documents: Sequence[Document]) -> Document:
    """One document of all; for each key the highest file that has it counts."""
    ordered = sorted(documents, key=lambda document: PRECEDENCE.index(document.paths[0].suffix))
    values: dict[str, Any] = {}
    origins: dict[str, Path] = {}
    for document in ordered:
        _overlay(values, document.values)
        origins |= document.origins
    return Document(values, tuple(document.paths[0] for document in reversed(ordered)), origins)


def resolve(value: Any, where: str) -> Any:
    """``value`` with every ``${env:NAME}`` and ``${NAME}`` replaced; ``$${`` stands for a literal ``${``.

    Raises ``ConfigError`` for a variable that is not set.
    """
    if isinstance(value, Mapping):
        return {key: resolve(item, f"{where}: {key}") for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, where) for item in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    return "${".join(_REFERENCE.sub(lambda found: _variable(found[1], where), part) for part in value.split("$${"))


def _variable(name: str, where: str) -> str:
    if _SECRET.search(name):
        raise ConfigError(f"{where}: {name} holds a secret; settings name it (gateway.api_key_env), they never hold it")
    if name not in os.environ:
        raise ConfigError(f"{where}: the environment has no {name}; export it, or write the value itself")
    return os.environ[name]


def _anchored(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """``values`` with the paths in them made absolute: they are relative to the file they stand in."""
    found = dict(values)
    for key in ("recordings", "output_elo"):
        if isinstance(found.get(key), str) and found[key]:
            found[key] = _resolved(folder, found[key], key)
    tasks = found.get("tasks")
    if isinstance(tasks, Mapping):
        found["tasks"] = {name: _anchored_task(task, folder) for name, task in tasks.items()}
    return found


def _resolved(folder: Path, value: str, key: str) -> str:
    try:
        return str(usable(folder / value).resolve())
    except ValueError as error:
        raise ConfigError(f"{folder}: {key} is {value[:80]!r}, which is no path ({error})") from None


def _anchored_task(task: Any, folder: Path) -> Any:
    if not isinstance(task, Mapping):
        return task
    paths = {
        key: _resolved(folder, value, key)
        for key in ("data", "repo_cache", "patch_dir")
        if isinstance(value := task.get(key), str) and _is_path(value, folder)
    }
    return {**task, **paths}


def _is_path(value: str, folder: Path) -> bool:
    """A bare word such as gpqa_diamond is the name of a data set, and owner/name may be one on a hub."""
    if value.count("/") == 1 and not Path(value).suffix and value[0] not in "./~":
        return Path(_resolved(folder, value, "data")).exists()
    return "/" in value or bool(Path(value).suffix)


def _overlay(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        known = below.get(key)
        # the definition of a strategy is one thing: parts of two definitions make none
        if key != "strategies" and isinstance(value, Mapping) and isinstance(known, Mapping):
            below[key] = dict(known)
            _overlay(below[key], value)
        else:
            below[key] = value


def _keys(values: Mapping[str, Any]) -> list[str]:
    keys = []
    for name, value in values.items():
        nested = name in ("gateway", "rating", "tasks", "models") and isinstance(value, Mapping)
        keys += [f"{name}.{key}" for key in value] if nested else [str(name)]
    return keys


def _read(path: Path, parse: Any) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); give a UTF-8 file") from None
    try:
        document = parse(text)
    except ValueError as error:
        raise ConfigError(f"{path}: is not valid {_FORMATS[path.suffix]}: {error}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: the top level must be a mapping of settings, not a {type(document).__name__}")
    return document
