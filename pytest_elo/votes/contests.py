"""What a run put to the vote: ``contests.jsonl``, one arena prompt a line, and the ballots that come of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_elo.errors import DataError

__all__ = ["Contested", "read_contests"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contested:
    """One prompt in one repeat, as judges and voters see it, and the pairs that its plan holds."""

    task_id: str
    item_id: str
    repeat: int
    prompt: str
    plan: str
    pairs: Sequence[tuple[str, str]]


def read_contests(path: Path) -> Sequence[Contested]:
    """Raises :class:`DataError` naming file and line."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    return tuple(_contest(line, f"{path}:{n}") for n, line in enumerate(lines, start=1) if line.strip())


def _contest(line: str, where: str) -> Contested:
    try:
        values: dict[str, Any] = json.loads(line)
        named = {name: values[name] for name in ("task_id", "item_id", "repeat", "prompt", "plan")}
        return Contested(**named, pairs=[(a, b) for a, b in values["pairs"]])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{where}: not a contest ({error}); is this a file of pytest-elo?") from None
