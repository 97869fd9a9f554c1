"""From what models write to diffs: edit blocks, ranking, the map, and the conversations around them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_elo.records import Message, Reply
from pytest_elo.tasks.swebench.generate.calls import named_files
from pytest_elo.tasks.swebench.generate.edits import Edit, apply_edits, make_diff, parse_edits, proposal
from pytest_elo.tasks.swebench.generate.outline import outline, repository_map, tokens_of
from pytest_elo.tasks.swebench.generate.ranking import rank, words
from pytest_elo.tasks.swebench.generate.settings import GeneratorSettings, Material
from pytest_elo.tasks.swebench.generate.sources import Sources
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.local.git import git
from pytest_elo.tasks.swebench.local.runner import LocalRunner
from pytest_elo.tasks.swebench.problem import SweBenchProblem
from pytest_elo.tasks.swebench.task import SweBenchTask

FILE = "def f():\n    if x:\n        return 1\n\n    return 2\n"


def block(path: str, search: str, replace: str, fence: str = "") -> str:
    lines = [path, fence, f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE", fence]
    return "\n".join(line for line in lines if line)


class ScriptedAsk:
    """Answers from a list, keeping what was asked; a reply may be a text or a whole ``Reply``."""

    def __init__(self, *answers: str | Reply) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[Sequence[Message], dict[str, Any]]] = []

    async def __call__(self, messages: Sequence[Message], **parameters: Any) -> Reply:
        self.asked.append((list(messages), parameters))
        answer = self._answers.pop(0)
        call_id = f"c{len(self.asked)}"
        if isinstance(answer, Reply):
            return answer
        return Reply(call_id=call_id, text=answer, finish_reason="stop", prompt_tokens=100, completion_tokens=10)


@pytest.mark.parametrize(
    "reply",
    [
        block("a/b.py", "x", "y"),
        block("### `a/b.py`", "x", "y", "```python"),
        "I change this.\n\n" + block("**a/b.py**", "x", "y", "~~~"),
        block("File: a/b.py", "x", "y"),
    ],
)
def test_blocks_are_found_in_any_decoration(reply: str) -> None:
    assert parse_edits(reply.replace("```python\n>>>", ">>>")) == [Edit("a/b.py", "x\n", "y\n")]


def test_second_block_keeps_the_path_and_an_open_block_is_none() -> None:
    reply = block("a.py", "x", "y") + "\n" + block("", "z", "") + "\n<<<<<<< SEARCH\nnever closed\n=======\n"
    assert parse_edits(reply) == [Edit("a.py", "x\n", "y\n"), Edit("a.py", "z\n", "\n")]


@pytest.mark.parametrize(
    ("search", "replace", "expected"),
    [
        ("    return 2", "    return 3", FILE.replace("2", "3")),
        ("    return 2   ", "    return 3", FILE.replace("2", "3")),  # trailing space
        (
            "if x:\n    return 1",
            "if y:\n    return 7",
            FILE.replace("x", "y").replace("1", "7"),
        ),  # indentation
        ("    if x:\n        return 1\n", "", "def f():\n\n    return 2\n"),
    ],
)
def test_edits_apply_exactly_then_tolerantly(search: str, replace: str, expected: str) -> None:
    texts, problems = apply_edits(
        [Edit("f.py", f"{search}\n", f"{replace}\n" if replace else "\n")], {"f.py": FILE}.get
    )
    assert problems == []
    assert texts["f.py"] == expected


def test_folders_before_a_known_path_are_left_out() -> None:
    edits = [Edit(f"{folder}f.py", "    return 2\n", "    return 3\n") for folder in ("", "/testbed/", "path/to/")]
    for edit in edits:
        assert apply_edits([edit], {"f.py": FILE}.get) == ({"f.py": FILE.replace("2", "3")}, [])
    new = Edit("path/to/f.py", "", "x\n")
    assert apply_edits([new], {"f.py": FILE}.get) == ({"path/to/f.py": "x\n"}, [])


def test_edits_that_do_not_apply_are_told() -> None:
    edits = [Edit("f.py", "nowhere\n", "x\n"), Edit("g.py", "a\n", "b\n"), Edit("d.py", "same\n", "x\n")]
    texts, problems = apply_edits(edits, {"f.py": FILE, "d.py": "same\nsame\n"}.get)
    assert texts == {}
    assert problems == [
        "block 1: its SEARCH text is not in f.py",
        "block 2: there is no file g.py",
        "block 3: its SEARCH text is in 2 places of d.py",
    ]


def test_edits_keep_crlf_and_make_new_files() -> None:
    crlf = FILE.replace("\n", "\r\n")
    reply = block("f.py", "    return 2", "    return 3") + "\n" + block("new/g.py", "", "print()")
    made = proposal(reply, {"f.py": crlf}.get)
    assert made.diff is not None
    assert "-    return 2\r\n+    return 3\r\n" in made.diff
    assert "new file mode 100644\n--- /dev/null\n+++ b/new/g.py\n" in made.diff


def test_whole_files_are_accepted_when_they_are_whole() -> None:
    new = FILE.replace("2", "3")
    reply = f'Here it is.\n<file path="src/f.py">\n{new}</file>\n<file path=g.py>\nx = 1\n</file>\n'
    made = proposal(reply, {"f.py": FILE, "g.py": "x = 1\n"}.get)
    assert (made.diff, made.files) == (make_diff("f.py", FILE, new), ("f.py", "g.py"))
    assert proposal(reply[: reply.index("</file>")], {"f.py": FILE}.get).diff is None
    assert proposal(f"<file path='new.py'>\n{FILE}</file>", {}.get).diff == make_diff("new.py", None, FILE)


def test_a_raw_diff_is_accepted_and_no_change_is_none() -> None:
    diff = make_diff("f.py", FILE, FILE.replace("2", "3"))
    assert proposal(f"```diff\n{diff}```", {}.get).diff == diff
    assert proposal(block("f.py", "    return 2", "    return 2"), {"f.py": FILE}.get).diff is None
    assert proposal("I do not know.", {}.get).diff is None


texts = st.lists(st.sampled_from(["a\n", "b\n", "\n", " c\n", "d"]), max_size=12).map("".join)


@settings(deadline=None, max_examples=40)
@given(texts, texts)
def test_diffs_made_here_are_applied_by_git(tmp_path_factory: pytest.TempPathFactory, old: str, new: str) -> None:
    diff = make_diff("f", old, new)
    if not diff:
        assert old == new
        return
    folder = tmp_path_factory.mktemp("apply")
    (folder / "f").write_text(old)
    (folder / "p").write_text(diff)
    git(["apply", "p"], cwd=folder)
    assert (folder / "f").read_text() == new


def test_words_and_ranking() -> None:
    assert words("getHTTPName(x_ab)") == ["gethttpname", "get", "http", "name", "x_ab"]
    files = {
        "src/pkg/blueprints.py": "class Blueprint:\n    def register(self, name): ...\n",
        "src/pkg/app.py": "class App:\n    def run(self): ...\n" * 50,
        "src/pkg/cli.py": "def main(): ...\n",
    }
    assert rank("Blueprint name may be empty", files)[0] == "src/pkg/blueprints.py"
    assert rank("It crashes in src/pkg/cli.py", files)[0] == "src/pkg/cli.py"
    assert rank("pkg.app hangs", files)[0] == "src/pkg/app.py"
    assert rank("nothing in common", files) == sorted(files)


def test_outline_and_budget_of_the_map() -> None:
    text = "class A(B):\n    def m(self, x): ...\nasync def g(): ...\n"
    assert outline(text) == "1: class A(B)\n  2: def m(self, x)\n3: def g()"
    assert outline("def broken(") == ""
    files = {f"pkg/module_{i:03}.py": text for i in range(400)}
    shown = repository_map(list(files), files.get, 2000)
    assert tokens_of(shown) <= 2000
    assert "more files)" in shown
    assert "### pkg/module_000.py" in shown


def test_files_that_do_not_fit_are_cut_and_say_so() -> None:
    files = {"a.py": "x = 1\n" * 400, "b.py": "y = 2\n" * 4000}
    packed = dict(Material(issue="", ranked=list(files), read=files.get).packed(["a.py", "none.py", "b.py"], 2000))
    assert packed["a.py"] == files["a.py"]
    assert packed["b.py"].endswith("more lines of b.py are not shown)\n")
    assert tokens_of("".join(packed.values())) < 2100


def test_named_files_by_path_or_unique_ending() -> None:
    material = Material(issue="", ranked=["src/a/x.py", "src/b/x.py", "src/b/y.py"], read=lambda path: None)
    reply = "Thinking of z.py.\n<files>\n1. `src/a/x.py`\n- y.py\nx.py\nmissing.py\n</files>"
    assert named_files(reply, material, 5) == ["src/a/x.py", "src/b/y.py"]


@pytest.fixture
def problem(runner: LocalRunner, suite: dict[str, Instance]) -> SweBenchProblem:
    return pose(runner, suite["money"])


def pose(runner: LocalRunner, instance: Instance, **settings: Any) -> SweBenchProblem:
    task = SweBenchTask([instance], lambda: runner, runner.mirrors, GeneratorSettings(**settings))
    return task.pose(instance.instance_id, 0)


SPLIT = block(
    "money/split.py",
    "    return [cents // people] * people",
    "    share, left = divmod(cents, people)\n    return [share + 1] * left + [share] * (people - left)",
)
SHOW = block(
    "money/text.py",
    '    return f"{cents // 100}.{cents % 100:02d}"',
    '    sign, cents = "-" if cents < 0 else "", abs(cents)\n    return f"{sign}{cents // 100}.{cents % 100:02d}"',
)


def test_map_asks_twice_and_resolves(problem: SweBenchProblem) -> None:
    ask = ScriptedAsk("<files>\nsplit.py\nmoney/text.py\n</files>", f"{SPLIT}\n{SHOW}")
    draft = asyncio.run(problem.generate(ask, sample=2, role="vote", temperature=0.8))
    (question, first), (prompt, second) = ask.asked
    assert "money/split.py" in question[0]["content"]
    assert "tests/test_money.py" not in question[0]["content"]
    assert "def split(cents, people)" in prompt[0]["content"]
    assert problem.instance.problem_statement in prompt[0]["content"]
    assert first["sample"] == second["sample"] == 2
    assert {first["role"], second["role"]} == {"vote"}
    assert draft.kept == ("c1", "c2")
    grade = problem.grade(draft.reply)
    assert (grade.status, grade.score, grade.scores["fail_to_pass"]) == ("correct", 1.0, 1.0)
    half = problem.grade(Reply(call_id="h", text=SHOW))
    assert (half.status, half.score, half.scores["fail_to_pass"]) == ("wrong", 0.0, 0.5)


def test_map_repairs_edits_that_did_not_apply_once(problem: SweBenchProblem) -> None:
    broken = SPLIT.replace("cents // people", "cents / people")
    ask = ScriptedAsk("<files>money/split.py</files>", broken, broken)
    draft = asyncio.run(problem.generate(ask))
    (messages, _) = ask.asked[-1]
    assert len(messages) == 3
    assert "SEARCH text is not in money/split.py" in messages[-1]["content"]
    assert "return [cents // people] * people" in messages[-1]["content"]
    assert draft.kept == ("c1", "c2", "c3")
    grade = problem.grade(draft.reply)
    assert (grade.status, grade.detail) == (
        "no_answer",
        "empty_patch: block 1: its SEARCH text is not in money/split.py",
    )


def test_a_cut_reply_is_not_repaired(problem: SweBenchProblem) -> None:
    cut = Reply(call_id="cut", text="Let me think", finish_reason="length")
    draft = asyncio.run(problem.generate(ScriptedAsk("<files>money/split.py</files>", cut)))
    assert draft.reply is cut
    assert problem.grade(cut).status == "truncated"


def test_single_is_one_call_and_hints_stay_out(runner: LocalRunner, suite: dict[str, Instance]) -> None:
    import dataclasses

    instance = dataclasses.replace(suite["money"], hints="Use divmod.")
    ask = ScriptedAsk(f"```diff\n{instance.patch}```")
    problem = pose(runner, instance, generator="single")
    draft = asyncio.run(problem.generate(ask))
    ((messages, _),) = ask.asked
    assert "Use divmod." not in messages[0]["content"]
    assert messages == problem.messages
    assert problem.grade(draft.reply).status == "correct"
    assert "Use divmod." in pose(runner, instance, include_hints=True).messages[0]["content"]


def test_votes_count_equal_diffs_together(problem: SweBenchProblem) -> None:
    as_edits = Reply(call_id="a", text=f"{SPLIT}\n{SHOW}")
    as_diff = Reply(call_id="b", text=f"Different words.\n```diff\n{problem.patch_of(as_edits)}```")
    assert problem.answer_key(as_edits) == problem.answer_key(as_diff) is not None
    assert problem.answer_key(Reply(call_id="c", text=SPLIT)) != problem.answer_key(as_edits)
    assert problem.answer_key(Reply(call_id="d", text="No idea.")) is None


def test_reflection_goes_on_with_what_the_tests_said(problem: SweBenchProblem) -> None:
    first = asyncio.run(
        problem.generate(ScriptedAsk("<files>money/split.py</files>", SPLIT.replace("[share + 1]", "[share + x]")))
    )
    check = problem.check(first.reply)
    assert not check.passed
    assert "1 existing tests no longer pass: test_even" in check.feedback
    assert "NameError" in check.feedback
    assert "No cent is lost" not in check.feedback  # that one is hidden
    ask = ScriptedAsk(f"{SPLIT}\n{SHOW}")
    second = asyncio.run(problem.generate(ask, role="reflect", previous=first, feedback=check.feedback))
    assert "NameError" in ask.asked[0][0][-1]["content"]
    assert ask.asked[0][0][-2] == {"role": "assistant", "content": first.reply.text}
    assert problem.check(second.reply).passed
    assert problem.grade(second.reply).status == "correct"
    assert not problem.check(Reply(call_id="e", text="Sorry.")).passed


def bash(command: str) -> str:
    return f"Next step.\n\n```bash\n{command}\n```"


def test_agent_works_in_the_sandbox_and_submits(
    runner: LocalRunner, suite: dict[str, Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = "return [-(-(cents - i) // people) for i in range(people)]"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    ask = ScriptedAsk(
        bash("env; git log --oneline | wc -l; python -m unittest tests.test_money 2>&1 | tail -1"),
        "I think about it first.",
        bash("sleep 60"),
        bash("yes | head -c 30000"),
        bash(f"sed -i 's|return .*people$|{shares}|' money/split.py; mkdir build; touch build/x money/x.pyc"),
        bash("echo ELO_SUBMIT"),
    )
    problem = pose(runner, suite["money"], generator="agent", command_s=2, observation_chars=400)
    draft = asyncio.run(problem.generate(ask))
    shown = [messages[-1]["content"] for messages, _ in ask.asked]
    assert shown[1].startswith("exit code 0\n")
    assert shown[1].endswith("1\nOK\n")
    assert "secret" not in shown[1]
    assert shown[2] == "Send exactly one command in one ```bash block."
    assert shown[3].startswith("exit code 124")
    assert "characters left out" in shown[4]
    assert len(shown[4]) < 500
    assert {parameters["role"] for _, parameters in ask.asked} == {"agent"}
    assert draft.reply.finish_reason == "stop"
    assert draft.reply.text.count("diff --git") == 1
    assert problem.grade(draft.reply).scores["fail_to_pass"] == 0.5
    again = ScriptedAsk(bash("git diff | grep -c '^+    return'"), bash("echo ELO_SUBMIT"))
    second = asyncio.run(problem.generate(again, previous=draft, feedback="show is still wrong"))
    assert again.asked[1][0][-1]["content"] == "exit code 0\n1\n"
    assert "show is still wrong" in again.asked[0][0][1]["content"]
    assert problem.answer_key(second.reply) == problem.answer_key(draft.reply)


@pytest.mark.parametrize("limits", [{"max_steps": 2}, {"agent_tokens": 150}, {"agent_wall_s": 0.0}])
def test_agent_limits_end_in_limit_exceeded(
    runner: LocalRunner, suite: dict[str, Instance], limits: dict[str, Any]
) -> None:
    problem = pose(runner, suite["money"], generator="agent", **limits)
    ask = ScriptedAsk(*[bash("true")] * 3)
    draft = asyncio.run(problem.generate(ask))
    assert len(ask.asked) == (1 if "agent_wall_s" in limits else 2)
    assert draft.reply.finish_reason == "limit_exceeded"
    assert problem.grade(draft.reply).status == "limit_exceeded"


def test_sources_read_git_without_a_tree(runner: LocalRunner, suite: dict[str, Instance]) -> None:
    instance = suite["money"]
    sources = Sources(runner.mirrors.holding(instance.repo, instance.base_commit), instance.base_commit)
    assert "tests/test_money.py" in sources.paths
    assert sources.read("money/nowhere.py") is None
    assert sources.read("money") is None
    text = sources.read("money/split.py")
    assert text is not None
    assert text.startswith('"""Share a sum')
    assert pose(runner, instance).material.ranked[0] == "money/split.py"


def test_nothing_of_the_run_is_left_in_the_temporary_folder(
    tmp_path: Path, problem: SweBenchProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    problem.grade(Reply(call_id="x", text=SPLIT))
    assert list(tmp_path.iterdir()) == []
