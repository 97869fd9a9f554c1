"""What own tasks grade besides single answers: rubrics with a judge, JSON schemas, shares, public checks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_elo.errors import DataError
from pytest_elo.records import Message, Reply
from pytest_elo.tasks import own


def one(**item: Any) -> own.OwnProblem:
    return own.from_items([{"id": "one", "prompt": "Write.", **item}]).pose("one", 0)


def reply(text: str, finish_reason: str = "stop") -> Reply:
    return Reply(call_id="call", text=text, finish_reason=finish_reason)


class Judge:
    """An ``Ask`` that gives these verdicts in turn."""

    def __init__(self, *verdicts: str) -> None:
        self.verdicts = list(verdicts)
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, messages: Sequence[Message], **options: Any) -> Reply:
        self.asked.append({"content": messages[-1]["content"], **options})
        return reply(self.verdicts[len(self.asked) - 1])


def judged(problem: own.OwnProblem, judge: Judge, text: str, finish_reason: str = "stop") -> tuple[str, float]:
    assert problem.grade_with is not None
    grade = asyncio.run(problem.grade_with(judge, reply(text, finish_reason)))
    return grade.status, grade.score


CRITERIA = ["greets", "names a date", "thanks", "is short"]


@pytest.mark.parametrize(
    ("verdict", "status", "score"),
    [
        ("1: YES\n2: YES\n3: YES\n4: YES", "correct", 1.0),
        ("1: YES\n2: NO\n3: YES\n4: NO", "partial", 0.5),
        ("**1:** no\n2) no\n- 3. NO\n4: no", "wrong", 0.0),
        ("Thinking.\n1: NO\nWait.\n1: YES\n2: YES\n3: YES\n4: NO", "partial", 0.75),
    ],
)
def test_criteria_score_the_share_met(verdict: str, status: str, score: float) -> None:
    judge = Judge(verdict)
    assert judged(one(rubric=CRITERIA), judge, "Dear reader") == (status, score)
    (asked,) = judge.asked
    assert asked["role"] == "judge"
    assert asked["temperature"] == 0.0
    assert "Dear reader" in asked["content"]
    assert "2. names a date" in asked["content"]


@pytest.mark.parametrize(("rating", "score"), [(1, 0.0), (2, 0.25), (4, 0.75), (5, 1.0)])
def test_a_text_is_rated_from_one_to_five(rating: int, score: float) -> None:
    assert judged(one(rubric="It rhymes."), Judge(f"RATING: {rating}"), "A poem")[1] == score


def test_a_verdict_that_cannot_be_read_is_asked_for_once_more_and_is_no_fault_of_the_model() -> None:
    problem = one(rubric=CRITERIA)
    judge = Judge("1: YES, 2 maybe", "1: YES\n2: YES\n3: YES\n4: YES")
    assert judged(problem, judge, "Dear reader") == ("correct", 1.0)
    assert [asked["sample"] for asked in judge.asked] == [0, 1]
    assert judged(problem, Judge("hm", "RATING: 9"), "Dear reader") == ("infra_error", 0.0)


def test_an_answer_that_is_not_there_costs_no_verdict() -> None:
    judge = Judge()
    assert judged(one(rubric=CRITERIA), judge, "  ") == ("empty", 0.0)
    assert judged(one(rubric=CRITERIA), judge, "", "length") == ("truncated", 0.0)
    assert judge.asked == []


def test_the_judge_of_an_item_goes_before_the_tasks_and_a_model_that_judges_itself_is_named() -> None:
    items = [
        {"id": "own", "prompt": "a", "rubric": {"criteria": "It rhymes.", "judge": "strict-model"}},
        {"id": "shared", "prompt": "b", "rubric": "It rhymes."},
    ]
    task = own.from_items(items, task_id="poems", judge="shared-model")
    for item_id, model in (("own", "strict-model"), ("shared", "shared-model")):
        judge = Judge("RATING: 3")
        judged(task.pose(item_id, 0), judge, "A poem")
        assert judge.asked[0]["model"] == model
    assert task.warnings == ()
    (warning,) = own.from_items(items, task_id="poems").warnings
    assert warning.startswith("1 items have a rubric and no judge")
    assert "{poems: {judge: <model>}}" in warning


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
}


@pytest.mark.parametrize(
    ("text", "status", "detail"),
    [
        ('{"name": "Ann", "age": 3}', "correct", None),
        ('Here it is:\n```json\n{"age": 3, "name": "Ann"}\n```\nBye.', "correct", None),
        ('ANSWER: {"name": "Ann", "age": 3}', "correct", None),
        ('{"name": "Ann", "age": -3}', "wrong", "$.age: -3 is less than the minimum of 0"),
        ('{"name": "Ann"}', "wrong", "$: 'age' is a required property"),
        ("Ann is three.", "no_answer", None),
        ('{"name": "Ann", "age":', "no_answer", None),
    ],
)
def test_json_is_checked_against_a_schema(text: str, status: str, detail: str | None) -> None:
    grade = one(schema=PERSON).grade(reply(text))
    assert (grade.status, grade.detail) == (status, detail)


def test_json_votes_by_value_not_by_spelling() -> None:
    problem = one(schema=PERSON)
    first, second, other = (
        problem.answer_key(reply(text))
        for text in ('{"name": "Ann", "age": 3}', '{ "age":3, "name":"Ann" }', '{"name": "Ann", "age": 4}')
    )
    assert first == second != other
    assert problem.answer_key(reply("no JSON")) is None


def test_a_schema_may_be_a_file_and_must_be_one(tmp_path: Path) -> None:
    (tmp_path / "person.json").write_text(json.dumps(PERSON))
    text = "- {id: one, prompt: Write., schema: person.json}\n"
    path = tmp_path / "tasks.yaml"
    path.write_text(text)
    assert own.load(path).pose("one", 0).grade(reply('{"name": "Ann", "age": 3}')).status == "correct"
    path.write_text("- {id: one, prompt: Write., schema: {type: persn}}\n")
    with pytest.raises(DataError, match=r"tasks.yaml:1: item 'one': schema: not a JSON Schema: \$.type: 'persn'"):
        own.load(path)


def test_a_share_of_texts_is_a_partial_score() -> None:
    problem = one(contains={"share": ["nitrogen", "oxygen", "argon", "neon"]})
    grade = problem.grade(reply("Mostly nitrogen and Oxygen, a little ARGON."))
    assert (grade.status, grade.score) == ("partial", 0.75)
    assert one(contains=["nitrogen", "argon"]).grade(reply("nitrogen")).score == 0.0


def starts_with_a(answer: str) -> bool:
    return answer.startswith("a")


def test_a_public_check_says_no_more_than_its_name() -> None:
    problem = one(exact="apple", verify=starts_with_a)
    assert problem.check is not None
    passed, failed = problem.check(reply("ANSWER: anything")), problem.check(reply("ANSWER: pear"))
    assert (passed.passed, passed.score) == (True, 1.0)
    assert not failed.passed
    assert "starts_with_a" in failed.feedback
    assert "apple" not in failed.feedback
    assert one(exact="apple").check is None


def test_python_items_are_checked_like_a_files() -> None:
    with pytest.raises(
        DataError, match=r"items of task 'own':\d+: item 'one': unknown key 'exakt'; did you mean 'exact'"
    ):
        one(exakt="apple")
    assert one(function=starts_with_a).grade(reply("apple")).status == "correct"
