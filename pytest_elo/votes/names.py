"""Whether two names mean the same model: a judge must know when it judges itself."""

from __future__ import annotations

import re

__all__ = ["same_model"]

_VERSION = re.compile(r"[-@:](?:\d{4}-?\d{2}-?\d{2}|\d{4}|latest|preview)$")


def same_model(one: str, other: str) -> bool:
    """True for equal names and for aliases: provider prefix, letter case, trailing date, ``-latest``.

    ``openai/GPT-4o-2024-08-06`` is ``gpt-4o``; ``gpt-4o-mini`` is not.
    """
    return _plain(one) == _plain(other) != ""


def _plain(name: str) -> str:
    plain = re.sub(r"[\s_]+", "-", name.strip().lower().rpartition("/")[2])
    while (shorter := _VERSION.sub("", plain)) != plain:
        plain = shorter
    return plain
