from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pytest_elo.errors import DataError
from pytest_elo.votes.imports import import_votes
from pytest_elo.votes.lmsys_export import to_lmsys
from pytest_elo.votes.records import Vote
from pytest_elo.votes.settle import settle
from pytest_elo.votes.store import append_votes

VOTES = Path(__file__).parent.parent / "data" / "votes"


def written(tmp_path: Path, name: str, content: object) -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")
    return path


def one(path: Path) -> Vote:
    [vote] = import_votes([path]).votes
    return vote


def test_llmfao_crowd_has_its_published_counts() -> None:
    imported = import_votes([VOTES / "llmfao_crowd-comparisons.csv"])
    [summary] = imported.files
    assert summary.winners == {"a": 2911, "b": 2549, "tie": 3471}
    assert (len(imported.votes), imported.duplicates, imported.conflicts) == (8931, 0, ())
    assert len({(vote.item_id, vote.pair) for vote in imported.votes}) == 2139
    assert len({name for vote in imported.votes for name in vote.pair}) == 59


def test_fastchat_pairs_settle_as_published() -> None:
    imported = import_votes([VOTES / "fastchat_gpt-4_pair_compact.jsonl"])
    [summary] = imported.files
    assert summary.records == 75
    assert summary.winners["null"] == 3
    results = settle(imported.votes)
    statuses = Counter(result.status for result in results)
    assert statuses == {"consistent": 46, "inconsistent": 27, "incomplete": 2}
    shares = Counter(result.share for result in results)
    assert (shares[1.0], shares[0.0], shares[0.5]) == (18, 20, 35)  # phi-3, phi-3-dpo, ties


LMSYS = {
    "question_id": "q1",
    "model_a": "x",
    "model_b": "y",
    "judge": "arena_user_7",
    "turn": 1,
    "tstamp": 1.5,
}


@pytest.mark.parametrize(
    ("label", "winner"),
    [
        ("model_a", "a"),
        ("model_b", "b"),
        ("tie", "tie"),
        ("tie (bothbad)", "both_bad"),
        ("both_bad", "both_bad"),
    ],
)
def test_arena_labels(tmp_path: Path, label: str, winner: str) -> None:
    vote = one(written(tmp_path, "arena.json", [LMSYS | {"winner": label}]))
    assert (vote.a, vote.b, vote.winner, vote.judge) == ("x", "y", winner, "arena_user_7")
    assert vote.ts == "1970-01-01T00:00:01.500000Z"


def test_mt_bench_model_verdicts_stand_for_both_orders(tmp_path: Path) -> None:
    row = LMSYS | {"winner": "tie (inconsistent)", "judge": ["gpt-4", "pair-v2"], "turn": 2}
    vote = one(written(tmp_path, "gpt4_pair.json", [row]))
    assert (vote.judge, vote.kind, vote.winner, vote.turn, vote.placed) == ("gpt-4", "model", "tie", 2, False)


def test_an_unknown_label_is_an_error_with_file_and_line(tmp_path: Path) -> None:
    rows = [LMSYS | {"winner": "model_a"}, LMSYS | {"winner": "error", "question_id": "q2"}]
    path = written(tmp_path, "arena.jsonl", "\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match=r"arena\.jsonl:2: winner 'error' is none of model_a, model_b, tie"):
        import_votes([path])
    pretty = written(tmp_path, "arena.json", rows)
    with pytest.raises(DataError, match=r"arena\.json:11: winner 'error'"):
        import_votes([pretty])


ARENA_140K = {
    "id": "e1",
    "model_a": "x",
    "model_b": "y",
    "winner": "both_bad",
    "evaluation_session_id": "s9",
    "timestamp": "2025-05-29T14:48:41.602925",
    "conversation_a": [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "## Hello\n\n- one"}]},
    ],
    "conv_metadata": {
        "sum_assistant_a_tokens": 40,
        "header_count_a": {"h1": 0, "h2": 3},
        "list_count_a": {"ordered": 1, "unordered": 2},
        "bold_count_a": {"**": 4, "__": 0},
    },
}


def check_140k(vote: Vote) -> None:
    assert (vote.item_id, vote.judge, vote.winner) == ("e1", "s9", "both_bad")
    assert vote.ts == "2025-05-29T14:48:41.602925Z"
    assert vote.style_a == {"chars": 15.0, "tokens": 40.0, "headers": 3.0, "lists": 3.0, "bold": 4.0}


def test_the_140k_release_brings_its_own_style_counts(tmp_path: Path) -> None:
    check_140k(one(written(tmp_path, "140k.json", [ARENA_140K])))


def test_the_140k_release_as_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install 'pytest-elo[parquet]'")
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist([ARENA_140K]), tmp_path / "140k.parquet")
    check_140k(one(tmp_path / "140k.parquet"))


def test_kaggle_one_hot(tmp_path: Path) -> None:
    head = "id,model_a,model_b,prompt,response_a,response_b,winner_model_a,winner_model_b,winner_tie\n"
    body = '3,x,y,"[""Hi\nho""]","[""Hello\\nthere""]","[""Hm""]",0,1,0\n'
    vote = one(written(tmp_path, "train.csv", head + body))
    assert (vote.item_id, vote.a, vote.b, vote.winner) == ("3", "x", "y", "b")
    assert (vote.style_a["chars"], vote.style_b["chars"]) == (11.0, 2.0)
    with pytest.raises(DataError, match=r"train\.csv:4: 2 of .* are 1"):
        import_votes([written(tmp_path, "train.csv", head + body + body.replace("0,1,0", "0,1,1"))])


@pytest.mark.parametrize(
    ("preference", "winner", "share"),
    [
        (1, "a", 1.0),
        (2.0, "b", 0.0),
        (1.5, "tie", 0.5),
        (0, "tie", 0.5),
        (1.25, "graded", 0.75),
        (None, None, None),
    ],
)
def test_alpaca_eval_preferences(
    tmp_path: Path, preference: float | None, winner: str | None, share: float | None
) -> None:
    row = {
        "instruction": "Say hi",
        "output_1": "hi",
        "output_2": "hello",
        "generator_1": "ref",
        "generator_2": "new",
        "annotator": "gpt4",
        "preference": preference,
    }
    imported = import_votes([written(tmp_path, "annotations.json", [row])])
    [vote] = imported.votes
    assert (vote.winner, vote.share, vote.placed) == (winner, share, False)
    assert imported.files[0].winners["null"] == (preference is None)


def test_alpaca_eval_rejects_a_preference_outside_its_scale(tmp_path: Path) -> None:
    row = {"generator_1": "ref", "generator_2": "new", "preference": 3}
    with pytest.raises(DataError, match=r"a\.json:2: preference 3 is not"):
        import_votes([written(tmp_path, "a.json", [row])])


def test_pandalm_brings_three_votes_a_record_and_reads_boolean_answers(tmp_path: Path) -> None:
    row = {
        "idx": 5,
        "cmp_key": "bloom-7b_llama-7b",
        "response1": True,
        "response2": "Yes.",
        "annotator1": 2,
        "annotator2": 0,
        "annotator3": "1",
    }
    votes = import_votes([written(tmp_path, "testset.json", [row])]).votes
    assert [(vote.judge, vote.winner) for vote in votes] == [
        ("annotator1", "b"),
        ("annotator2", "tie"),
        ("annotator3", "a"),
    ]
    assert {vote.pair for vote in votes} == {("bloom-7b", "llama-7b")}


def test_the_articles_pairwise_json(tmp_path: Path) -> None:
    pairs = {"math_500": [["baseline", "r1"], ["baseline", "r3"]], "web_nav": [["r5", "r1"]]}
    votes = import_votes([written(tmp_path, "pairwise.json", pairs)]).votes
    assert [(v.task_id, v.a, v.b, v.winner) for v in votes] == [
        ("math_500", "baseline", "r1", "a"),
        ("math_500", "baseline", "r3", "a"),
        ("web_nav", "r5", "r1", "a"),
    ]


def test_x_y_tables(tmp_path: Path) -> None:
    votes = import_votes([written(tmp_path, "xy.csv", "x,y,winner\np,q,x\np,q,y\nq,p,tie\n")]).votes
    assert [vote.winner for vote in votes] == ["a", "b", "tie"]
    with pytest.raises(DataError, match=r"xy\.csv:2: winner 'left' is none of x, y, tie"):
        import_votes([written(tmp_path, "xy.csv", "x,y,winner\np,q,left\n")])


def test_the_newest_of_duplicates_wins_and_conflicts_are_listed(tmp_path: Path) -> None:
    first = LMSYS | {"winner": "model_a", "tstamp": 200.0}
    older = LMSYS | {"winner": "model_b", "tstamp": 100.0}
    again = LMSYS | {"winner": "model_a", "tstamp": 300.0}
    swapped = LMSYS | {"winner": "model_a", "model_a": "y", "model_b": "x"}
    imported = import_votes([written(tmp_path, "arena.json", [first, older, again, swapped])])
    assert [(vote.a, vote.winner, vote.ts[17:19]) for vote in imported.votes] == [
        ("x", "a", "00"),
        ("y", "a", "01"),
    ]
    assert imported.duplicates == 2
    assert [(c.kept.winner, c.dropped.winner) for c in imported.conflicts] == [("a", "b")]
    assert "conflict: arena_user_7 on q1, x against y: b" in "\n".join(imported.lines())


def test_self_pairs_are_left_out_and_counted(tmp_path: Path) -> None:
    imported = import_votes([written(tmp_path, "t.csv", "left,right,winner\np,p,left\np,q,tie\n")])
    assert len(imported.votes) == 1
    assert "1 of a policy against itself left out" in imported.lines()[0]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("v.json", '[{"foo": 1}]', r"v\.json:1: fields foo belong to no known vote format"),
        ("v.json", "[]", "holds no records"),
        ("v.json", '[{"foo": 1}', "cut off after 1 records"),
        ("v.jsonl", '{"foo": 1}\n{"foo"', r"v\.jsonl:2: not JSON"),
        ("v.csv", "left,right,winner\na,b\n", r"v\.csv:2: 3 columns expected"),
        ("v.csv", "left,right,winner\na,b,left,x\n", r"v\.csv:2: 3 columns expected"),
    ],
)
def test_a_file_that_is_none_is_one_clear_error(tmp_path: Path, name: str, content: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        import_votes([written(tmp_path, name, content)])


def test_export_to_lmsys_comes_back_equal(tmp_path: Path) -> None:
    votes = import_votes([VOTES / "llmfao_crowd-comparisons.csv"]).votes
    back = import_votes([written(tmp_path, "out.jsonl", to_lmsys(votes))]).votes
    assert [(v.item_id, v.a, v.b, v.winner, v.judge) for v in back] == [
        (v.item_id, v.a, v.b, v.winner, v.judge) for v in votes
    ]


def test_our_own_file_may_hold_a_line_torn_by_a_crash(tmp_path: Path) -> None:
    vote = Vote(task_id="arena", item_id="p1", a="x", b="y", winner="a", judge="ann")
    path = tmp_path / "votes.jsonl"
    append_votes(path, [vote])
    path.write_text(path.read_text(encoding="ascii") + '{"task_id": "ar', encoding="ascii")
    imported = import_votes([path])
    assert imported.votes == (vote,)
    assert imported.lines()[0].endswith(f"1 records, 1 a; torn by a crash: {path}:2")
