"""The live line: one status line below pytest's dots, on a terminal only; logs and pipes never see it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import pytest

from pytest_elo._parse import parse_json
from pytest_elo.config import Price
from pytest_elo.ledger.prices import usd_of
from pytest_elo.records import Attempt, Outcome, is_scored

__all__ = ["LiveLine", "Tally", "open_terminal"]

INTERVAL_S = 0.2
FALLBACK_COLUMNS = 80
"""Of a terminal that does not know its width."""

# Make room for a line below without losing the column, go there, write, and come back.
_BELOW = "\x1b[K\x1bD\x1bM\x1b7\x1b[B\r\x1b[2K{}\x1b8"
_CLEAR = "\x1b[J"


@dataclass(slots=True)
class Tally:
    """What the line counts, from the events that reports bring."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    tokens: int = 0
    usd: float = 0.0
    throttled: int = 0
    scores: dict[str, list[float]] = field(default_factory=dict)
    _open: set[tuple[str, int]] = field(default_factory=set)
    _closed: set[tuple[str, int]] = field(default_factory=set)

    @property
    def in_flight(self) -> int:
        return len(self._open - self._closed)

    def add_lines(self, events: str) -> None:
        for line in events.splitlines():
            event = parse_json(line)
            if "open" in event:
                self._open.add((event["open"]["call_id"], event["open"]["attempt"]))
            elif "close" in event:
                self._close(Attempt.from_dict(event["close"]))
            elif "outcome" in event:
                self._score(Outcome.from_dict(event["outcome"]))

    def _close(self, row: Attempt) -> None:
        place = (row.call_id, row.attempt)
        if place in self._closed:
            return
        self._closed.add(place)
        self.tokens += row.total_tokens
        self.usd += usd_of(row, self.prices) or 0.0
        self.throttled += row.http_status == 429

    def _score(self, outcome: Outcome) -> None:
        if is_scored(outcome):
            self.scores.setdefault(outcome.strategy, []).append(outcome.score)

    def text(self, done: int, expected: int, elapsed_s: float, width: int) -> str:
        """``elo 120/600, 40 in flight, 12,345 tokens, r3 0.71, 2 throttled, 2:10 left``, cut to ``width``."""
        parts = [f"elo {done}/{expected}" if expected else f"elo {done}"]
        parts += [f"{self.in_flight} in flight"] if self.in_flight else []
        parts.append(f"{self.tokens:,} tokens")
        parts += [f"${self.usd:.2f}"] if self.usd else []
        parts += [f"{name} {sum(found) / len(found):.2f}" for name, found in sorted(self.scores.items())]
        parts += [f"{self.throttled} throttled"] if self.throttled else []
        if 0 < done < expected:
            left = round(elapsed_s / done * (expected - done))
            parts.append(f"{left // 60}:{left % 60:02d} left")
        return ", ".join(parts)[: max(0, width - 1)]


class LiveLine:
    """Registered on the controller of an interactive session."""

    def __init__(self, terminal: IO[str], expected: Callable[[], int], tally: Tally) -> None:
        self._terminal = terminal
        self._expected = expected
        self._tally = tally
        self._done = 0
        self._started = time.monotonic()
        self._shown_at = 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tally.add_lines(getattr(report, "elo_events", ""))
        self._done += report.when == "teardown"
        now = time.monotonic()
        if now - self._shown_at < INTERVAL_S:
            return
        self._shown_at = now
        columns = os.get_terminal_size(self._terminal.fileno()).columns or FALLBACK_COLUMNS
        text = self._tally.text(self._done, self._expected(), now - self._started, columns)
        self._write(_BELOW.format(text))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._write(_CLEAR)
        self._terminal.close()

    def _write(self, text: str) -> None:
        self._terminal.write(text)
        self._terminal.flush()


def open_terminal(config: pytest.Config) -> IO[str] | None:
    """The terminal to draw on; ``None`` without one, in CI, with ``-q``, ``-s`` or a terminal that cannot move."""
    option: Any = config.option
    plain = option.verbose < 0 or option.capture == "no" or os.environ.get("TERM", "dumb") == "dumb"
    if plain or "CI" in os.environ or not os.isatty(1):
        return None
    try:
        return open("/dev/tty", "w", encoding="utf-8")
    except OSError:
        return None
