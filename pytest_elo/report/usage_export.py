"""What a provider says it billed: a number, or a CSV export whose columns are found by their usual names."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pytest_elo.errors import DataError

__all__ = ["BilledUsage", "read_billed"]

_NAMES: Mapping[str, tuple[str, ...]] = {
    "model": ("model", "model_name", "model_id", "model_version", "snapshot_id"),
    "day": ("day", "date", "usage_date", "usage_date_utc", "ts", "timestamp", "time", "start_time", "created_at"),
    "strategy": ("strategy", "tag", "label"),
    "prompt": ("prompt_tokens", "input_tokens", "n_context_tokens_total", "usage_input_tokens_no_cache"),
    "completion": ("completion_tokens", "output_tokens", "n_generated_tokens_total", "usage_output_tokens"),
    "total": ("total_tokens", "tokens", "total"),
    "requests": ("requests", "num_model_requests", "n_requests", "calls", "request_count"),
}
DIGITS_AT_MOST = 18
"""Of a number of tokens; anything longer is a file's name."""
_BESIDE_PROMPT = re.compile(
    r"(usage_)?(cache_(read|creation|write)_input_tokens|input_tokens_cache_(read|write|creation)(_\w+)?)"
)
"""Parts of the prompt that stand beside ``input_tokens`` and not in it, as in Anthropic's API and exports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledUsage:
    """One line of the bill. Empty words and ``None`` for what it does not say."""

    model: str = ""
    day: str = ""
    strategy: str = ""
    prompt: int | None = None
    completion: int | None = None
    total: int
    requests: int | None = None


def read_billed(source: str) -> list[BilledUsage]:
    """``source`` is a number of tokens or the path of a CSV file; raises ``DataError`` naming the file and line."""
    plain = source.replace(",", "").replace("_", "").strip()
    if plain.isdecimal() and len(plain) <= DIGITS_AT_MOST:
        return [BilledUsage(total=int(plain))]
    path = Path(source)
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            return list(_read(path, csv.DictReader(stream)))
    except OSError as error:
        raise DataError(f"--billed {source}: no number, and no file that can be read ({error.strerror})") from None
    except (ValueError, csv.Error) as error:  # not UTF-8, or a name with a NUL
        raise DataError(f"{path} is no CSV in UTF-8 ({error})") from None


def _read(path: Path, reader: csv.DictReader[str]) -> Iterator[BilledUsage]:
    columns = _columns(path, reader.fieldnames or ())
    beside = [name for name in reader.fieldnames or () if _BESIDE_PROMPT.fullmatch(_plain(name))]
    for line, row in enumerate(reader, start=2):
        if not any(value for value in row.values() if isinstance(value, str) and value.strip()):
            continue
        counts = {
            name: _count(row.get(column), f"{path}, line {line}: {column}")
            for name, column in columns.items()
            if name not in ("model", "day", "strategy")
        }
        prompt = counts.get("prompt")
        if prompt is not None:
            prompt += sum(_count(row.get(name), f"{path}, line {line}: {name}") or 0 for name in beside)
        completion, total = counts.get("completion"), counts.get("total")
        if total is None:
            total = (prompt or 0) + (completion or 0)
        yield BilledUsage(
            model=(row.get(columns.get("model", "")) or "").strip(),
            day=_day(row.get(columns.get("day", "")) or "", f"{path}, line {line}"),
            strategy=(row.get(columns.get("strategy", "")) or "").strip(),
            prompt=prompt,
            completion=completion,
            total=total,
            requests=counts.get("requests"),
        )


def _columns(path: Path, header: Iterable[str]) -> dict[str, str]:
    by_plain = {_plain(name): name for name in header}
    found = {
        meaning: by_plain[name] for meaning, names in _NAMES.items() for name in reversed(names) if name in by_plain
    }
    if "total" not in found and not {"prompt", "completion"} <= found.keys():
        raise DataError(
            f"{path}: no column tells the tokens; it needs total_tokens, or input_tokens and output_tokens "
            f"(it has {', '.join(by_plain.values()) or 'no header'})"
        )
    return found


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name.strip().lower()).strip("_")


def _count(value: str | None, where: str) -> int | None:
    text = (value or "").strip().replace(",", "").replace("_", "")
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if number < 0 or not number.is_integer():
        raise DataError(f"{where} is {value!r}; a count is a whole number of at least 0")
    return int(number)


def _day(value: str, where: str) -> str:
    text = value.strip()
    if not text:
        return ""
    if re.fullmatch(r"\d{9,10}(\.\d+)?", text):
        return datetime.fromtimestamp(float(text), UTC).date().isoformat()
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace("/", "-"))
        return (moment.astimezone(UTC) if moment.tzinfo else moment).date().isoformat()
    except (ValueError, OverflowError):
        raise DataError(f"{where}: {value!r} is no date; write it like 2026-01-31") from None
