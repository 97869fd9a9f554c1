"""``pytest-elo clients``: print or write the configuration of coding clients."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from pytest_elo.config import load
from pytest_elo.errors import ConfigError
from pytest_elo.gateway.endpoint import Endpoint, check_model_name
from pytest_elo.session.client_config import CLIENTS, Provider, client_files, write_files

__all__ = ["clients_command"]


def clients_command(
    names: Sequence[str],
    *,
    name: str = "taotoken",
    base_url: str = "",
    key_variable: str = "",
    model: str = "",
    small_model: str = "",
    write: bool = False,
    yes: bool = False,
    out: TextIO | None = None,
) -> int:
    """Print each client's part, then, if asked to and allowed, write the files. Raises ``ConfigError``."""
    out = out or sys.stdout
    for unknown in set(names) - set(CLIENTS):
        raise ConfigError(f"no client {unknown!r}; known are {', '.join(CLIENTS)}")
    provider = _provider(name, base_url, key_variable, model, small_model)
    files = [
        file for file in client_files(provider, Path(os.path.expanduser("~"))) if not names or file.client in names
    ]
    for file in files:
        out.write(f"# {file.client}{f': {file.path}' if file.path else ''}\n{file.snippet}")
        out.writelines(f"# {note}\n" for note in file.notes)
        out.write("\n")
    if not write:
        out.write("Nothing was written; --write merges this into the files, after asking and with a copy of each.\n")
        return 0
    if not yes and not sys.stdin.isatty():
        raise ConfigError(
            "--write asks before it changes a file, and there is no terminal to ask on; add --yes to agree"
        )

    def consent(question: str) -> bool:
        return yes or input(f"{question} [y/N] ").strip().lower() in ("y", "yes")

    out.writelines(f"{sentence}\n" for sentence in write_files(files, consent))
    return 0


def _provider(name: str, base_url: str, key_variable: str, model: str, small_model: str) -> Provider:
    usual = (path for path in (Path("elo.yaml"), Path("evals/elo.yaml")) if path.is_file())
    settings = load(next(usual, None))
    variable = key_variable or settings.key_variable
    source = "--base-url" if base_url else "gateway.base_url"
    # the key itself is not needed, and none is looked at
    checked = Endpoint.checked(
        base_url or settings.base_url, "not-needed-here", key_variable=variable, url_source=source
    )
    chosen = check_model_name(model or settings.model or "", "--model")
    small = check_model_name(small_model, "--small-model") if small_model else ""
    return Provider(name=name, base_url=checked.base_url, key_variable=variable, model=chosen, small_model=small)
