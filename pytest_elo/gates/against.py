"""The test behind a run-to-run gate: paired on items, one-sided, three-valued.

A gate passes or fails on evidence only. ``not_worse_than main`` asks for evidence in either direction;
``by 2 points`` sets the loss that may go unseen (non-inferiority). Many gates are one family: a build breaks
if any gate fails, so the p values of failing are corrected by Holm; it is accepted if all pass, and a test
that all of several hypotheses hold needs no correction (Berger 1982).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import stdev

from pytest_elo.gates.language import AgainstRun
from pytest_elo.gates.pairing import Pairing
from pytest_elo.gates.results import Answer
from pytest_elo.rating.paired import PairedTest, estimate_test, noninferiority_test, regression_test
from pytest_elo.rating.power import items_needed

__all__ = ["Evidence", "answer", "measure"]

POINTS = 100.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the paired items say of one gate; ``unit`` is points of score or Elo."""

    n_items: int
    difference: float | None
    """this run minus the stored one"""
    low: float | None
    """one-sided lower bound at the gate's level"""
    high: float | None
    margin: float
    unit: str
    p_fail: float | None
    """small: evidence that what the gate demands does not hold"""
    passes: bool
    may_fail: bool
    """the estimate lies on the failing side by more than its bound, where there is a margin"""
    method: str
    needed: int | None
    """items that would decide with 80 % power, if the true difference were the observed one"""
    reason: str
    """why nothing could be tested; empty otherwise"""


def answer(evidence: Evidence, adjusted_p: float | None, level: float) -> Answer:
    """``adjusted_p`` is the Holm-adjusted p value of failing."""
    if adjusted_p is not None and adjusted_p < 1.0 - level and evidence.may_fail:
        return "fail"
    return "pass" if evidence.passes else "inconclusive"


def measure(gate: AgainstRun, pairing: Pairing) -> Evidence:
    """Test one gate on the items both runs scored."""
    if not pairing.items:
        return _nothing(gate, "no item was scored in both runs")
    if gate.unit == "elo":
        return _elo(gate, pairing)
    ours, theirs = pairing.scores
    if gate.margin is None:
        return _any_difference(gate, ours, theirs)
    return _with_margin(gate, ours, theirs)


def _any_difference(gate: AgainstRun, ours: Sequence[float], theirs: Sequence[float]) -> Evidence:
    loss = regression_test(ours, theirs, level=gate.level)
    gain = regression_test(theirs, ours, level=gate.level)
    if loss.p_value is None or loss.difference is None or loss.low is None or gain.p_value is None:
        return _nothing(gate, loss.reason)
    better = gain.p_value < 1.0 - gate.level and loss.difference > 0.0
    passes = better if gate.relation == "better_than" else loss.low >= 0.0 or better
    return _evidence(gate, loss, ours, theirs, p_fail=loss.p_value, passes=passes, may_fail=loss.difference < 0.0)


def _with_margin(gate: AgainstRun, ours: Sequence[float], theirs: Sequence[float]) -> Evidence:
    assert gate.margin is not None
    margin = gate.margin / POINTS
    if gate.relation == "not_worse_than":
        test = noninferiority_test(ours, theirs, margin=margin, level=gate.level)
        if test.p_value is None or test.high is None:
            return _nothing(gate, test.reason)
        return _evidence(
            gate, test, ours, theirs,
            p_fail=1.0 - test.p_value, passes=test.answer == "pass", may_fail=test.high < -margin,
        )  # fmt: skip
    # "Better by m" is the failure of "the stored run loses less than m to this one".
    test = noninferiority_test(theirs, ours, margin=margin, level=gate.level)
    if test.p_value is None:
        return _nothing(gate, test.reason)
    return _evidence(
        gate, _mirrored(test), ours, theirs,
        p_fail=test.p_value, passes=test.answer == "fail", may_fail=test.answer == "pass",
    )  # fmt: skip


def _mirrored(test: PairedTest) -> PairedTest:
    from dataclasses import replace

    def minus(value: float | None) -> float | None:
        return None if value is None else -value

    return replace(test, difference=minus(test.difference), low=minus(test.high), high=minus(test.low))


def _evidence(
    gate: AgainstRun,
    test: PairedTest,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    p_fail: float,
    passes: bool,
    may_fail: bool,
) -> Evidence:
    n = test.n_items
    gaps = [a - b for a, b in zip(ours, theirs, strict=True)]
    se = stdev(gaps) / math.sqrt(n) if n > 1 else 0.0
    difference = test.difference or 0.0
    effect = difference + _demanded(gate) / POINTS
    return Evidence(
        n_items=n,
        difference=POINTS * difference,
        low=None if test.low is None else POINTS * test.low,
        high=None if test.high is None else POINTS * test.high,
        margin=gate.margin or 0.0,
        unit="points",
        p_fail=p_fail,
        passes=passes,
        may_fail=may_fail,
        method=test.method,
        needed=items_needed(n, se, effect, level=gate.level, sides=1),
        reason="",
    )


def _demanded(gate: AgainstRun) -> float:
    """What is added to the difference so that the gate's border lies at 0."""
    margin = gate.margin or 0.0
    return margin if gate.relation == "not_worse_than" else -margin


def _elo(gate: AgainstRun, pairing: Pairing) -> Evidence:
    """ΔElo of this run against the stored one on the same items, fitted as if both were strategies."""
    assert gate.margin is not None
    delta, se = _fitted(pairing)
    df = float(len(pairing.items) - len(pairing.tasks))
    if delta is None or not se or df < 1:
        return _nothing(gate, "no standard error of ΔElo: too few items, or all say the same")
    sign = 1.0 if gate.relation == "not_worse_than" else -1.0
    test = estimate_test(sign * delta, se, df, margin=gate.margin, level=gate.level, n_items=len(pairing.items))
    assert test.p_value is not None
    assert test.low is not None
    assert test.high is not None
    fails_on = 1.0 - test.p_value if sign > 0 else test.p_value
    low, high = (test.low, test.high) if sign > 0 else (-test.high, -test.low)
    return Evidence(
        n_items=len(pairing.items),
        difference=delta,
        low=low,
        high=high,
        margin=gate.margin,
        unit="Elo",
        p_fail=fails_on,
        passes=test.answer == ("pass" if sign > 0 else "fail"),
        may_fail=test.answer == ("fail" if sign > 0 else "pass"),
        method=test.method,
        needed=items_needed(len(pairing.items), se, delta + _demanded(gate), level=gate.level, sides=1),
        reason="",
    )


def _fitted(pairing: Pairing) -> tuple[float | None, float | None]:
    from pytest_elo.rating import Settings, comparisons_from_outcomes, evaluate

    names = tuple(sorted(set(pairing.item_tasks)))
    code = {name: number for number, name in enumerate(names)}
    cells = [
        (item, policy, repeat, score)
        for item, both in enumerate(zip(pairing.theirs, pairing.ours, strict=True))
        for policy, side in enumerate(both)
        for repeat, score in enumerate(side.scores)
    ]
    item, policy, repeat, score = zip(*cells, strict=True)
    rows = comparisons_from_outcomes(
        tasks=names,
        items=pairing.items,
        policies=("stored", "this"),
        task=[code[pairing.item_tasks[number]] for number in item],
        item=item,
        policy=policy,
        repeat=repeat,
        score=score,
    )
    report = evaluate(rows, None, Settings(anchor="stored"))
    delta = next(policy.delta for policy in report.policies if not policy.is_anchor)
    return delta.value, delta.se


def _nothing(gate: AgainstRun, reason: str) -> Evidence:
    return Evidence(
        n_items=0,
        difference=None,
        low=None,
        high=None,
        margin=gate.margin or 0.0,
        unit="Elo" if gate.unit == "elo" else "points",
        p_fail=None,
        passes=False,
        may_fail=False,
        method="none",
        needed=None,
        reason=reason,
    )
