from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_elo.records import Reply
from pytest_elo.tasks.arena.verdict import (
    mask_verdicts,
    panel_majority,
    read_verdict,
    settle_orders,
)
from tests.hang import ends

MENU = "[[A]], [[B]] or [[C]]"


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("Reasons.\n[[A]]", "A"),
        ("final verdict: [[b]]", "B"),
        ("**[[ C ]]**", "C"),
        ("[[**A**]]", "A"),
        ("One could say [[A]]; on reflection B covers more.\n\n[[B]]", "B"),
        ("My verdict is [[A]] for its clarity.", "A"),
        (f"I must choose {MENU}. B is wrong.\n[[A]]", "A"),
        ('Output "[[A]]" if assistant A is better.\n\nVerdict: [[B]]', "B"),
        ("[[A>>B]]", "A"),
        ("[[A=B]]", "C"),
        ("[[Tie]]", "C"),
        ("A", "A"),
        ("b\n", "B"),
        ("Both are fine.\n\n**Verdict: B**", "B"),
        ("Assistant A is better.", "A"),
        ("Tie", "C"),
        ("<think>clearly [[A]]</think>[[B]]", "B"),
        ("cut off at the front [[A]]</think>[[B]]", "B"),
    ],
)
def test_the_last_declared_verdict_counts(text: str, slot: str) -> None:
    assert read_verdict(Reply(call_id="1", text=text, finish_reason="stop")).slot == slot


@pytest.mark.parametrize(
    ("text", "finish_reason", "reason"),
    [
        ("", "stop", "empty"),
        ("", "length", "truncated"),
        (f"I will answer with {MENU}.", "stop", "unparsable"),
        ("[[A]] or [[B]]", "stop", "unparsable"),
        ("[[A>>>B]]", "stop", "unparsable"),
        ("[[D]]", "stop", "unparsable"),
        ("A is longer but B is right", "stop", "unparsable"),
        ("<think>it is [[A]]", "stop", "empty"),
        ("At first I lean to [[A]], but then", "length", "truncated"),
        ("$ERROR$", "stop", "unparsable"),
    ],
)
def test_what_declares_nothing_is_no_verdict(text: str, finish_reason: str, reason: str) -> None:
    reading = read_verdict(Reply(call_id="1", text=text, finish_reason=finish_reason))
    assert (reading.slot, reading.reason) == (None, reason)


def test_a_cut_reply_counts_when_the_verdict_is_its_end() -> None:
    assert read_verdict(Reply(call_id="1", text="Reasons. [[B]].", finish_reason="length")).slot == "B"
    assert read_verdict(Reply(call_id="1", text="B", finish_reason="length")).slot == "B"


def test_a_refusal_is_no_verdict() -> None:
    reply = Reply(call_id="1", text="[[A]]", refusal="I cannot compare these.")
    assert read_verdict(reply).reason == "refused"


@settings(deadline=None)
@given(st.text(alphabet="[]ABC abc*\n", max_size=60))
def test_masked_text_never_reads_as_a_declaration(text: str) -> None:
    masked = mask_verdicts(text)
    assert read_verdict(Reply(call_id="1", text=masked + "\nno verdict")).slot is None


SLOTS = st.sampled_from(["A", "B", "C", None])
SWAPPED = {"A": "B", "B": "A", "C": "C", None: None}


@settings(deadline=None)
@given(SLOTS, SLOTS)
def test_renaming_the_policies_mirrors_the_share(first: str, second: str) -> None:
    settled, mirrored = settle_orders(first, second), settle_orders(second, first)
    assert settled.status == mirrored.status
    if settled.share is None:
        assert None in (first, second)
    else:
        assert mirrored.share == 1 - settled.share


@settings(deadline=None)
@given(st.sampled_from(["A", "B"]))
def test_a_judge_that_looks_at_the_slot_only_gives_nobody_a_point(slot: str) -> None:
    assert settle_orders(slot, slot) == settle_orders("A", "A")
    assert settle_orders(slot, slot).status == "inconsistent"
    assert settle_orders(slot, slot).share == 0.5


def test_agreement_names_a_winner() -> None:
    assert settle_orders("A", "B").share == 1.0
    assert settle_orders("B", "A").share == 0.0
    assert settle_orders("C", "C").status == "consistent"


@pytest.mark.parametrize(
    ("slots", "verdict"),
    [
        (["A"], "A"),
        ([None], None),
        (["A", "A", "B"], "A"),
        (["A", "B", "C"], "C"),
        (["A", "B"], "C"),
        (["A", None, "A"], "A"),
        (["A", None, None], None),
        (["C", "C", "A"], "C"),
    ],
)
def test_a_panel_decides_by_majority_or_abstains(slots: list[str | None], verdict: str | None) -> None:
    assert panel_majority(slots) == verdict


@pytest.mark.parametrize("part", ["[", "[[ ", "[[A", "[[*", "[[A]],", " ", "A\n", "<think>"])
def test_time_is_linear_in_the_length(part: str) -> None:
    text = part * (100_000 // len(part))
    with ends():
        mask_verdicts("[[" + text)
        read_verdict(Reply(call_id="1", text="[[" + text))
