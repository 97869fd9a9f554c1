"""Where the model is: a checked base URL and the key that is only ever sent there."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from pytest_elo.errors import ConfigError

__all__ = ["PLACEHOLDER_MODEL", "Endpoint", "Secret", "check_model_name", "suggest"]

PLACEHOLDER_MODEL = "以控制台展示的模型名为准"
"""The source articles' stand-in for a model name ("as the console shows it"); never a model."""

_ENDPOINTS = ("/chat/completions", "/completions", "/responses", "/embeddings", "/messages", "/models")


class Secret:
    """A key that shows itself only when asked; its ``repr`` is its length and last four characters."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    @property
    def hint(self) -> str:
        value = self._value
        tail = f", ends in {value[-4:]}" if len(value) >= 12 else ""
        return f"{len(value)} characters{tail}"

    def __repr__(self) -> str:
        return f"<key: {self.hint}>"

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a key is not pickled: each process reads it from the environment")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A checked gateway address. Build it with ``Endpoint.checked``.

    ``base_url`` has no trailing slash; API paths such as ``/chat/completions`` are appended to it.
    """

    base_url: str
    key_variable: str
    key: Secret

    @classmethod
    def checked(cls, base_url: str, key: str | None, *, key_variable: str, url_source: str = "base_url") -> Endpoint:
        """Refuse what can't work, with what to write instead; ``url_source`` names where the URL stands.

        Raises ``ConfigError``.
        """
        return cls(
            base_url=_checked_url(base_url, url_source),
            key_variable=key_variable,
            key=Secret(_checked_key(key, key_variable)),
        )

    @property
    def host(self) -> str:
        """Host with port, as it may be printed."""
        return urlsplit(self.base_url).netloc

    @property
    def origin(self) -> tuple[str, str, int]:
        """(scheme, host, port): the only place the key is sent to."""
        return origin_of(self.base_url)

    def at(self, base_url: str) -> Endpoint:
        """The same key at another base URL of the same origin (the path that preflight found to work)."""
        if origin_of(base_url) != self.origin:
            raise ConfigError(f"{base_url} is not on {self.host}: the key is only sent to the configured host")
        return replace(self, base_url=base_url)


def origin_of(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _checked_url(url: str, source: str) -> str:
    if not url.strip():
        raise ConfigError(f"{source} is empty: unset it, or write the gateway's base URL")
    if url != url.strip() or re.search(r"\s", url):
        raise ConfigError(f"{source} contains white space: write {url.split()[0]}")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"{source} is not a URL ({error}): write it like https://host/api") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{source} = {url!r} is not a web address: write it like https://host/api")
    if parts.username is not None:
        raise ConfigError(f"{source} contains credentials: write only the address, the key goes in its variable")
    plain = f"{parts.scheme}://{parts.netloc}{parts.path}"
    if parts.query or parts.fragment or "?" in url:
        raise ConfigError(f"{source} has a query or fragment, which breaks every path: write {_base(plain)}")
    if _base(plain) != plain.rstrip("/"):
        raise ConfigError(f"{source} = {url} goes too far or doubles a part: write {_base(plain)}")
    return plain.rstrip("/")


def _base(url: str) -> str:
    """The base URL that was most likely meant."""
    scheme, _, rest = url.partition("://")
    rest = re.sub(r"/{2,}", "/", rest).rstrip("/")
    changed = True
    while changed:
        changed = False
        for ending in _ENDPOINTS:
            if rest.endswith(ending):
                rest, changed = rest.removesuffix(ending).rstrip("/"), True
    return f"{scheme}://{re.sub(r'(/v1)+$', '/v1', rest)}"


def _checked_key(key: str | None, variable: str) -> str:
    if key is None:
        raise ConfigError(f"{variable} is not set: export it with the gateway's API key")
    if not key.strip():
        raise ConfigError(f"{variable} is empty: export it with the gateway's API key")
    if re.search(r"\s", key):
        raise ConfigError(f"{variable} contains white space or a line break ({Secret(key).hint}): export it without")
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"{variable} contains characters no key has ({Secret(key).hint}): copy it again")
    if key[0] in "'\"" or key[-1] in "'\"":
        raise ConfigError(f"{variable} contains its quotation marks ({Secret(key).hint}): export it without")
    if key.startswith("$"):
        raise ConfigError(f"{variable} holds the unexpanded text of a variable's name: export the key itself")
    return key


def check_model_name(model: str, source: str = "model") -> str:
    """``model`` if it can be a model's name; raises ``ConfigError`` naming ``source`` otherwise."""
    if not model.strip():
        raise ConfigError(f"{source} is empty: write the model's name as the gateway's console shows it")
    if PLACEHOLDER_MODEL in model:
        raise ConfigError(
            f"{source} is still the article's placeholder {PLACEHOLDER_MODEL!r}: write the model's name as "
            "the gateway's console shows it"
        )
    if re.search(r"\s", model):
        raise ConfigError(f"{source} = {model!r} contains white space: write the name as the console shows it")
    return model


def suggest(model: str, served: list[str]) -> str:
    """`` (served: ...)`` with the closest served names, or an empty string."""
    close = difflib.get_close_matches(model, served, n=3, cutoff=0.5) or sorted(served)[:3]
    return f" (served are {', '.join(close)}{', ...' if len(served) > len(close) else ''})" if close else ""
