from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_elo.errors import DataError
from pytest_elo.votes.records import Vote
from pytest_elo.votes.settle import comparisons_of, distinct, settle
from pytest_elo.votes.store import append_votes, read_votes


def vote(n: int = 0, **changes: object) -> Vote:
    fields = {"task_id": "arena", "item_id": f"p{n}", "a": "x", "b": "y", "winner": "a", "judge": "ann"}
    return Vote(**(fields | changes))  # type: ignore[arg-type]


def test_votes_come_back_as_they_were(tmp_path: Path) -> None:
    votes = [vote(1, style_a={"chars": 3.0}, panel=["j", "k"]), vote(2, winner=None, reason="undone")]
    append_votes(tmp_path / "votes.jsonl", votes[:1])
    append_votes(tmp_path / "votes.jsonl", votes[1:])
    assert list(read_votes(tmp_path / "votes.jsonl").votes) == votes


@settings(deadline=None)
@given(cut=st.integers(1, 200))
def test_a_crash_at_any_byte_costs_at_most_the_vote_being_written(tmp_path_factory, cut: int) -> None:
    path = tmp_path_factory.mktemp("votes") / "votes.jsonl"
    append_votes(path, [vote(1)])
    whole = path.stat().st_size
    append_votes(path, [vote(2)])
    data = path.read_bytes()
    path.write_bytes(data[: max(whole, len(data) - cut)])
    append_votes(path, [vote(3)])
    stored = read_votes(path)
    items = [v.item_id for v in stored.votes]
    assert items[0] == "p1"
    assert items[-1] == "p3"
    assert len(items) + len(stored.torn) in (2, 3)


def test_threads_and_processes_append_without_mixing_lines(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    code = (
        "import sys; from pathlib import Path; from pytest_elo.votes.store import append_votes;"
        "from pytest_elo.votes.records import Vote;"
        "[append_votes(Path(sys.argv[1]), [Vote(task_id='t', item_id=str(i), a='x', b='y', winner='a',"
        "judge=sys.argv[2])]) for i in range(40)]"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(path), f"p{k}"]) for k in range(2)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: append_votes(path, [vote(n)]), range(40)))
    assert [process.wait() for process in processes] == [0, 0]
    stored = read_votes(path)
    assert (len(stored.votes), stored.torn) == (120, ())


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"task_id": "t"}', r"votes\.jsonl:1: not a vote, missing"),
        ("[1]", r"votes\.jsonl:1: expected an object"),
        (
            vote().to_json().replace('"winner": "a"', '"winner": "left"'),
            r"winner 'left' is none of a, b, tie",
        ),
    ],
)
def test_a_whole_line_that_is_no_vote_is_an_error(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "votes.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=problem):
        read_votes(path)


def test_a_single_order_never_counts_where_both_are_needed() -> None:
    half = vote(both_orders=True, kind="model")
    [result] = settle([half])
    assert (result.status, result.share) == ("incomplete", None)
    assert comparisons_of([result], weight="vote") == ()


def test_a_panel_member_alone_does_not_decide() -> None:
    panel = ["j", "k", "l"]
    alone = [
        vote(both_orders=True, judge="j", panel=panel),
        vote(both_orders=True, judge="j", panel=panel, a="y", b="x", winner="b"),
    ]
    assert settle(alone)[0].status == "incomplete"
    seconded = [*alone, *[Vote(**{**_fields(v), "judge": "k"}) for v in alone]]
    assert settle(seconded)[0].share == 1.0


def _fields(v: Vote) -> dict[str, object]:
    return {name: getattr(v, name) for name in v.__dataclass_fields__}


def test_an_undone_vote_leaves_nothing_and_a_recast_one_counts() -> None:
    cast, undone = vote(ts="2026-01-01"), vote(winner=None, reason="undone", ts="2026-01-02")
    assert settle(distinct([cast, undone]).votes) == ()
    again = vote(winner="tie", ts="2026-01-03")
    assert settle(distinct([cast, undone, again]).votes)[0].share == 0.5


def test_item_weights_sum_to_one_whatever_the_number_of_voters() -> None:
    votes = [vote(judge=f"j{n}", winner="a" if n else "b") for n in range(4)]
    comparisons = comparisons_of(settle(votes), weight="item")
    assert sum(c.weight for c in comparisons) == pytest.approx(1.0)
    assert sum(c.weight * c.share for c in comparisons) == pytest.approx(0.75)
