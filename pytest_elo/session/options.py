"""Options and ini values, and where ``elo.yaml`` is found. Nothing heavy is imported here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pytest_elo.config import Overrides, Settings, load
from pytest_elo.errors import ConfigError

__all__ = ["add_options", "find_config", "read_settings"]


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("elo", "Elo per token (pytest-elo)")
    option = group.addoption
    option("--elo-config", metavar="FILE", help="elo.yaml to use (default: found beside the collected evals)")
    option("--elo-dir", metavar="DIR", help="run directory (default: .elo/<run id> under the root directory)")
    option("--elo-model", metavar="NAME", help="model to call; 'embedded' starts the local model")
    option("--elo-replay", action="store_true", help="answer from recordings only, even if a key is set")
    option("--elo-record", action="store_true", help="call the model and write its replies to the recordings")
    option("--elo-strategies", metavar="A,B", help="run only these strategies of elo.yaml")
    option("--elo-anchor", metavar="NAME", help="strategy that all tasks are aligned on")
    option("--elo-limit", metavar="N", type=int, help="take only the first N items of each task")
    option("--elo-concurrency", metavar="N", type=int, help="items in flight over all workers (default 64)")
    option("--elo-missing-anchor", choices=("error", "drop"), help="what to do with a task that lacks the anchor")
    option("--elo-gate", metavar="EXPR", action="append", default=[], help="a gate besides elo.yaml's; may be repeated")
    option("--elo-strict", action="store_true", help="a wrong answer fails its test")
    option("--elo-debug", action="store_true", help="show tracebacks of errors that are normally one line")
    parser.addini("elo_gates", "gates besides elo.yaml's, one a line", type="linelist")
    parser.addini("elo_config", "elo.yaml to use, relative to the root directory")


def find_config(config: pytest.Config) -> Path | None:
    """The ``elo.yaml`` that governs this session, or ``None``: then the plugin stays asleep.

    ``--elo-config``, else the ini value, else the nearest ``elo.yaml`` at or above each collected path, up
    to the root directory. Raises ``ConfigError`` when a named file is missing or two paths disagree.
    """
    named = config.getoption("--elo-config")
    if named:
        return _existing(config.invocation_params.dir / named, "--elo-config")
    ini = str(config.getini("elo_config"))
    if ini:
        return _existing(config.rootpath / ini, "elo_config")
    found = {path for argument in config.args if (path := _nearest(config, argument)) is not None}
    if len(found) > 1:
        names = " and ".join(sorted(map(str, found)))
        raise ConfigError(f"the collected paths belong to different settings: {names}; choose one with --elo-config")
    return found.pop() if found else None


def _existing(path: Path, source: str) -> Path:
    if not path.is_file():
        raise ConfigError(f"{source}: no file {path}")
    return path.resolve()


def _nearest(config: pytest.Config, argument: str) -> Path | None:
    start = Path(config.invocation_params.dir, argument.split("::", 1)[0]).resolve()
    root = config.rootpath.resolve()
    for folder in (start, *start.parents):
        if (folder / "elo.yaml").is_file():
            return folder / "elo.yaml"
        if folder == root:
            break
    return None


def read_settings(config: pytest.Config, path: Path) -> Settings:
    """Settings of this session after precedence: option > environment > elo.yaml."""
    strategies = _names(config.getoption("--elo-strategies"))
    return load(path, Overrides(values=_values(config), strategies=strategies, gates=_gates(config)))


def _gates(config: pytest.Config) -> tuple[tuple[str, str], ...]:
    return tuple(
        [(text, "elo_gates") for text in config.getini("elo_gates")]
        + [(text, "--elo-gate") for text in config.getoption("--elo-gate")]
    )


def _values(config: pytest.Config) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if "OPENAI_BASE_URL" in os.environ:
        values |= {
            "base_url": os.environ["OPENAI_BASE_URL"],
            "base_url_from": "OPENAI_BASE_URL",
            "gateway_configured": True,
        }
    options = {
        "model": config.getoption("--elo-model"),
        "limit": config.getoption("--elo-limit"),
        "concurrency": config.getoption("--elo-concurrency"),
        "anchor": config.getoption("--elo-anchor"),
        "strict": config.getoption("--elo-strict") or None,
    }
    if options["model"] is None and os.environ.get("AGENT_MODEL"):
        options["model"] = os.environ["AGENT_MODEL"]
    if options["limit"] is not None and options["limit"] < 1:
        raise ConfigError(f"--elo-limit is {options['limit']}; give a number of items of at least 1")
    return values | {name: value for name, value in options.items() if value is not None}


def _names(value: str | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(name.strip() for name in value.split(",") if name.strip())
