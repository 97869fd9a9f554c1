"""Text that others wrote (files, gateways, programs) to values; what cannot be one is always a ``ValueError``."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection
from typing import Any

__all__ = ["parse_json", "parse_json_at", "parse_toml", "parse_yaml", "refuse_deep", "refuse_overgrown"]

_DECODER = json.JSONDecoder()

DEPTH_AT_MOST = 200
"""Containers in one another. Python's own limit lies between 1,000 and 100,000 by version and thread, and what walks
a value afterwards meets it earlier than the parser did."""

GROWN_AT_MOST = 100_000
"""Values of a YAML file with its aliases written out, beyond ten times those that it holds."""

_LONG_KEY = re.compile(rf"(?<![^\s.=])(?:[^\s.=]++[ \t]*+\.[ \t]*+){{{DEPTH_AT_MOST}}}")


def parse_json(text: str | bytes) -> Any:
    """The value that ``text`` holds. Raises ``ValueError`` for what is no JSON, or nested deeper than any of ours."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise _too_deep() from None
    opened = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if opened > DEPTH_AT_MOST:
        refuse_deep(value)
    return value


def parse_json_at(text: str, at: int) -> tuple[Any, int]:
    """The value that begins at ``at``, and where it ends; else as :func:`parse_json`."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except RecursionError:
        raise _too_deep() from None
    refuse_deep(value)
    return value, end


def parse_toml(text: str) -> dict[str, Any]:
    """The document. Raises ``ValueError`` as :func:`parse_json`."""
    if _LONG_KEY.search(text):  # tomllib takes the square of a key's parts in time, a minute for 20,000
        raise _too_deep()
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise _too_deep() from None
    refuse_deep(document)
    return document


def parse_yaml(text: str) -> Any:
    """The document, with standard tags only. Raises ``ValueError`` that begins with the line, as far as it is known."""
    import yaml  # imported here: a project without evals never pays for it

    try:
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise ValueError(f"line {mark.line + 1}: {problem}" if mark else problem) from None
    except RecursionError:
        raise _too_deep() from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # what PyYAML makes of a date like 2026-99-99 or of !!bool x
        raise ValueError(f"a value is not what its form or tag says ({error})") from None
    refuse_overgrown(document, _inside)
    return document


def refuse_deep(value: Any) -> None:
    """Raises ``ValueError`` where lists and mappings stand more than ``DEPTH_AT_MOST`` deep in one another."""
    level = [value]
    for _ in range(DEPTH_AT_MOST):
        level = [inner for outer in level for inner in _inside(outer) or () if isinstance(inner, dict | list)]
        if not level:
            return
    raise _too_deep()


def refuse_overgrown(root: Any, inside: Callable[[Any], Collection[Any] | None]) -> None:
    """Raises ``ValueError`` for what YAML's aliases make: a value in itself, or nine lines that are a billion values.

    ``inside`` gives what stands in a value, ``None`` for a scalar. Nesting is bounded as in JSON.
    """
    grown: dict[int, tuple[int, int]] = {}  # of each list and mapping: its values, written out, and its depth
    around: set[int] = set()
    waiting = [(root, False)]
    held = 0
    while waiting:
        value, is_done = waiting.pop()
        parts = inside(value)
        if parts is None or id(value) in grown:
            continue
        if is_done:
            around.discard(id(value))
            sizes = [grown.get(id(part), (1, 0)) for part in parts]
            n, depth = 1 + sum(n for n, _ in sizes), 1 + max((depth for _, depth in sizes), default=0)
            held += 1 + len(parts)
            if n > GROWN_AT_MOST + 10 * held:
                raise ValueError("its aliases repeat values until they are too many")
            if depth > DEPTH_AT_MOST:
                raise _too_deep()
            grown[id(value)] = n, depth
        elif id(value) in around:
            raise ValueError("a value holds itself (an alias inside its own anchor)")
        else:
            around.add(id(value))
            waiting.append((value, True))
            waiting += [(part, False) for part in parts if inside(part) is not None]


def _inside(value: Any) -> Collection[Any] | None:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else None


def _too_deep() -> ValueError:
    return ValueError(f"nested more than {DEPTH_AT_MOST} deep")
