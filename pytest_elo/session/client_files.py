"""Configuration of coding clients beside the evals: crossed, stale or wrong values, found without any request.

Claude Code reads ``ANTHROPIC_*`` and appends ``/v1/messages`` to its base URL; Codex reads the variable that
``env_key`` names and appends ``/responses`` to a base URL that ends in ``/v1``; Cline appends
``/chat/completions`` to one. CC Switch writes the files of the first two, or points them at a proxy of its own.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pytest_elo._parse import parse_json, parse_toml

__all__ = ["check_clients"]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROXY_TOKEN = "PROXY_MANAGED"  # what CC Switch writes in place of a key when its proxy adds the real one


def check_clients(home: Path, project: Path, host: str, environment: Mapping[str, str]) -> Iterator[str]:
    """One sentence for each thing that is wrong; ``host`` is the gateway's that the evals use.

    Values of keys are never part of a sentence.
    """
    for path in (home / ".claude" / "settings.json", project / ".claude" / "settings.json"):
        yield from _at(path, _claude_code(_json(path), host))
    codex = home / ".codex" / "config.toml"
    yield from _at(codex, _codex(_toml(codex), host, environment))
    cline = home / ".cline" / "data" / "globalState.json"
    yield from _at(cline, _cline(_json(cline), host))
    for name in ("config.json", "settings.json"):
        switch = home / ".cc-switch" / name
        yield from _at(switch, _cc_switch(_json(switch), host))


def _at(path: Path, complaints: Iterator[str]) -> Iterator[str]:
    yield from (f"{path}: {complaint}" for complaint in complaints)


def _claude_code(document: Mapping[str, Any], host: str) -> Iterator[str]:
    env = document.get("env")
    if not isinstance(env, Mapping):
        return
    for name, value in env.items():
        if not isinstance(value, str):
            yield f"env.{name} is no text; Claude Code takes only text, so put it in quotation marks"
        if str(name).startswith("OPENAI_") or name == "TAOTOKEN_API_KEY":
            yield f"env.{name} is read by nothing there; Claude Code takes ANTHROPIC_BASE_URL and ANTHROPIC_AUTH_TOKEN"
    if env.get("ANTHROPIC_AUTH_TOKEN") and env.get("ANTHROPIC_API_KEY"):
        yield "ANTHROPIC_AUTH_TOKEN and ANTHROPIC_API_KEY are both set; keep one, Claude Code warns and may take either"
    yield from _malformed(env.get("ANTHROPIC_BASE_URL"), "ANTHROPIC_BASE_URL")
    url = _address(env.get("ANTHROPIC_BASE_URL"))
    if _split(url).path.rstrip("/").endswith(("/v1", "/messages", "/chat/completions")):
        yield f"ANTHROPIC_BASE_URL = {url} goes too far; Claude Code appends /v1/messages, so leave that part out"
    yield from _stale(url, "ANTHROPIC_BASE_URL", host, env.get("ANTHROPIC_AUTH_TOKEN") == _PROXY_TOKEN)


def _codex(document: Mapping[str, Any], host: str, environment: Mapping[str, str]) -> Iterator[str]:
    providers = document.get("model_providers")
    providers = providers if isinstance(providers, Mapping) else {}
    active = document.get("model_provider")
    if isinstance(active, str) and active not in providers and active != "openai":
        yield f"model_provider = {active!r} has no [model_providers.{active}]"
    for name, provider in providers.items():
        if not isinstance(provider, Mapping):
            continue
        place = f"model_providers.{name}"
        if provider.get("wire_api") == "chat":
            yield f'{place}.wire_api = "chat" is gone from Codex; write "responses", if the gateway serves that'
        yield from _env_key(place, provider.get("env_key"), environment)
        yield from _malformed(provider.get("base_url"), f"{place}.base_url")
        url = _address(provider.get("base_url"))
        if url and not _split(url).path.rstrip("/").endswith("/v1"):
            yield f"{place}.base_url = {url} does not end in /v1; Codex appends /responses to it as it is"
        if name == active:
            yield from _stale(url, f"{place}.base_url", host, is_proxied=False)


def _env_key(place: str, env_key: object, environment: Mapping[str, str]) -> Iterator[str]:
    if not isinstance(env_key, str):
        return
    if not _VARIABLE.fullmatch(env_key) or env_key.startswith("sk_"):
        yield f"{place}.env_key holds something like a key; it is the name of a variable, and a key in a file gets out"
    elif env_key.startswith("ANTHROPIC_"):
        yield f"{place}.env_key = {env_key} is Claude Code's variable; Codex needs the OpenAI-compatible key's"
    elif not environment.get(env_key):
        yield f"{place}.env_key names {env_key}, which is not set here; Codex will say that credentials are missing"


def _cline(document: Mapping[str, Any], host: str) -> Iterator[str]:
    yield from _malformed(document.get("openAiBaseUrl"), "openAiBaseUrl")
    url = _address(document.get("openAiBaseUrl"))
    if _split(url).path.rstrip("/").endswith("/chat/completions"):
        yield f"openAiBaseUrl = {url} goes too far; Cline appends the path itself"
    elif url and not _split(url).path.rstrip("/").endswith("/v1"):
        yield f"openAiBaseUrl = {url} does not end in /v1; Cline appends /chat/completions to it as it is"
    if "openAiApiKey" in document:
        yield "openAiApiKey does not belong into this file; Cline keeps it in secrets.json"
    yield from _stale(url, "openAiBaseUrl", host, is_proxied=False)


def _cc_switch(document: Mapping[str, Any], host: str) -> Iterator[str]:
    providers = document.get("providers")
    if not isinstance(providers, list):
        return
    named = {str(provider.get("name")): provider for provider in providers if isinstance(provider, Mapping)}
    active = document.get("activeProvider")
    if not isinstance(active, str) or active not in named:
        yield f"activeProvider = {active!r} is none of the providers ({', '.join(sorted(named))})"
        return
    yield from _malformed(named[active].get("baseUrl"), f"provider {active}: baseUrl")
    yield from _stale(_address(named[active].get("baseUrl")), f"provider {active}", host, is_proxied=False)


def _malformed(value: object, what: str) -> Iterator[str]:
    """An address that no path can be appended to, whoever appends it."""
    parts = _split(value)
    if value and not parts.geturl():
        yield f"{what} is no address; write it like https://host/api"
    if parts.query or parts.fragment:
        kind = "tracking parameters (utm_...)" if "utm_" in parts.query else "a query or fragment"
        yield f"{what} ends in {kind}, and clients append their paths behind it; cut it off at the question mark"
    if "/v1/v1" in parts.path:
        yield f"{what} doubles /v1; write it once, or not at all where the client appends it"


def _stale(url: str, what: str, host: str, is_proxied: bool) -> Iterator[str]:
    """An address other than the evals': after a switch of providers one of the two was left behind."""
    if not url:
        return
    parts = _split(url)
    if parts.hostname in ("127.0.0.1", "localhost"):
        if is_proxied and not _listens(parts.hostname, parts.port or 80):
            yield f"{what} = {url} is a local proxy (CC Switch), and nothing listens there; start it or switch it off"
        return
    if host and parts.netloc != host:
        yield f"{what} points to {parts.netloc}, the evals to {host}; if a provider was switched, one was left behind"


def _split(value: object) -> SplitResult:
    """The parts of an address; all are empty where it is none (a bracket that is not closed, a port of 70000)."""
    with suppress(ValueError):
        parts = urlsplit(str(value or ""))
        _ = parts.port
        return parts
    return urlsplit("")


def _address(value: object) -> str:
    """The address as it may be printed: credentials and queries, which may hold keys, are left out."""
    parts = _split(value)
    return parts._replace(netloc=parts.netloc.rsplit("@", 1)[-1], query="", fragment="").geturl()


def _listens(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


def _json(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        document = parse_json(path.read_text(encoding="utf-8"))
        if isinstance(document, dict):
            return document
    return {}


def _toml(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        return parse_toml(path.read_text(encoding="utf-8"))
    return {}


def home() -> Path:
    """The user's home as the clients find it."""
    return Path(os.path.expanduser("~"))
