from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.records import Message, Outcome, Reply
from pytest_elo.tasks.arena import (
    ANSWERED,
    Contestant,
    Judge,
    constant_answers,
    judge_adaptively,
    judge_item,
    load,
)

SHIPPED = Path(__file__).parents[3] / "evals" / "data" / "arena_prompts.yaml"


def written(tmp_path: Path, text: str, name: str = "prompts.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_shipped_prompts_load_cleanly() -> None:
    task = load(SHIPPED)
    assert len(task.item_ids) >= 24
    assert task.distinct_ids == task.item_ids[:1]
    assert task.warnings == ()
    posed = task.pose("late_invoice", 0)
    assert posed.max_tokens == 128
    assert "480 euros" in posed.messages[-1]["content"]
    assert "asks for one clear action" not in str(posed.messages)  # the rubric is for the judge alone


def test_the_fingerprint_follows_everything_that_changes_a_result(tmp_path: Path) -> None:
    path = written(tmp_path, "- {id: a, prompt: Hi}")
    plain = load(path).fingerprint
    assert load(path, judge="gpt-5.4").fingerprint != plain
    (tmp_path / "judge.txt").write_text("{prompt} {answer_a} {answer_b}", encoding="utf-8")
    assert load(path, template="judge.txt").fingerprint != plain
    assert load(written(tmp_path, "- {id: a, prompt: Ho}")).fingerprint != plain
    assert load(written(tmp_path, "- {id: a, prompt: Hi}")).fingerprint == plain


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- {id: a, prompt: Hi}\n- {id: a, prompt: Ho}", r"yaml:2: id 'a' already stands at .*:1"),
        ("- {id: a}", r"yaml:1: an item without 'prompt'"),
        ("- {id: a, prompt: Hi, rubrik: x}", r"yaml:1: item 'a': unknown key 'rubrik'; did you mean 'rubric'"),
        ("system: x", "has no 'items'"),
        ("- {id: a, prompt: Hi, max_tokens: 0}", "at least 1"),
        ("[]", "holds no prompts"),
    ],
)
def test_a_prompt_file_with_a_mistake_is_one_clear_error(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        load(written(tmp_path, text))


def test_json_lines_of_other_arenas(tmp_path: Path) -> None:
    lines = '{"question_id": 81, "turns": ["Hi"]}\n{"uid": "u", "prompt": "Ho", "system": "Be brief."}\n'
    task = load(written(tmp_path, lines, "prompts.jsonl"))
    assert task.item_ids == ("81", "u")
    assert task.pose("u", 0).messages[0] == {"role": "system", "content": "Be brief."}
    two_turns = '{"question_id": 81, "turns": ["Hi", "Ho"]}'
    with pytest.raises(DataError, match=r"jsonl:1: 2 turns"):
        load(written(tmp_path, two_turns, "two.jsonl"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"plan": "ankor"}, "did you mean 'anchor'"),
        ({"plan": "adaptive"}, "belong together"),
        ({"budget": 5}, "belong together"),
        ({"plan": "adaptive", "budget": 0}, r"budget: 0; use a whole number"),
        ({"judge": ["j", "j"]}, "different models"),
        ({"template": "none.txt"}, "cannot be read"),
    ],
)
def test_a_setting_with_a_mistake_is_one_clear_error(tmp_path: Path, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load(written(tmp_path, "- {id: a, prompt: Hi}"), **options)


def test_one_prompt_given_twice_is_a_warning(tmp_path: Path) -> None:
    assert "same prompt" in load(written(tmp_path, "- {id: a, prompt: Hi}\n- {id: b, prompt: Hi}")).warnings[0]


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (Reply(call_id="1", text="Hello."), ANSWERED),
        (Reply(call_id="1", text="Hel", finish_reason="length"), ANSWERED),
        (Reply(call_id="1", text="<think>hm</think>"), "no_answer"),
        (Reply(call_id="1", text="", finish_reason="length"), "truncated"),
        (Reply(call_id="1", text="", finish_reason="content_filter"), "filtered"),
        (Reply(call_id="1", text="", refusal="no"), "refused"),
    ],
)
def test_an_answer_is_there_or_its_absence_has_a_name(tmp_path: Path, reply: Reply, status: str) -> None:
    problem = load(written(tmp_path, "- {id: a, prompt: Hi}")).pose("a", 0)
    grade = problem.grade(reply)
    assert (grade.status, grade.score) == (status, 0.0)


async def longer_wins(messages: Sequence[Message], **_: Any) -> Reply:
    shown = str(messages[-1]["content"])
    a = shown.partition("<answer-A")[2].partition("</answer-A")[0]
    b = shown.partition("<answer-B")[2].partition("</answer-B")[0]
    return Reply(call_id="j", text="[[A]]" if len(a) > len(b) else "[[B]]", finish_reason="stop")


def answers(*lengths: int) -> list[Contestant]:
    return [Contestant(policy=f"s{i}", text="x" * n) for i, n in enumerate(lengths)]


def test_all_pairs_of_a_prompt_are_judged() -> None:
    task = load(SHIPPED)
    judges = [Judge("j", longer_wins)]
    rulings = asyncio.run(judge_item(task, "sky_for_a_child", answers(5, 9, 7), lambda _: judges, anchor="s0"))
    assert [(r.verdict.a, r.verdict.b, r.verdict.share) for r in rulings] == [
        ("s0", "s1", 0.0),
        ("s0", "s2", 0.0),
        ("s1", "s2", 1.0),
    ]
    assert rulings[0].pair.rubric is not None


def test_an_adaptive_contest_keeps_its_budget_and_tells_the_saving() -> None:
    task = load(SHIPPED, plan="adaptive", budget=20)
    contestants = {item: answers(5, 9, 7, 8) for item in task.item_ids}
    del contestants["limerick_cat"][2:]  # not answered by all: never drawn
    rulings, saving = asyncio.run(judge_adaptively(task, contestants, lambda _: [Judge("j", longer_wins)]))
    assert len(rulings) == 20
    assert "limerick_cat" not in {r.pair.item_id for r in rulings}
    assert saving.startswith(f"adaptive plan: judged 20 of {6 * (len(task.item_ids) - 1)} pairs, saved")


def test_the_judge_sees_an_answer_without_its_reasoning() -> None:
    task = load(SHIPPED)
    outcome = Outcome(task_id="arena", item_id="limerick_cat", strategy="r3", model="m", status=ANSWERED)
    assert task.contestant(outcome, "<think>[[A]]</think>\nYes.").text == "Yes."


def test_a_policy_with_one_text_for_every_prompt_is_named() -> None:
    task = load(SHIPPED)

    def outcome(policy: str, item: str, text: str) -> Outcome:
        grade = task.pose(item, 0).grade(Reply(call_id="1", text=text))
        return Outcome(
            task_id="arena", item_id=item, strategy=policy, model="m", status=grade.status, answer=grade.answer
        )

    outcomes = [outcome("null", item, "The best answer.") for item in task.item_ids[:3]]
    outcomes += [outcome("r3", item, f"About {item}.") for item in task.item_ids[:3]]
    assert constant_answers(outcomes) == ("null gave the same answer to 3 different prompts (of 3 answers)",)
