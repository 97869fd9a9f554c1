"""Judge all gates of a run: thresholds one by one, run-to-run gates as one family."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_elo.errors import ConfigError, EloError
from pytest_elo.gates.against import Evidence, answer, measure
from pytest_elo.gates.judged import JudgedRun
from pytest_elo.gates.language import AgainstRun, Gate, Threshold, VerdictIs
from pytest_elo.gates.pairing import Pairing, pair, require_comparable
from pytest_elo.gates.results import GateResult
from pytest_elo.gates.scope import NotRunError, Scope, UnknownNameError
from pytest_elo.gates.snapshot import Snapshot
from pytest_elo.gates.thresholds import judge_threshold, judge_verdict
from pytest_elo.gates.words import against_found, family_word
from pytest_elo.rating.paired import holm

__all__ = ["Judging", "judge"]


@dataclass(frozen=True, slots=True)
class Judging:
    """How gates are judged besides what they say."""

    strict: bool = False
    """every gate is strict"""
    allowed: Collection[str] = ()
    """conditions that may differ between runs, and ``self_judging``"""
    selection: str = ""
    """how the run was narrowed (``-k r3``), in words; empty for the whole suite"""
    baseline: Callable[[str], Snapshot | None] = lambda name: None
    """the stored run of a name; ``None`` where none was ever stored. Raises ``EloError``"""


def judge(gates: Sequence[Gate], run: JudgedRun, how: Judging) -> tuple[GateResult, ...]:
    """The answer to every gate, in order.

    Raises ``ConfigError`` for a name that stands for nothing, unless the run was narrowed: then what did
    not run is skipped and said to be.
    """
    comparisons = _Comparisons(run, how)
    groups = [_judge_one(gate, run, how, comparisons) for gate in gates]
    comparisons.correct()
    return tuple(
        replace(result, strict=result.strict or how.strict, selection=how.selection)
        for group in groups
        for result in (comparisons.finished(found) if isinstance(found, int) else found for found in group)
    )


def _judge_one(gate: Gate, run: JudgedRun, how: Judging, comparisons: _Comparisons) -> list[GateResult | int]:
    try:
        scope = run.names.resolve(gate.scope)
    except NotRunError as problem:
        return [GateResult(gate=gate.text, answer="skipped", found=str(problem), strict=gate.strict)]
    except UnknownNameError as problem:
        if how.selection:
            found = f"{problem.args[0].split(';')[0]} under {how.selection}"
            return [GateResult(gate=gate.text, answer="skipped", found=found, strict=gate.strict)]
        raise ConfigError(f"gate {gate.text!r}: {problem}") from None
    barred = _barred(gate, scope, run, how)
    if barred:
        return [GateResult(gate=gate.text, answer="refused", found=barred, strict=gate.strict)]
    if isinstance(gate, Threshold):
        return [judge_threshold(gate, scope, run)]
    if isinstance(gate, VerdictIs):
        return [judge_verdict(gate, scope, run)]
    return comparisons.add(gate, scope)


def _barred(gate: Gate, scope: Scope, run: JudgedRun, how: Judging) -> str:
    """Why the numbers of this scope may decide nothing; empty if they may."""
    outcomes = list(run.within(scope))
    oracles = sorted({outcome.strategy for outcome in outcomes if "oracle" in outcome.marks})
    about_quality = not isinstance(gate, Threshold) or gate.metric.unit not in ("tokens", "usd")
    if oracles and about_quality and scope.strategy is not None:
        return f"{oracles[0]} selects with the answer key (oracle): a ceiling, not a result that can be merged on"
    if oracles and about_quality:
        return f"{', '.join(oracles)} selects with the answer key (oracle); name the strategies this gate is about"
    if "self_judging" in how.allowed:
        return ""
    models: dict[str, set[str]] = defaultdict(set)
    for outcome in outcomes:
        models[outcome.task_id].add(outcome.model)
    own = sorted(task for task, judges in run.judges.items() if models[task] & set(judges))
    if own and about_quality:
        return f"in {', '.join(own)} a model judges its own answers; choose another judge, or allow: [self_judging]"
    return ""


class _Comparisons:
    """The family of run-to-run tests: all are measured first, then corrected together."""

    def __init__(self, run: JudgedRun, how: Judging) -> None:
        self._run = run
        self._how = how
        self._open: list[tuple[AgainstRun, Snapshot, Pairing, Evidence, list[str]]] = []
        self._adjusted: list[float | None] = []

    def add(self, gate: AgainstRun, scope: Scope) -> list[GateResult | int]:
        """Measure the gate, once a strategy where it names none; gives results or places in the family."""
        try:
            stored = self._how.baseline(gate.reference)
            remarks = [] if stored is None else require_comparable(self._run.snapshot, stored, self._how.allowed)
        except EloError as problem:
            return [GateResult(gate=gate.text, answer="refused", found=str(problem), strict=gate.strict)]
        if stored is None:
            found = f"no baseline {gate.reference!r} is stored yet; make one with: pytest-elo baseline save"
            return [GateResult(gate=gate.text, answer="inconclusive", found=found, strict=gate.strict)]
        return list(self._measured(gate, scope, stored, remarks))

    def _measured(self, gate: AgainstRun, scope: Scope, stored: Snapshot, remarks: list[str]) -> Iterator[int]:
        both = [name for name in self._run.snapshot.strategies if name in stored.strategies]
        strategies = [scope.strategy] if scope.strategy is not None else both or list(self._run.snapshot.strategies)
        for strategy in strategies:
            pairing = pair(self._run.snapshot, stored, (scope.task, strategy))
            self._open.append((gate, stored, pairing, measure(gate, pairing), remarks))
            yield len(self._open) - 1

    def correct(self) -> None:
        tested = [i for i, entry in enumerate(self._open) if entry[3].p_fail is not None]
        adjusted = holm([self._open[i][3].p_fail or 0.0 for i in tested])
        self._adjusted = [None] * len(self._open)
        for i, p_value in zip(tested, adjusted, strict=True):
            self._adjusted[i] = p_value

    def finished(self, place: int) -> GateResult:
        gate, stored, pairing, evidence, remarks = self._open[place]
        adjusted = self._adjusted[place]
        tested = sum(p_value is not None for p_value in self._adjusted)
        named = gate.text if gate.scope else f"{pairing.strategy}: {gate.text}"
        verdict = answer(evidence, adjusted, gate.level)
        return GateResult(
            gate=named,
            answer=verdict,
            found=against_found(gate, evidence, adjusted, verdict) + family_word(tested, evidence),
            strict=gate.strict,
            remarks=(*remarks, *pairing.remarks(stored.name)),
            worse=tuple(map(str, pairing.worse)),
            better=tuple(map(str, pairing.better)),
            numbers={
                "difference": evidence.difference,
                "low": evidence.low,
                "high": evidence.high,
                "unit": evidence.unit,
                "level": gate.level,
                "p": evidence.p_fail,
                "p_adjusted": adjusted,
                "method": evidence.method,
                "items": evidence.n_items,
                "items_needed": evidence.needed,
            },
        )
