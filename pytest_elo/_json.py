"""JSON that others wrote: files, gateways, programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

__all__ = ["parse_json", "parse_json_at", "refuse_deep"]

_DECODER = json.JSONDecoder()

DEPTH_AT_MOST = 200
"""Containers in one another. Python's own limit lies between 1,000 and 100,000 by version and thread, and what walks
a value afterwards meets it earlier than the parser did."""


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


def refuse_deep(value: Any) -> None:
    """Raises ``ValueError`` where lists and mappings stand more than ``DEPTH_AT_MOST`` deep in one another."""
    level = [value]
    for _ in range(DEPTH_AT_MOST):
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, dict | list)]
        if not level:
            return
    raise _too_deep()


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep() -> ValueError:
    return ValueError(f"nested more than {DEPTH_AT_MOST} deep")
