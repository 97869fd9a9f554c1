"""Journals fold into the same rows in any order; a ledger that cannot be read is named by file and line."""

from __future__ import annotations

import json
import random
import sys
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_elo.errors import DataError
from pytest_elo.ledger.fold import Ledger
from pytest_elo.ledger.journal import Journal
from pytest_elo.ledger.read import read_attempts, read_outcomes
from pytest_elo.records import Attempt, Outcome


def attempt(call: int, number: int = 0, **fields: object) -> Attempt:
    values = {"ts": "2026", "task_id": "t", "item_id": f"i{call}", "strategy": "s", "model": "m", "call_id": f"c{call}"}
    return Attempt(attempt=number, **(values | fields))  # type: ignore[arg-type]


@given(
    calls=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.booleans()), max_size=20),
    seed=st.integers(0, 1000),
)
def test_any_order_and_any_repetition_fold_to_the_same_rows(calls, seed):
    journal = Journal(None, "run")
    for call, number, closes in calls:
        journal.open(attempt(call, number, total_tokens_high=9))
        if closes:
            journal.close(attempt(call, number, status="ok", total_tokens=3))
            journal.settle({f"c{call}": True})
    lines = journal.take().splitlines(keepends=True)
    shuffled = lines + lines[::2]
    random.Random(seed).shuffle(shuffled)
    first, second = Ledger(), Ledger()
    first.add_lines("".join(lines))
    second.add_lines("".join(shuffled))
    assert list(first.attempts()) == list(second.attempts())
    assert len({(row.call_id, row.attempt) for row in first.attempts()}) == len(first.attempts())


def test_an_interrupt_anywhere_in_the_fold_loses_nothing_that_is_swept_afterwards():
    journal = Journal(None, "run")
    for call in range(2):
        journal.open(attempt(call, total_tokens_high=9))
        journal.close(attempt(call, status="ok", total_tokens=3, strategy=f"s{call}"))
        journal.settle({f"c{call}": True})
        journal.outcome(
            Outcome(task_id="t", item_id=f"i{call}", strategy="s", model="m", status="correct", score=1.0), rerun=call
        )
    text = journal.take()
    undisturbed = Ledger()
    undisturbed.add_lines(text)

    def interrupted_at(step: int) -> bool:
        def count(frame: FrameType, event: str, argument: object) -> object:
            nonlocal step
            if event == "line" and "pytest_elo" in frame.f_code.co_filename:
                step -= 1
                if step < 0:
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return count

        ledger, tracer = Ledger(), sys.gettrace()
        ledger.attempts()  # as the live line asks for them
        sys.settrace(count)
        try:
            ledger.add_lines(text)
            return False
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(tracer)
            ledger.add_lines(text)
            assert list(ledger.attempts()) == list(undisturbed.attempts()), step
            assert list(ledger.outcomes()) == list(undisturbed.outcomes())

    steps = 0
    while interrupted_at(steps):
        steps += 1
    assert steps > 100


def test_a_torn_line_is_counted_and_the_rest_is_kept(tmp_path):
    journal = Journal(tmp_path / "shard.jsonl", "run")
    journal.close(attempt(1, status="ok"))
    journal.outcome(Outcome(task_id="t", item_id="i1", strategy="s", model="m", status="correct", score=1.0))
    journal.shut()
    text = (tmp_path / "shard.jsonl").read_text() + '{"close": {"ts": "20'
    ledger = Ledger()
    ledger.add_lines(text)
    assert len(ledger.attempts()) == 1
    assert len(ledger.outcomes()) == 1
    assert ledger.torn == {'{"close": {"ts": "20'}


def test_a_hole_of_nul_bytes_takes_no_line_beside_it(tmp_path):
    journal = Journal(tmp_path / "shard.jsonl", "run")
    for n in range(4):
        journal.close(attempt(n, status="ok"))
    journal.shut()
    first, second, third, fourth = (tmp_path / "shard.jsonl").read_text().splitlines()
    ledger = Ledger()
    ledger.add_lines("\n".join((first[:30] + "\0" * 50 + second, "\0" * 9 + third, fourth + "\0" * 5, "")))
    assert {row.call_id for row in ledger.attempts()} == {
        json.loads(line)["close"]["call_id"] for line in (second, third, fourth)
    }
    assert ledger.damage == "3 lines of the journals are torn: what only they told is in no sum and no rating"


def write(tmp_path, *rows: object, tail: str = "") -> object:
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + tail)
    return path


GOOD = {"task_id": "t", "strategy": "baseline", "total_tokens": 3}


@pytest.mark.parametrize("missing", ["task_id", "strategy", "total_tokens"])
def test_a_row_without_what_the_denominator_needs_is_named(tmp_path, missing):
    bad = {key: value for key, value in GOOD.items() if key != missing}
    path = write(tmp_path, GOOD, bad)
    with pytest.raises(DataError, match=rf"runs\.jsonl, line 2: no {missing}"):
        list(read_attempts(path, warn=pytest.fail))


@pytest.mark.parametrize("tokens", ["3", -1, 2.5, True])
def test_tokens_that_are_no_count_are_refused(tmp_path, tokens):
    with pytest.raises(DataError, match="line 1: total_tokens"):
        list(read_attempts(write(tmp_path, GOOD | {"total_tokens": tokens}), warn=pytest.fail))


def test_only_a_torn_last_line_is_forgiven(tmp_path):
    warnings: list[str] = []
    path = write(tmp_path, GOOD, tail='{"task_id": "t", "stra')
    assert len(list(read_attempts(path, warnings.append))) == 1
    assert "line 2: the last line is torn" in warnings[0]
    with pytest.raises(DataError, match="line 1: not JSON"):
        list(read_attempts(write(tmp_path, tail="nonsense\n"), warn=pytest.fail))


@given(
    said=st.lists(
        st.tuples(
            st.sampled_from(["correct", "wrong", "answered", "partial"]),
            st.text() | st.sampled_from(['"status": "correct"', '\\"status": "correct"', '{"status": "answered"}']),
        ),
        max_size=8,
    )
)
def test_passing_over_a_status_passes_over_no_other(tmp_path_factory, said):
    path = tmp_path_factory.mktemp("run") / "outcomes.jsonl"
    rows = [
        Outcome(
            task_id=text, item_id=f"i{n}", strategy="s", model="m", status=status, score=0.5, output=text, detail=text
        )
        for n, (status, text) in enumerate(said)
    ]
    path.write_text("".join(row.to_json() + "\n" for row in rows))
    found = read_outcomes(path, pytest.fail, passing_over=("correct", "answered"))
    wanted = [row for row in rows if row.status not in ("correct", "answered")]
    assert [row.to_json() for row in found] == [row.to_json() for row in wanted]
