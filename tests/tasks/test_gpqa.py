"""GPQA-format files: what is read, what is posed, what is graded, and how bad files are named."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.records import Problem, Reply, Task
from pytest_elo.tasks import gpqa
from tests.hang import ends

# The 78 column names of the official files, in their order.
_VALIDATOR = {
    "EV": (
        "Feedback",
        "Validator Revision Suggestion",
        "Is First Validation",
        "Post hoc agreement",
        "Sufficient Expertise?",
        "Understand the question?",
        "Question Difficulty",
        "Validator Answered Correctly",
        "Self-reported time (minutes)",
        "Probability Correct",
        "Manual Correctness Adjustment",
        "Expert Validator",
    ),
    "NEV": (
        "Feedback",
        "Validator Answered Correctly",
        "Explanation",
        "Self-reported time (minutes)",
        "Websites visited",
        "Probability Correct",
        "Manual Correctness Adjustment",
        "Non-Expert Validator",
    ),
}
_TEXTS = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
OFFICIAL_COLUMNS = (
    "Pre-Revision Question",
    *(f"Pre-Revision {name}" for name in _TEXTS),
    "Pre-Revision Explanation",
    "Self-reported question-writing time (minutes)",
    "Question",
    *_TEXTS,
    "Explanation",
    "Revision Comments (from Question Writer)",
    "Subdomain",
    "Writer's Difficulty Estimate",
    "Extra Revised Question",
    "Extra Revised Explanation",
    *(f"Extra Revised {name}" for name in _TEXTS),
    "Non-Expert Validator Accuracy",
    "Majority Non-Expert Vals Incorrect",
    "Expert Validator Accuracy",
    "Record ID",
    "High-level domain",
    "Question Writer",
    *(f"{name}_EV_{i}" for i in (1, 2) for name in _VALIDATOR["EV"]),
    *(f"{name}_NEV_{i}" for i in (1, 2, 3) for name in _VALIDATOR["NEV"]),
    "Expert Validator Disagreement Category",
    "Canary String",
)


def row(record_id: str, *options: str, question: str = "What is meant?", **cells: str) -> dict[str, str]:
    """A row whose unneeded cells hold what would be wrong if a near-namesake column were read."""
    decoys = {name: f"decoy of {name}" for name in OFFICIAL_COLUMNS}
    needed = {"Question": question, "Record ID": record_id, **dict(zip(_TEXTS, options, strict=True))}
    return decoys | {"Canary String": "", "High-level domain": "Physics"} | needed | cells


def write(path: Path, rows: Sequence[Mapping[str, str]], columns: Sequence[str] = OFFICIAL_COLUMNS) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def reply(text: str, finish_reason: str = "stop", refusal: str | None = None) -> Reply:
    return Reply(call_id="call", text=text, finish_reason=finish_reason, refusal=refusal)


PLAIN = ("right", "wrong one", "wrong two", "wrong three")
TRAPS = (
    row(
        "recInnerNewline0001",
        "two\nlines",
        " 1e-4 eV\n",
        "1e-8 eV ",
        "\t1e-9 eV",
        question="First,\n\nthen?\n",
    ),
    row("recBraceBackslash02", r"\frac{a}{b}", "{question}", "$x_{1}$", "$5"),
    row("recDuplicateOfKey03", "same", "other", "third", "same"),
    row("recCaseOnlyTwins004", "pH", "PH", "ph", "Ph"),
)


@pytest.fixture
def traps(tmp_path: Path) -> gpqa.GpqaTask:
    return gpqa.load(write(tmp_path / "traps.csv", TRAPS))


def test_official_columns_are_seventy_eight() -> None:
    assert len(OFFICIAL_COLUMNS) == len(set(OFFICIAL_COLUMNS)) == 78


def test_it_is_a_task(traps: gpqa.GpqaTask) -> None:
    task: Task = traps
    problem: Problem = task.pose(task.item_ids[0], 0)
    assert task.item_ids == tuple(trap["Record ID"] for trap in TRAPS)
    assert (problem.task_id, problem.item_id, problem.repeat) == ("gpqa", "recInnerNewline0001", 0)
    assert problem.max_tokens == 2048


def test_texts_reach_the_prompt_stripped_only_at_the_ends(traps: gpqa.GpqaTask) -> None:
    question = traps.pose("recInnerNewline0001", 0)
    assert set(question.options) == {"two\nlines", "1e-4 eV", "1e-8 eV", "1e-9 eV"}
    posed = question.messages[-1]["content"]
    assert "First,\n\nthen?\n\nA) " in posed
    assert "decoy" not in posed

    braces = traps.pose("recBraceBackslash02", 0)
    assert set(braces.options) == {r"\frac{a}{b}", "{question}", "$x_{1}$", "$5"}
    assert all(option in braces.messages[-1]["content"] for option in braces.options)


def test_prompt_asks_for_the_answer_line_without_a_dollar(tmp_path: Path) -> None:
    path = write(tmp_path / "q.csv", [row("rec1", *PLAIN)])
    with_example, without = (gpqa.load(path, few_shot=n).pose("rec1", 0).messages for n in (1, 0))
    for messages in (with_example, without):
        text = "".join(message["content"] for message in messages)
        assert "ANSWER: X" in text
        assert "$" not in text
    assert any(message["content"].endswith("ANSWER: C") for message in with_example)
    assert not any(message["role"] == "assistant" for message in without)


@given(record_id=st.text(min_size=1), repeat=st.integers(0, 10**6), seed=st.integers())
def test_key_follows_its_option_and_visits_every_letter(record_id: str, repeat: int, seed: int) -> None:
    order = gpqa.option_order(record_id, repeat, seed)
    assert sorted(order) == [0, 1, 2, 3]
    assert order == gpqa.option_order(record_id, repeat, seed)
    block = repeat - repeat % 4
    assert {gpqa.option_order(record_id, block + i, seed).index(0) for i in range(4)} == {0, 1, 2, 3}


def test_orders_are_the_same_for_ever() -> None:
    """Recordings and results hold only while these stay: a change here is a new condition."""
    orders = [gpqa.option_order("rec00000000000001", repeat, seed) for seed in (0, 1) for repeat in (0, 1, 4)]
    assert orders == [
        (0, 2, 1, 3),
        (2, 1, 3, 0),
        (3, 1, 0, 2),
        (1, 3, 2, 0),
        (3, 2, 0, 1),
        (2, 1, 0, 3),
    ]


def test_order_does_not_depend_on_the_file(tmp_path: Path) -> None:
    rows = [row(f"rec{i:03}", *PLAIN) for i in range(20)]
    forwards = gpqa.load(write(tmp_path / "a.csv", rows))
    backwards = gpqa.load(write(tmp_path / "b.csv", rows[::-1][:7]))
    for item_id in backwards.item_ids:
        assert backwards.pose(item_id, 2).messages == forwards.pose(item_id, 2).messages


def test_every_letter_is_graded_by_its_option(traps: gpqa.GpqaTask) -> None:
    for repeat in range(8):
        question = traps.pose("recBraceBackslash02", repeat)
        for letter, option in zip("ABCD", question.options, strict=True):
            grade = question.grade(reply(f"So.\nANSWER: {letter}"))
            right = option == r"\frac{a}{b}"
            assert (grade.status, grade.score) == (("correct", 1.0) if right else ("wrong", 0.0))
            assert (grade.answer, grade.expected) == (letter, question.keys)


def test_a_distractor_equal_to_the_key_counts_and_warns(traps: gpqa.GpqaTask) -> None:
    question = traps.pose("recDuplicateOfKey03", 0)
    assert len(question.keys) == 2
    replies = [reply(f"ANSWER: {letter}") for letter in question.keys]
    assert [question.grade(each).status for each in replies] == ["correct", "correct"]
    assert question.answer_key(replies[0]) == question.answer_key(replies[1])
    assert question.grade(replies[0]).expected == "/".join(question.keys)
    (warning,) = traps.warnings
    assert "recDuplicateOfKey03" in warning
    assert "same" not in warning


def test_options_that_differ_by_case_are_different(traps: gpqa.GpqaTask) -> None:
    question = traps.pose("recCaseOnlyTwins004", 0)
    assert len(question.keys) == 1
    assert len({question.answer_key(reply(f"ANSWER: {letter}")) for letter in "ABCD"}) == 4


@pytest.mark.parametrize(
    ("given_reply", "status"),
    [
        (reply("I think\nANSWER: {wrong}"), "wrong"),
        (reply("I think\nANSWER: {key}", finish_reason="length"), "correct"),
        (reply("I think that", finish_reason="length"), "truncated"),
        (reply("Either B or D."), "no_answer"),
        (reply("**ANSWER: {key}**"), "no_answer"),
        (reply(""), "empty"),
        (reply("", refusal="No."), "refused"),
        (reply("", finish_reason="content_filter"), "filtered"),
    ],
)
def test_statuses(traps: gpqa.GpqaTask, given_reply: Reply, status: str) -> None:
    question = traps.pose("recInnerNewline0001", 0)
    wrong = next(letter for letter in "ABCD" if letter not in question.keys)
    text = given_reply.text.replace("{key}", question.keys).replace("{wrong}", wrong)
    answered = reply(text, given_reply.finish_reason or "stop", given_reply.refusal)
    grade = question.grade(answered)
    assert grade.status == status
    assert (question.answer_key(answered) is None) == (grade.answer is None)


def test_both_parsers_are_scored_and_the_chosen_one_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "q.csv", [row("rec1", *PLAIN)])
    for parser, status, score in (("strict", "no_answer", 0.0), ("lenient", "correct", 1.0)):
        question = gpqa.load(path, parser=parser).pose("rec1", 0)
        grade = question.grade(reply(f"ANSWER: **{question.keys}**"))
        assert (grade.status, grade.score) == (status, score)
        assert grade.scores == {"strict": 0.0, "lenient": 1.0}
        assert grade.detail


def test_no_question_text_in_representations(traps: gpqa.GpqaTask) -> None:
    question = traps.pose("recInnerNewline0001", 0)
    shown = repr(traps) + repr(question) + repr(question.grade(reply("ANSWER: A")))
    assert not any(text in shown for text in ("eV", "two", "then?", "frac"))


def test_fingerprint_covers_what_is_posed_and_how_it_is_graded(tmp_path: Path) -> None:
    rows = [row("rec1", *PLAIN), row("rec2", *PLAIN)]
    path = write(tmp_path / "a.csv", rows)
    same = write(tmp_path / "b.csv", [cells | {"Explanation": "another"} for cells in rows])
    other = write(tmp_path / "c.csv", [rows[0], row("rec2", "right!", *PLAIN[1:])])
    base = gpqa.load(path).fingerprint
    assert gpqa.load(same).fingerprint == base
    variants = [
        gpqa.load(other),
        gpqa.load(path, seed=1),
        gpqa.load(path, parser="lenient"),
        gpqa.load(path, few_shot=0),
        gpqa.load(path, max_tokens=100),
    ]
    assert len({base, *(task.fingerprint for task in variants)}) == 6


def test_unsafe_ids_become_ascii_without_collisions(tmp_path: Path) -> None:
    raw = ["Größe 1", "Gröse 1", "a/b", "a::b", "a[b]", "日本", "本日", "rec_plain-1.0"]
    task = gpqa.load(write(tmp_path / "q.csv", [row(each, *PLAIN) for each in raw]))
    again = gpqa.load(write(tmp_path / "r.csv", [row(each, *PLAIN) for each in reversed(raw)]))
    assert len(set(task.item_ids)) == len(raw)
    assert all(item_id.isascii() and not set(item_id) & set(" /:[]") for item_id in task.item_ids)
    assert task.item_ids[-1] == "rec_plain-1.0"
    assert task.item_ids == tuple(reversed(again.item_ids))


def test_few_columns_byte_order_mark_and_crlf_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    columns = ("Question", *_TEXTS, "Record ID")
    text = ",".join(columns) + '\r\n"Which\r\none?",r,w1,w2,w3,rec1\r\n\r\nWhich?,r,w1,w2,w3,rec2\r\n'
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    task = gpqa.load(path)
    assert task.item_ids == ("rec1", "rec2")
    assert set(task.pose("rec2", 0).options) == {"r", "w1", "w2", "w3"}


def _broken(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


HEADER = ",".join(("Question", *_TEXTS, "Record ID")).encode()


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", ["empty"]),
        (HEADER + b"\n", ["no rows"]),
        (
            HEADER.replace(b"Incorrect Answer 2", b"Extra Revised Incorrect Answer 2"),
            ["'Incorrect Answer 2'"],
        ),
        (HEADER.replace(b"Record ID", b"record id"), ["'Record ID'", "did you mean 'record id'"]),
        (
            HEADER + b'\n"SECRET\n?",r,1,2,3,recA\nSECRET?,r,1,,3,recB\n',
            [":4:", "recB", "'Incorrect Answer 2'"],
        ),
        (HEADER + b"\nSECRET?,r,1,2,3, \n", [":2:", "Record ID"]),
        (HEADER + b"\nSECRET?,r,1,2,3,recA\nSECRET?,r,1,2,3,recA\n", [":3:", "recA", "line 2"]),
        (HEADER + b"\nSECRET, then?,r,1,2,3,recA\n", [":2:", "7 cells but 6 columns"]),
        (HEADER + b'\n"SECRET?,r,1,2,3,recA\n', [":2:", "quotes"]),
        (HEADER + b"\nSECRET \xe9?,r,1,2,3,recA\n", [":2:", "not UTF-8", "0xe9"]),
        ((HEADER + b"\nSECRET?,r,1,2,3,recA\n").decode().encode("utf-16"), [":1:", "not UTF-8"]),
        (b"Question," + HEADER + b"\n", ["'Question'", "twice"]),
    ],
)
def test_bad_files_are_named_in_one_line(tmp_path: Path, content: bytes, parts: Sequence[str]) -> None:
    path = _broken(tmp_path / "bad.csv", content)
    with pytest.raises(DataError) as caught:
        gpqa.load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert "SECRET" not in message
    assert all(part in message for part in parts), message


def test_missing_file_and_settings_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.csv: cannot be read"):
        gpqa.load(tmp_path / "absent.csv")
    path = write(tmp_path / "q.csv", [row("rec1", *PLAIN)])
    with pytest.raises(ConfigError, match="did you mean 'lenient'"):
        gpqa.load(path, parser="lenent")
    with pytest.raises(ConfigError, match="few_shot is 5"):
        gpqa.load(path, few_shot=5)
    with pytest.raises(ConfigError, match="max_tokens is 0"):
        gpqa.load(path, max_tokens=0)


def test_a_file_changed_under_the_run_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "q.csv", [row("rec1", *PLAIN), row("rec2", *PLAIN)])
    task = gpqa.load(path)
    write(path, [row("rec2", *PLAIN, question="Longer than before?"), row("rec1", *PLAIN)])
    with pytest.raises(DataError, match="changed"):
        task.pose("rec1", 0)
    with pytest.raises(DataError, match="no item 'rec9'"):
        task.pose("rec9", 0)


@pytest.mark.parametrize(
    ("name", "n", "canary", "warned"),
    [
        ("gpqa_diamond.csv", 198, "c", False),
        ("gpqa_diamond.csv", 197, "c", True),
        ("gpqa_main.csv", 198, "", True),
        ("mine.csv", 197, "c", True),
        ("mine.csv", 448, "c", False),
        ("mine.csv", 197, "", False),
    ],
)
def test_damaged_copies_of_official_sets_warn(tmp_path: Path, name: str, n: int, canary: str, warned: bool) -> None:
    columns = ("Question", *_TEXTS, "Record ID", "Canary String")
    rows = [row(f"rec{i}", *PLAIN, **{"Canary String": canary}) for i in range(n)]
    task = gpqa.load(write(tmp_path / name, rows, columns))
    assert any(f"{n} rows" in warning for warning in task.warnings) == warned


def test_uneven_key_letters_warn(tmp_path: Path) -> None:
    ids = [f"rec{i}" for i in range(2000)]
    at_b = [record_id for record_id in ids if gpqa.key_letters([record_id]) == {"B": 1}]
    columns = ("Question", *_TEXTS, "Record ID")
    uneven = gpqa.load(write(tmp_path / "b.csv", [row(each, *PLAIN) for each in at_b], columns))
    even = gpqa.load(write(tmp_path / "all.csv", [row(each, *PLAIN) for each in ids], columns))
    assert [f"A 0, B {len(at_b)}, C 0, D 0 of {len(at_b)}" in warning for warning in uneven.warnings] == [True]
    assert not even.warnings


def test_a_hundred_thousand_rows_are_workable(tmp_path: Path) -> None:
    columns = ("Question", *_TEXTS, "Record ID")
    path = tmp_path / "large.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(columns) + "\n")
        file.writelines(f'"Question\n{i}?",right {i},w1,w2,w3,rec{i:07}\n' for i in range(100_000))
    with ends():
        task = gpqa.load(path)
        assert "right 99999" in task.pose("rec0099999", 0).options
