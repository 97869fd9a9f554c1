"""What was measured, in words: one short line a gate, numbers as they stand in the tables."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_elo.gates.language import AgainstRun, Threshold
from pytest_elo.gates.metrics import Unit
from pytest_elo.gates.results import Answer, GateResult

if TYPE_CHECKING:
    from pytest_elo.gates.against import Evidence
    from pytest_elo.rating.results import Measure

__all__ = ["against_found", "family_word", "gate_lines", "measure_found", "summary"]

TESTS = {
    "mcnemar": "McNemar mid-p",
    "tango": "Tango score test",
    "cluster-t": "t over items",
    "estimate-t": "t over items",
}
NAMED_AT_MOST = 10
WIDTH = 100


def measure_found(gate: Threshold, measure: Measure, ends: tuple[float | None, float | None], n_items: int) -> str:
    """``0.512 [0.44, 0.58] at 95 % over 198 items``, or why there is no number."""
    unit = gate.metric.unit
    over = f"over {n_items} items"
    if measure.value is None:
        return f"{measure.reason or 'not known'} ({over})"
    low, high = ends
    if gate.level is None:
        unknown = low is not None and high is not None and high > low
        spread = f"{_number(low, unit)}..{_number(high, unit)}" if unknown else _number(measure.value, unit)
        return f"{spread} {over}"
    interval = measure.interval
    if interval is None or interval.shape != "between":
        why = measure.reason or "the interval is unbounded"
        return f"{_number(measure.value, unit)} {over}; {why}"
    return f"{_number(measure.value, unit)} [{_end(low, unit)}, {_end(high, unit)}] at {interval.level:.0%} {over}"


def against_found(gate: AgainstRun, evidence: Evidence, adjusted_p: float | None, verdict: Answer) -> str:
    """The difference with its one-sided bounds, the test, and what is excluded or still needed."""
    if evidence.difference is None:
        return evidence.reason
    unit = evidence.unit
    text = f"{evidence.difference:+.1f} {unit}"
    if evidence.low is not None and evidence.high is not None:
        text += f" [{evidence.low:+.1f}, {evidence.high:+.1f}]"
    text += f" over {evidence.n_items} items"
    if adjusted_p is not None:
        text += f", p of failing {_p_value(adjusted_p)} ({TESTS.get(evidence.method, evidence.method)})"
    if verdict != "inconclusive":
        return text
    return text + "; " + "; ".join(_undecided(gate, evidence))


def family_word(tested: int, evidence: Evidence) -> str:
    return f", Holm over {tested} gates" if tested > 1 and evidence.p_fail is not None else ""


def _undecided(gate: AgainstRun, evidence: Evidence) -> Iterator[str]:
    low, high = evidence.low, evidence.high
    if gate.relation == "not_worse_than" and low is not None and low < 0:
        yield f"a loss above {-low:.1f} {evidence.unit} is excluded"
    if gate.relation == "better_than" and high is not None and high > 0:
        yield f"a gain above {high:.1f} {evidence.unit} is excluded"
    if evidence.needed is not None:
        yield f"{evidence.needed:,} items would decide a difference of this size"


def gate_lines(results: Sequence[GateResult]) -> list[str]:
    """The block under the table: every gate, what was found, what flipped; empty without gates."""
    if not results:
        return []
    out = [summary(results)]
    for result in results:
        out.append(f"  {result.answer.upper():<12} {result.gate}")
        details = [result.found, *result.remarks]
        if result.answer in ("fail", "inconclusive"):
            details += _flip_lines(result)
        out += [line for detail in details for line in _wrapped(detail)]
    return out


def summary(results: Sequence[GateResult]) -> str:
    """``gates: 3 passed, 1 failed``."""
    words = {"pass": "passed", "fail": "failed"}
    order = ("pass", "fail", "refused", "inconclusive", "skipped")
    counts = {answer: sum(result.answer == answer for result in results) for answer in order}
    text = ", ".join(f"{count} {words.get(answer, answer)}" for answer, count in counts.items() if count)
    strict = sum(result.strict and result.answer == "inconclusive" for result in results)
    only = f" (judged on what ran under {results[0].selection})" if results[0].selection else ""
    return f"gates{only}: {text}" + (f" ({strict} of them strict, so it breaks the build)" if strict else "")


def _flip_lines(result: GateResult) -> Iterator[str]:
    for word, items in (("worse", result.worse), ("better", result.better)):
        if items:
            shown = ", ".join(items[:NAMED_AT_MOST])
            rest = f" and {len(items) - NAMED_AT_MOST} more" if len(items) > NAMED_AT_MOST else ""
            yield f"{len(items)} items {word}: {shown}{rest}"


def _wrapped(text: str) -> list[str]:
    indent = " " * 15
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _number(value: float | None, unit: Unit) -> str:
    if value is None:
        return "-"
    if unit == "share":
        return f"{value:.3f}"
    if unit == "usd":
        return f"{value:,.6f} USD"
    return f"{value:,.1f}" if unit == "tokens" else f"{value:+,.2f}"


def _end(value: float | None, unit: Unit) -> str:
    return ".." if value is None else _number(value, unit)


def _p_value(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"
