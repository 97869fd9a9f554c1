"""``pytest-elo clients``: one provider, as each coding client wants it written.

The clients disagree about the base URL (with or without ``/v1``), about where the key stands and about what it is
called; here one record becomes all of it. No key is ever written: a file names the variable, or says how to set it.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_elo._parse import parse_json, parse_toml
from pytest_elo.errors import ConfigError

__all__ = ["CLIENTS", "ClientFile", "Provider", "client_files", "write_files"]

CLIENTS = ("claude-code", "codex", "cline", "cc-switch")
_PROVIDER_NAME = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A gateway as the user knows it. ``base_url`` may end in ``/v1`` or not."""

    name: str
    base_url: str
    key_variable: str
    model: str
    small_model: str = ""
    """For the background calls of Claude Code; empty: the same."""

    def __post_init__(self) -> None:
        if not _PROVIDER_NAME.fullmatch(self.name):
            raise ConfigError(f"--name {self.name!r} is no plain word; it becomes a key in the clients' files")

    @property
    def root(self) -> str:
        """For clients that append ``/v1/...`` themselves."""
        return self.base_url.rstrip("/").removesuffix("/v1")

    @property
    def versioned(self) -> str:
        """For clients that append only ``/responses`` or ``/chat/completions``."""
        return f"{self.root}/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """A client's file with the provider in it, merged into what is there. ``text`` is ``None`` where we only tell."""

    client: str
    path: Path | None
    text: str | None
    snippet: str
    """What the file gets to hold, without what was there."""
    notes: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        return self.path is not None and not self.path.exists()

    @property
    def is_change(self) -> bool:
        return self.path is not None and self.text is not None and (self.is_new or _read(self.path) != self.text)


def client_files(provider: Provider, home: Path) -> Iterator[ClientFile]:
    """What to write for each client. Raises ``ConfigError`` for a file that is there and is not what it should be."""
    yield _claude_code(provider, home / ".claude" / "settings.json")
    yield _codex(provider, home / ".codex" / "config.toml")
    yield _cline(provider, home / ".cline" / "data" / "globalState.json")
    yield _cc_switch(provider)


def write_files(files: list[ClientFile], consent: Callable[[str], bool]) -> Iterator[str]:
    """Write what changes, each file after ``consent``, a copy of the old one beside it; yields what was done."""
    for file in files:
        if file.path is None or file.text is None:
            continue
        if not file.is_change:
            yield f"{file.path}: holds it already"
            continue
        verb = "create" if file.is_new else "change"
        if not consent(f"{verb} {file.path}?"):
            yield f"{file.path}: left as it is"
            continue
        kept = "" if file.is_new else f"; the old one is {_backup(file.path)}"
        file.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.path.with_name(f".{file.path.name}.elo")
        temporary.write_text(file.text, encoding="utf-8")
        if not file.is_new:
            shutil.copymode(file.path, temporary)
        temporary.replace(file.path)
        yield f"{file.path}: written{kept}"


def _backup(path: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    target = path.with_name(f"{path.name}.{stamp}.bak")
    number = 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}.{stamp}-{number}.bak")
    shutil.copy2(path, target)
    return target


def _claude_code(provider: Provider, path: Path) -> ClientFile:
    env = {
        "ANTHROPIC_BASE_URL": provider.root,
        "ANTHROPIC_MODEL": provider.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": provider.small_model or provider.model,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    permissions = {
        "allow": ["Read", "Edit", "Bash(git diff:*)", "Bash(pytest:*)"],
        "deny": ["Bash(rm -rf:*)"],
    }
    there = _json_file(path)
    known = there.get("env")
    known = dict(known) if isinstance(known, Mapping) else {}
    for crossed in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        known.pop(crossed, None)  # a token in this file beats the shell's, and it is the old provider's
    merged = {**there, "env": {**known, **env}, "permissions": there.get("permissions", permissions)}
    notes = (
        f'the token comes from the shell: export ANTHROPIC_AUTH_TOKEN="${provider.key_variable}"',
        "set no ANTHROPIC_API_KEY beside it; restart Claude Code afterwards",
        "the deny list is a courtesy, no sandbox",
    )
    snippet = _dumped({"env": env, "permissions": permissions})
    return ClientFile(client="claude-code", path=path, text=_dumped(merged), snippet=snippet, notes=notes)


def _codex(provider: Provider, path: Path) -> ClientFile:
    top = {"model": provider.model, "model_provider": provider.name}
    table = {
        "name": provider.name,
        "base_url": provider.versioned,
        "env_key": provider.key_variable,
        "wire_api": "responses",
    }
    head = "".join(f"{key} = {_toml(value)}\n" for key, value in top.items())
    block = f"[model_providers.{provider.name}]\n" + "".join(
        f"{key} = {_toml(value)}\n" for key, value in table.items()
    )
    old = _read(path)
    there = _toml_file(path, old)
    text = _merged_toml(old, head, block, provider.name)
    providers = there.get("model_providers")
    wanted = {
        **there,
        **top,
        "model_providers": {**(providers if isinstance(providers, Mapping) else {}), provider.name: table},
    }
    notes: tuple[str, ...] = (
        f"env_key is the name of the variable; export {provider.key_variable} with the key",
        "Codex speaks only the responses API: if the gateway lacks it, Codex cannot use it",
    )
    if _parsed(text) != wanted:  # written in a way that a line-wise merge does not understand
        return ClientFile(
            client="codex", path=path, text=None, snippet=head + "\n" + block, notes=(*notes, "merge this by hand")
        )
    return ClientFile(client="codex", path=path, text=text, snippet=head + "\n" + block, notes=notes)


def _cline(provider: Provider, path: Path) -> ClientFile:
    values = {
        "planModeApiProvider": "openai",
        "actModeApiProvider": "openai",
        "openAiBaseUrl": provider.versioned,
        "planModeOpenAiModelId": provider.model,
        "actModeOpenAiModelId": provider.model,
    }
    there = _json_file(path)
    there.pop("openAiApiKey", None)
    notes = ("enter the key in Cline's settings (provider: OpenAI Compatible); it keeps it in its secrets, not here",)
    snippet = _dumped(values)
    return ClientFile(client="cline", path=path, text=_dumped({**there, **values}), snippet=snippet, notes=notes)


def _cc_switch(provider: Provider) -> ClientFile:
    triple = {
        "Claude": {"Base URL": provider.root, "API key": f"${provider.key_variable}", "model": provider.model},
        "Codex": {"base_url": provider.versioned, "env_key": provider.key_variable, "model": provider.model},
    }
    notes = (
        "CC Switch keeps providers in a store of its own: add one by hand with these values",
        "after switching start a new run: outcomes of two providers are not compared",
    )
    return ClientFile(client="cc-switch", path=None, text=None, snippet=_dumped(triple), notes=notes)


def _merged_toml(old: str, head: str, block: str, name: str) -> str:
    """The file with our two keys at its top and our table at its end; all other lines stay as they are."""
    sections = re.split(r"(?m)^(?=[ \t]*\[)", old)
    first = "".join(
        line
        for line in sections[0].splitlines(keepends=True)
        if not re.match(r"[ \t]*(model|model_provider)[ \t]*=", line)
    )
    ours = re.compile(rf"[ \t]*\[model_providers\.\"?{re.escape(name)}\"?\][ \t]*(#.*)?$", re.MULTILINE)
    rest = "".join(section for section in sections[1:] if not ours.match(section))
    kept = (first.lstrip("\n") + rest).rstrip("\n")
    return f"{head}{kept}\n\n{block}" if kept else f"{head}\n{block}"


def _toml(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)  # a basic string of TOML is one of JSON


def _dumped(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, indent=2, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, which JSON can hold and a file cannot
        text = json.dumps(values, indent=2)
    return text + "\n"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); nothing is written over it") from None


def _json_file(path: Path) -> dict[str, Any]:
    text = _read(path)
    if not text.strip():
        return {}
    try:
        values = parse_json(text)
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON ({error}); mend it first, nothing is written over it") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds no JSON object; mend it first, nothing is written over it")
    return values


def _toml_file(path: Path, text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"{path} is no TOML ({error}); mend it first, nothing is written over it") from None


def _parsed(text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except ValueError:
        return {}
