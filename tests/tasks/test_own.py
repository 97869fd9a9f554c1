"""Own tasks: what a YAML file may say, how answers are checked and voted on, how mistakes are named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.records import Problem, Reply, Task
from pytest_elo.tasks import own


def reply(text: str, finish_reason: str = "stop") -> Reply:
    return Reply(call_id="call", text=text, finish_reason=finish_reason)


def load(tmp_path: Path, text: str, max_tokens: int = 1024) -> own.OwnTask:
    path = tmp_path / "own_tasks.yaml"
    path.write_text(text, encoding="utf-8")
    return own.load(path, max_tokens=max_tokens)


def only(tmp_path: Path, check: str) -> own.OwnProblem:
    task = load(tmp_path, f"- id: one\n  prompt: Say it.\n  {check}\n")
    return task.pose("one", 0)


FILE = """
system: |
  Finish with a last line ANSWER: ...
max_tokens: 200
items:
  - id: apples
    prompt: Ann has 3 bags of 12 apples and eats 5. How many are left?
    numeric: 31
  - id: "Größe"
    prompt: |
      Which city?
      One word.
    system: Be short.
    max_tokens: 20
    exact: Paris
"""


def test_it_is_a_task(tmp_path: Path) -> None:
    task: Task = load(tmp_path, FILE)
    apples: Problem = task.pose("apples", 3)
    assert (apples.task_id, apples.item_id, apples.repeat, apples.max_tokens) == ("own", "apples", 3, 200)
    assert apples.messages == (
        {"role": "system", "content": "Finish with a last line ANSWER: ..."},
        {"role": "user", "content": "Ann has 3 bags of 12 apples and eats 5. How many are left?"},
    )
    city = task.pose(task.item_ids[1], 0)
    assert task.item_ids[1].isascii()
    assert city.max_tokens == 20
    assert [message["content"] for message in city.messages] == ["Be short.", "Which city?\nOne word."]


def test_a_plain_list_takes_the_cap_from_the_caller(tmp_path: Path) -> None:
    problem = load(tmp_path, "- {id: a, prompt: Hi, exact: hello}", max_tokens=7).pose("a", 0)
    assert problem.max_tokens == 7
    assert problem.messages == ({"role": "user", "content": "Hi"},)


def test_examples_are_earlier_turns(tmp_path: Path) -> None:
    text = """
examples:
  - prompt: 1 + 1?
    reply: |
      One and one.
      ANSWER: 2
items: [{id: a, prompt: 2 + 2?, numeric: 4, system: Add.}]
"""
    messages = load(tmp_path, text).pose("a", 0).messages
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[2]["content"] == "One and one.\nANSWER: 2"


CHECKS = [
    ("exact: Paris", "ANSWER: **paris**.", "correct"),
    ("exact: [7:25 pm, '19:25']", "ANSWER: 19:25", "correct"),
    ("exact: 07:25", "ANSWER: 07:25", "correct"),
    ("exact: 'no'", "ANSWER: No", "correct"),
    ("exact: no", "ANSWER: no", "correct"),
    ("exact: 1.10", "ANSWER: 1.1", "wrong"),
    ("exact: Paris", "It is Paris.\nParis", "correct"),
    ("exact: Paris", "It is Paris.", "wrong"),
    ("contains: [red, blue]", "ANSWER: Blue and red", "correct"),
    ("contains: [red, blue]", "red, says the first clue\nANSWER: blue", "wrong"),
    ("contains: red", "The flag is\nred and white.", "correct"),
    (r"regex: '^\d{4}-\d\d$'", "ANSWER: 2024-05", "correct"),
    (r"regex: '(?i)^abc$'", "ANSWER: ABCD", "wrong"),
    ("numeric: 31", "ANSWER: 36 - 5 = 31 apples", "correct"),
    ("numeric: {value: 2.5, tolerance: 0.05}", "ANSWER: 2.55 km", "correct"),
    ("numeric: {value: 2.5, tolerance: 0.05}", "ANSWER: 2.56 km", "wrong"),
    ("numeric: {value: -200, tolerance: 1%}", "ANSWER: -198", "correct"),
    ("numeric: {value: -200, tolerance: 1%}", "ANSWER: -197.9", "wrong"),
    ("numeric: 3e8", "ANSWER: 3 x 10^8 m/s", "correct"),
    ("numeric: 31", "ANSWER: many", "no_answer"),
    ("exact: Paris", "", "empty"),
]


@pytest.mark.parametrize(("check", "text", "status"), CHECKS)
def test_checks(tmp_path: Path, check: str, text: str, status: str) -> None:
    problem = only(tmp_path, check)
    grade = problem.grade(reply(text))
    assert grade.status == status
    assert grade.score == float(status == "correct")
    assert (problem.answer_key(reply(text)) is None) == (status in {"no_answer", "empty"})


@pytest.mark.parametrize(
    ("check", "text", "status"),
    [
        ("numeric: 31", "3 bags hold 36", "truncated"),
        ("numeric: 36", "3 bags hold 36", "truncated"),
        ("numeric: 36", "ANSWER: 36", "correct"),
        ("contains: red", "The flag is", "truncated"),
        ("contains: red", "The flag is red", "correct"),
        ("contains: red", "ANSWER: blue", "wrong"),
    ],
)
def test_replies_cut_at_their_cap(tmp_path: Path, check: str, text: str, status: str) -> None:
    assert only(tmp_path, check).grade(reply(text, finish_reason="length")).status == status


@pytest.mark.parametrize(
    ("check", "texts"),
    [
        ("numeric: 1500", ["ANSWER: 1,500 m", "so 1500.0", "ANSWER: 1.5e3"]),
        ("numeric: 7", ["ANSWER: 8.50", "ANSWER: x = 17/2"]),
        ("exact: Paris", ["ANSWER: LONDON.", "**Answer:** london", "London"]),
    ],
)
def test_same_answers_vote_together(tmp_path: Path, check: str, texts: Sequence[str]) -> None:
    problem = only(tmp_path, check)
    keys = {problem.answer_key(reply(text)) for text in texts}
    assert len(keys) == 1
    assert None not in keys
    assert problem.answer_key(reply("ANSWER: 999")) not in keys


FUNCTIONS = """
def is_palindrome(text):
    return text == text[::-1]

def half(text):
    return 0.5

def fails(text):
    raise ValueError("boom")

def returns_text(text):
    return "yes"

def too_much(text):
    return 2

async def later(text):
    return True
"""


@pytest.mark.parametrize(
    ("name", "text", "status", "score"),
    [
        ("is_palindrome", "Let me see.\nANSWER: level", "correct", 1.0),
        ("is_palindrome", "ANSWER: levels", "wrong", 0.0),
        ("half", "ANSWER: level", "partial", 0.5),
        ("fails", "ANSWER: level", "infra_error", 0.0),
        ("returns_text", "ANSWER: level", "infra_error", 0.0),
        ("too_much", "ANSWER: level", "infra_error", 0.0),
    ],
)
def test_function_checks(tmp_path: Path, name: str, text: str, status: str, score: float) -> None:
    (tmp_path / "checks.py").write_text(FUNCTIONS)
    grade = only(tmp_path, f"function: checks.py:{name}").grade(reply(text))
    assert (grade.status, grade.score) == (status, score)
    assert (grade.detail is not None) == (status == "infra_error")
    assert name in (grade.detail or name)


def test_functions_of_importable_modules(tmp_path: Path) -> None:
    assert only(tmp_path, "function: keyword:iskeyword").grade(reply("ANSWER: lambda")).status == "correct"


def test_fingerprint_covers_prompts_caps_and_checks(tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text(FUNCTIONS)
    base = "- {id: a, prompt: Hi, %s}"
    variants = [
        base % "exact: hello",
        base % "exact: Hello",
        base % "contains: hello",
        base % "numeric: 1",
        base % "numeric: {value: 1, tolerance: 1}",
        base % "function: 'checks.py:half'",
        "- {id: a, prompt: Hi!, exact: hello}",
        "- {id: a, prompt: Hi, exact: hello, max_tokens: 5}",
        "- {id: a, prompt: Hi, exact: hello, system: S}",
    ]
    prints = [load(tmp_path, text).fingerprint for text in variants]
    (tmp_path / "checks.py").write_text(FUNCTIONS.replace("0.5", "0.25"))
    prints.append(load(tmp_path, variants[5]).fingerprint)
    assert len(set(prints)) == 10
    assert load(tmp_path, "# a comment\n" + variants[0]).fingerprint == prints[0]


MISTAKES = [
    ("", ["empty"]),
    ("[]", [":1:", "at least one item"]),
    ("items: {}", [":1:", "items", "list"]),
    ("itms: []", [":1:", "unknown key 'itms'", "did you mean 'items'"]),
    ("- id: a\n\tprompt: Hi", [":2:", "not valid YAML"]),
    ("- id: a\n  prompt: Hi\n  numerc: 4", [":3:", "item 'a'", "'numerc'", "did you mean 'numeric'"]),
    ("- id: a\n  prompt: Hi", [":1:", "item 'a'", "no check", "exact, contains"]),
    ("- id: a\n  prompt: Hi\n  exact: x\n  regex: x", ["item 'a'", "2 checks (exact, regex)"]),
    ("- prompt: Hi\n  exact: x", [":1:", "item 1", "no 'id'"]),
    ("- id: a\n  exact: x", ["item 'a'", "no 'prompt'"]),
    ("- id: a\n  prompt:\n  exact: x", [":2:", "prompt: is empty"]),
    ("- id: a\n  prompt: Hi\n  exact: null", [":3:", "exact: is empty"]),
    ("- id: a\n  prompt: Hi\n  exact: []", [":3:", "exact: is an empty list"]),
    ("- id: a\n  prompt: Hi\n  exact: {b: c}", [":3:", "exact: must be text"]),
    ("- id: a\n  prompt: Hi\n  exact: x\n  exact: y", [":4:", "'exact' stands here twice"]),
    ("- {id: a, prompt: Hi, exact: x}\n- {id: a, prompt: Hi, exact: x}", [":2:", "item 2", "'a'", "line 1"]),
    ("- id: a\n  prompt: Hi\n  regex: 'a(b'", [":3:", "regex: not a regular expression", "character 2"]),
    ("- id: a\n  prompt: Hi\n  numeric: four", [":3:", "numeric: is 'four'"]),
    ("- id: a\n  prompt: Hi\n  numeric: .nan", [":3:", "numeric: is '.nan'"]),
    ("- id: a\n  prompt: Hi\n  numeric: {tolerance: 1}", [":3:", "no 'value'"]),
    ("- id: a\n  prompt: Hi\n  numeric:\n    value: 4\n    tolerance: -1", [":5:", "tolerance: is '-1'"]),
    (
        "- id: a\n  prompt: Hi\n  numeric:\n    value: 4\n    tolerance: close",
        [":5:", "tolerance: is 'close'"],
    ),
    (
        "- id: a\n  prompt: Hi\n  numeric:\n    value: 4\n    tolerence: 1",
        [":5:", "did you mean 'tolerance'"],
    ),
    ("- id: a\n  prompt: Hi\n  exact: x\n  max_tokens: 0", [":4:", "max_tokens: is '0'"]),
    ("- id: a\n  prompt: Hi\n  exact: x\n  max_tokens: 1.5", [":4:", "max_tokens: is '1.5'"]),
    ("- id: a\n  prompt: Hi\n  exact: !!python/name:os.system x", [":3:", "tag", "python/name"]),
    ("- id: a\n  prompt: Hi\n  function: checks.py", [":3:", "file.py:name"]),
    (
        "- id: a\n  prompt: Hi\n  function: checks.py:halve",
        [":3:", "no function 'halve'", "did you mean 'half'"],
    ),
    ("- id: a\n  prompt: Hi\n  function: checks.py:later", [":3:", "async"]),
    ("- id: a\n  prompt: Hi\n  function: broken.py:f", [":3:", "cannot import broken.py (SyntaxError"]),
    ("- id: a\n  prompt: Hi\n  function: absent.py:f", [":3:", "cannot import absent.py (FileNotFoundError"]),
    ("- id: a\n  prompt: Hi\n  function: no_such_module_x:f", [":3:", "cannot import no_such_module_x"]),
    ("examples: [{prompt: Hi}]\nitems: [{id: a, prompt: Hi, exact: x}]", [":1:", "examples", "no 'reply'"]),
    ("- just text", [":1:", "item 1", "mapping"]),
]


@pytest.mark.parametrize(("text", "parts"), MISTAKES)
def test_mistakes_are_named_in_one_line(tmp_path: Path, text: str, parts: Sequence[str]) -> None:
    (tmp_path / "checks.py").write_text(FUNCTIONS)
    (tmp_path / "broken.py").write_text("def f(:\n")
    with pytest.raises(DataError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "own_tasks.yaml"))
    assert "\n" not in message
    assert all(part in message for part in parts), message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        own.load(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"- id: \xe9")
    with pytest.raises(DataError, match="not UTF-8"):
        own.load(tmp_path / "latin.yaml")
    with pytest.raises(ConfigError, match="max_tokens is 0"):
        load(tmp_path, "- {id: a, prompt: Hi, exact: x}", max_tokens=0)
    with pytest.raises(DataError, match="did you mean 'apples'"):
        load(tmp_path, FILE).pose("aples", 0)


def test_json_lines_pose_and_grade_as_yaml_does(tmp_path: Path) -> None:
    shared = {"system": "Finish with ANSWER: ...", "max_tokens": 200, "examples": [{"prompt": "1+1?", "reply": "2"}]}
    items = [
        {"id": "apples", "prompt": "3 bags of 12?", "numeric": 36},
        {
            "id": "Größe",
            "prompt": "Which city?",
            "system": "Be short.",
            "max_tokens": 20,
            "exact": ["Paris", "Lutetia"],
        },
        {"id": "price", "prompt": "How much?", "numeric": {"value": 1.10, "tolerance": "2%"}},
        {"id": "json", "prompt": "As JSON?", "schema": {"type": "object", "properties": {"a": {"const": 1}}}},
        {"id": "kind", "prompt": "A poem.", "rubric": "It rhymes.\nIt is short."},
    ]
    path = tmp_path / "tasks.jsonl"
    lines = [json.dumps(shared), "", *(json.dumps(item, ensure_ascii=False) for item in items)]
    path.write_text("\ufeff" + "\n".join(lines), encoding="utf-8")
    task, same = own.load(path), load(tmp_path, json.dumps(shared | {"items": items}))
    assert task.item_ids == same.item_ids
    assert task.warnings == same.warnings
    for item_id in task.item_ids:
        ours, theirs = task.pose(item_id, 1), same.pose(item_id, 1)
        assert (ours.messages, ours.max_tokens) == (theirs.messages, theirs.max_tokens)
        assert ours.grading_rules == theirs.grading_rules
    assert task.distinct_ids == same.distinct_ids == ("apples", task.item_ids[1], "json", "kind")
    with pytest.raises(DataError, match="no item 'apple'"):
        task.pose("apple", 0)
    path.write_text(path.read_text(encoding="utf-8").replace("36", "37"), encoding="utf-8")
    assert own.load(path).fingerprint != task.fingerprint
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match="changed while the run was using it"):
        task.pose("apples", 0)


LINE = '{"id": "a", "prompt": "x", "numeric": 1}'


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["empty", "one item a line"]),
        ('{"system": "Be short."}', ["empty"]),
        ('{"sytem": "Be short."}\n' + LINE, [":1:", "the first line", "'sytem'", "did you mean 'system'"]),
        (LINE + "\n\n" + LINE, [":3:", "item 2", "'a' stands on line 1"]),
        (LINE + '\n{"id": "b"', [":2:", "not JSON"]),
        ("[" * 100_000, [":1:", "not JSON"]),
        (LINE + '\n{"id": "b", "id": "c", "prompt": "x", "numeric": 1}', [":2:", "key 'id' stands here twice"]),
        (LINE + '\n{"id": "b", "prompt": "x", "numeric": NaN}', [":2:", "NaN"]),
        (LINE + '\n{"id": "b", "prompt": "x"}', [":2:", "item 'b'", "no check"]),
        (LINE + '\n{"id": "b", "prompt": " ", "numeric": 1}', [":2:", "item 'b'", "prompt", "empty"]),
        (LINE + '\n{"id": null, "prompt": "x", "numeric": 1}', [":2:", "item 2", "id", "empty"]),
        (LINE + '\n{"id": "b", "prompt": "x", "numeric": "many"}', [":2:", "numeric", "'many'"]),
        (LINE + '\n{"id": "b", "prompt": "x", "numeric": true}', [":2:", "numeric", "'true'"]),
        (LINE + '\n{"id": "b", "prompt": "x", "exact": []}', [":2:", "exact", "empty list"]),
        (LINE + '\n["b"]', [":2:", "item 2", "mapping"]),
        (LINE + "\n\udcff", [":2:", "UTF-8"]),
    ],
)
def test_mistakes_in_json_lines_are_named_in_one_line(tmp_path: Path, text: str, parts: Sequence[str]) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(DataError) as error:
        own.load(path)
    assert "\n" not in str(error.value)
    for part in (str(path), *parts):
        assert part in str(error.value)
