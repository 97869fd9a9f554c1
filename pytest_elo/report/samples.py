"""What the samples behind failed cases said: from the run's response store, as far as it is there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.records import Attempt

__all__ = ["SAMPLE_LIMIT", "sample_texts"]

SAMPLE_LIMIT = 1_500
"""Characters kept of a sample: the page shows less where many must fit."""

_MARK = b'"call_id": "'


def sample_texts(responses: Path, rows: Iterable[Attempt]) -> dict[str, str]:
    """call id -> the reply's text, for calls of ``rows`` that were answered; a replay's store is empty."""
    wanted = {row.call_id for row in rows if row.status == "ok"}
    found: dict[str, str] = {}
    if not wanted or not responses.is_dir():
        return found
    for path in sorted(responses.glob("recorded-*.jsonl")):
        with path.open("rb") as stream:
            for line in stream:
                # the purchase is the last field: a line that is not wanted is not parsed
                call_id = line.rpartition(_MARK)[2].partition(b'"')[0].decode("utf-8", "replace")
                if call_id in wanted and call_id not in found:
                    found[call_id] = _text(line)[:SAMPLE_LIMIT]
    return found


def _text(line: bytes) -> str:
    try:
        body: Any = parse_json(line)["body"]
        return str(body["choices"][0]["content"] or "")
    except (ValueError, KeyError, IndexError, TypeError):
        return ""  # a torn line, or a reply of another form: there is no text to show
