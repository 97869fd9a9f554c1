"""Judge a measured number against a fixed one: on the point, or on its interval."""

from __future__ import annotations

from pytest_elo.gates.judged import JudgedRun
from pytest_elo.gates.language import Threshold, VerdictIs
from pytest_elo.gates.results import Answer, GateResult
from pytest_elo.gates.scope import Scope
from pytest_elo.gates.words import measure_found
from pytest_elo.rating.results import Measure

__all__ = ["judge_threshold", "judge_verdict"]


def judge_threshold(gate: Threshold, scope: Scope, run: JudgedRun) -> GateResult:
    """On the interval, all of it must lie on one side; a number that does not exist decides nothing."""
    if gate.metric.needs_strategy and scope.strategy is None:
        found = f"{gate.metric.name} belongs to a strategy; write one, such as {_example(run, scope)} {gate.text}"
        return GateResult(gate=gate.text, answer="refused", found=found, strict=gate.strict)
    measure = run.value(gate.metric, scope, gate.level)
    low, high = _range(gate, scope, run, measure)
    n = len({(outcome.task_id, outcome.item_id) for outcome in run.within(scope)})
    interval = measure.interval
    return GateResult(
        gate=gate.text,
        answer=_answer(gate, low, high),
        found=measure_found(gate, measure, (low, high), n),
        strict=gate.strict,
        numbers={
            "value": measure.value,
            "low": None if interval is None else interval.low,
            "high": None if interval is None else interval.high,
            "level": None if interval is None else interval.level,
            "threshold": gate.value,
            "items": n,
        },
    )


def judge_verdict(gate: VerdictIs, scope: Scope, run: JudgedRun) -> GateResult:
    rating = run.rate(None)
    ladders = [] if rating is None else [ladder for ladder in rating.ladders if scope.strategy in ladder.ladder]
    if not ladders:
        why = f"no rating: {run.unrated}" if rating is None else f"{scope} stands in no ladder"
        return GateResult(gate=gate.text, answer="inconclusive", found=why, strict=gate.strict)
    verdict = ladders[0].verdict
    return GateResult(
        gate=gate.text,
        answer="pass" if (verdict.code == gate.code) != gate.negated else "fail",
        found=f"{verdict.code} for {' -> '.join(ladders[0].tiers or ladders[0].ladder)}: {verdict.reason}",
        strict=gate.strict,
        numbers={"verdict": verdict.code, "items_needed": verdict.items_needed},
    )


def _example(run: JudgedRun, scope: Scope) -> str:
    others = [name for name in run.names.strategies if name != "baseline"] or ["r3"]
    return f"{scope.task}/{others[0]}" if scope.task else others[0]


def _range(gate: Threshold, scope: Scope, run: JudgedRun, measure: Measure) -> tuple[float | None, float | None]:
    """What the number may be: itself, its interval, or what is known of it; ``None`` is unbounded."""
    interval = measure.interval
    withheld = measure.value is None and interval is not None
    if gate.level is None and not withheld:
        high = run.tokens_high(scope, measure) if gate.metric.name == "tokens_per_item" else measure.value
        return measure.value, high
    if interval is None or interval.shape != "between":
        return None, None
    return interval.low, interval.high


def _answer(gate: Threshold, low: float | None, high: float | None) -> Answer:
    if gate.operator in (">=", ">"):
        passes = low is not None and (low >= gate.value if gate.operator == ">=" else low > gate.value)
        fails = high is not None and (high < gate.value if gate.operator == ">=" else high <= gate.value)
    else:
        passes = high is not None and (high <= gate.value if gate.operator == "<=" else high < gate.value)
        fails = low is not None and (low > gate.value if gate.operator == "<=" else low >= gate.value)
    return "pass" if passes else "fail" if fails else "inconclusive"
