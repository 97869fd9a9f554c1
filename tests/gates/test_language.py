"""The language of gates: what may be said, and the one line that says where a slip is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_elo.errors import ConfigError
from pytest_elo.gates.language import AgainstRun, Threshold, VerdictIs, parse
from pytest_elo.gates.metrics import METRICS


@pytest.mark.parametrize(
    ("text", "scope", "metric", "operator", "value", "level"),
    [
        ("gpqa/r3 score >= 0.45", "gpqa/r3", "score", ">=", 0.45, None),
        ("gpqa/r3 score>=45%", "gpqa/r3", "score", ">=", 0.45, None),
        ("r3 delta_elo > 0 at 95%", "r3", "delta_elo", ">", 0.0, 0.95),
        ("r3 delta_elo > -5.5", "r3", "delta_elo", ">", -5.5, None),
        ("infra_errors <= 2%", "", "infra_errors", "<=", 0.02, None),
        ('"my task/r3" tokens_per_item < 8e3', "my task/r3", "tokens_per_item", "<", 8000.0, None),
        ("score score >= .4", "score", "score", ">=", 0.4, None),
    ],
)
def test_thresholds(text, scope, metric, operator, value, level):
    gate = parse(text, "elo.yaml")
    assert isinstance(gate, Threshold)
    assert (gate.scope, gate.metric.name, gate.operator, gate.value) == (scope, metric, operator, value)
    assert gate.level == level


def test_comparisons_with_a_stored_run():
    gate = parse("gpqa/r3 not_worse_than main by 2 points at 99% strict", "elo.yaml")
    assert gate == AgainstRun(
        text="gpqa/r3 not_worse_than main by 2 points at 99% strict",
        scope="gpqa/r3",
        relation="not_worse_than",
        reference="main",
        margin=2.0,
        unit="points",
        level=0.99,
        strict=True,
    )
    gate = parse("better_than .elo/20260101-000000-ab12", "elo.yaml")
    assert isinstance(gate, AgainstRun)
    assert (gate.scope, gate.reference, gate.margin, gate.level) == ("", ".elo/20260101-000000-ab12", None, 0.95)


def test_verdicts():
    gate = parse("verdict(r5) != HARMFUL", "elo.yaml")
    assert gate == VerdictIs(text="verdict(r5) != HARMFUL", scope="r5", code="HARMFUL", negated=True, strict=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "column 1: is empty"),
        ("r3 scroe >= 0.4", "column 4: 'scroe' is no metric; did you mean 'score'?"),
        ("scroe >= 0.4", "column 1: 'scroe' is no metric; did you mean 'score'?"),
        ("r3 score >= 45", "column 13: score is a share: write 45% or a number from 0 to 1"),
        ("r3 score == 0.4", "column 10: a measured number is never exactly another"),
        ("r3 score >=", "column 12: expected a number, but the gate ends here"),
        ("r3 delta_elo > 5%", "column 16: delta_elo is measured in elo, not in percent"),
        ("r3 delta_elo > 0 at 0.95", "column 21: a level is a percentage above 50 and below 100, such as 95%"),
        ("r3 delta_elo > 0 atr 95%", "column 18: did not expect 'atr'; did you mean 'at'?"),
        ("r3 not_worse_then main", "column 4: 'not_worse_then' is no metric; did you mean 'not_worse_than'?"),
        ("r3 not_worse_than", "column 18: expected the name of a stored baseline"),
        ("r3 not_worse_than main by 2", "column 28: expected 'points' or 'elo' after 2"),
        ("r3 not_worse_than main by 0 points", "column 27: a margin is above 0"),
        ("verdict(r5) != HARMFULL", "column 16: 'HARMFULL' is no verdict; did you mean 'HARMFUL'?"),
        ('r3 "score >= 1', "column 4: did not expect '\"'"),
    ],
)
def test_a_slip_is_one_line_with_its_column(text, said):
    with pytest.raises(ConfigError) as caught:
        parse(text, "elo.yaml: gates[2]")
    message = str(caught.value)
    assert said in message
    assert message.startswith("elo.yaml: gates[2]: gate ")
    assert len(message.splitlines()) == 1


words = st.sampled_from([*METRICS, "not_worse_than", "better_than", "verdict", "r3", "gpqa/r3", "main", "by", "at"])
signs = st.sampled_from(["(", ")", ">=", "<", "==", "%", '"', "2", "-0.5", "points", "strict", "HARMFUL", "é", "\n"])


@settings(deadline=None)
@given(st.lists(words | signs | st.text(max_size=3), max_size=8))
def test_any_text_is_a_gate_or_one_line(parts):
    try:
        gate = parse(" ".join(parts), "--elo-gate")
    except ConfigError as error:
        said = str(error)
    else:
        assert parse(gate.text, "--elo-gate") == gate
        return
    assert "column" in said
