"""Options and ini values, and where the settings' files are found. Nothing heavy is imported here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_elo.errors import ConfigError

if TYPE_CHECKING:
    from pytest_elo.config import Settings

__all__ = ["add_options", "find_config", "read_settings"]


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("elo", "Elo per token (pytest-elo)")
    option = group.addoption
    option(
        "--elo-config",
        metavar="FILE",
        action="append",
        help="settings to use, .yaml, .toml or .json; may be repeated (default: elo.yaml beside the collected evals)",
    )
    option("--elo-dir", metavar="DIR", help="run directory (default: .elo/<run id> under the root directory)")
    option("--elo-model", metavar="NAME", help="model to call; 'embedded' starts the local model")
    option("--elo-replay", action="store_true", help="answer from recordings only, even if a key is set")
    option("--elo-record", action="store_true", help="call the model and write its replies to the recordings")
    option("--elo-cache", action="store_true", help="answer what recordings and earlier runs hold, buy the rest")
    option(
        "--elo-resume",
        metavar="DIR",
        nargs="?",
        const="",
        help="continue the run in DIR (default: the latest): run what is missing or failed for no reason of the model",
    )
    option("--elo-token-budget", metavar="N", type=int, help="stop before more than N tokens are bought")
    option("--elo-usd-budget", metavar="USD", type=float, help="stop before more is spent, by the prices of elo.yaml")
    option("--elo-strategies", metavar="A,B", help="run only these strategies of elo.yaml")
    option("--elo-anchor", metavar="NAME", help="strategy that all tasks are aligned on")
    option("--elo-limit", metavar="N", type=int, help="take only the first N items of each task")
    option("--elo-shard", metavar="I/N", help="run the I-th of N parts of the suite; pytest-elo merge joins them")
    option("--elo-concurrency", metavar="N", type=int, help="items in flight over all workers (default 64)")
    option("--elo-missing-anchor", choices=("error", "drop"), help="what to do with a task that lacks the anchor")
    option("--elo-gate", metavar="EXPR", action="append", default=[], help="a gate besides elo.yaml's; may be repeated")
    option("--elo-top-failures", metavar="N", type=int, default=0, help="print the N worst cases with their raw output")
    option("--elo-png", metavar="FILE", help="write the plot of Elo against tokens")
    option("--elo-strict", action="store_true", help="a wrong answer fails its test")
    option("--elo-debug", action="store_true", help="show tracebacks of errors that are normally one line")
    option("--elo-doctor", action="store_true", help="check the settings, the key and the gateway, and run nothing")
    option(
        "--elo-swe-sandbox",
        choices=("auto", "bwrap", "unshare", "none"),
        help="what holds code that a model wrote (default: auto); none: nothing does, and the report says so",
    )
    option("--elo-swe-runner", choices=("local", "docker", "import"), help="where patches are tested (default: local)")
    parser.addini("elo_config", "settings to use, relative to the root directory, one file a line", type="linelist")
    parser.addini("elo_gates", "gates besides elo.yaml's, one a line", type="linelist")
    parser.addini("elo_html", "write report.html (default: true)", type="bool", default=True)
    for name, text in INI.items():
        parser.addini(name, text)


INI = {
    "elo_model": "model to call",
    "elo_strategies": "strategies to run, separated by commas",
    "elo_concurrency": "calls in flight over all workers",
    "elo_token_budget": "stop before more tokens are bought",
    "elo_usd_budget": "stop before more is spent",
}


def find_config(config: pytest.Config) -> list[Path]:
    """The files that govern this session; none: then the plugin stays asleep.

    ``--elo-config``, else the ini value, else the nearest ``elo.yaml`` at or above each collected path, up
    to the root directory. Raises ``ConfigError`` when a named file is missing or two paths disagree.
    """
    named = config.getoption("--elo-config")
    if named:
        return [_existing(config.invocation_params.dir / name, "--elo-config") for name in named]
    ini = config.getini("elo_config")
    if ini:
        return [_existing(config.rootpath / name, "elo_config") for name in ini]
    found = {path for argument in config.args if (path := _nearest(config, argument)) is not None}
    if len(found) > 1:
        names = " and ".join(sorted(map(str, found)))
        raise ConfigError(f"the collected paths belong to different settings: {names}; choose one with --elo-config")
    return list(found)


def _existing(path: Path, source: str) -> Path:
    if not os.path.isfile(path):  # a name that is too long is no file either, which older pathlibs raise of
        raise ConfigError(f"{source}: no file {str(path)[:200]}")
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


def read_settings(config: pytest.Config, paths: Sequence[Path]) -> Settings:
    """Settings of this session after precedence: option > environment > pyproject/ini > files."""
    from pytest_elo.config import Overrides, load  # an unrelated project does not pay for it

    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in (_from_ini(config), _from_environment(), _from_options(config)):
        for origin, key, name, value in layer:
            values[name] = value
            origins[key] = origin
    strategies = _names(values.pop("strategies", None))
    missing_anchor = config.getoption("--elo-missing-anchor")
    if missing_anchor is not None:
        origins["rating.missing_anchor"] = "--elo-missing-anchor"
    overrides = Overrides(
        values=values,
        strategies=strategies,
        origins=origins,
        gates=tuple(_gates(config)),
        missing_anchor=missing_anchor,
    )
    return replace(load(paths, overrides), kind_options=_kind_options(config))


def _gates(config: pytest.Config) -> Iterator[tuple[str, str]]:
    yield from ((text, "elo_gates") for text in config.getini("elo_gates"))
    yield from ((text, "--elo-gate") for text in config.getoption("--elo-gate"))


Layer = Iterator[tuple[str, str, str, Any]]
"""(where it stands, key of ``elo.yaml`` or option, field of ``Settings``, value)"""


def _from_ini(config: pytest.Config) -> Layer:
    file = str(config.inipath or "pytest's ini file")
    for name, read in (
        ("elo_model", str),
        ("elo_strategies", str),
        ("elo_concurrency", int),
        ("elo_token_budget", int),
        ("elo_usd_budget", float),
    ):
        text = config.getini(name)
        if not text:
            continue
        try:
            value = read(text)
        except ValueError:
            raise ConfigError(f"{file}: {name} is {text!r}; give a number") from None
        key = name.removeprefix("elo_")
        yield f"{name} in {file}", key, key, value


def _from_environment() -> Layer:
    if "OPENAI_BASE_URL" in os.environ:
        yield "OPENAI_BASE_URL", "gateway.base_url", "base_url", os.environ["OPENAI_BASE_URL"]
        yield "OPENAI_BASE_URL", "gateway.base_url", "base_url_from", "OPENAI_BASE_URL"
        yield "OPENAI_BASE_URL", "gateway.base_url", "gateway_configured", True
    if os.environ.get("AGENT_MODEL"):
        yield "AGENT_MODEL", "model", "model", os.environ["AGENT_MODEL"]


def _from_options(config: pytest.Config) -> Layer:
    for name in ("model", "limit", "concurrency", "anchor", "strict", "strategies", "token_budget", "usd_budget"):
        option = f"--elo-{name.replace('_', '-')}"
        value = config.getoption(option)
        if value is None or value is False:
            continue
        if name == "limit" and value < 1:
            raise ConfigError(f"--elo-limit is {value}; give a number of items of at least 1")
        yield option, name, name, value


def _kind_options(config: pytest.Config) -> dict[str, dict[str, Any]]:
    swebench = {name: config.getoption(f"--elo-swe-{name}") for name in ("sandbox", "runner")}
    return {"swebench": {name: value for name, value in swebench.items() if value is not None}}


def _names(value: str | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(name.strip() for name in value.split(",") if name.strip())
