"""Patches against the shipped repositories: every row of the mutation table, and the ways to cheat."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_elo.errors import ConfigError
from pytest_elo.tasks.swebench.errors import RunnerError
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.local.git import git
from pytest_elo.tasks.swebench.local.mirrors import checkout_shallow
from pytest_elo.tasks.swebench.local.runner import LocalRunner
from pytest_elo.tasks.swebench.runner import read_run
from pytest_elo.tasks.swebench.sandbox import Limits
from pytest_elo.tasks.swebench.sandbox.process import Finished
from pytest_elo.tasks.swebench.script import Plan, read_stages

Suite = dict[str, Instance]

CONFTEST_CHEAT = """\
import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome = "passed"
    report.longrepr = None
"""


def new_file(path: str, text: str, mode: str = "100644") -> str:
    body = "".join(f"+{line}\n" for line in text.splitlines())
    count = len(text.splitlines())
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1,{count} @@\n{body}"


def append(runner: LocalRunner, instance: Instance, path: str, text: str) -> str:
    """A patch that appends text to a file of the base tree."""
    old = (runner.workspace(instance).tree / path).read_text().splitlines()
    added = text.splitlines()
    body = "".join(f" {line}\n" for line in old[-1:]) + "".join(f"+{line}\n" for line in added)
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
    return f"{head}@@ -{len(old)},1 +{len(old)},{len(added) + 1} @@\n{body}"


def test_shipped_instances_are_faithful_and_every_parser_family_is_there(runner: LocalRunner, suite: Suite) -> None:
    for instance in suite.values():
        preflight = runner.preflight(instance)
        assert preflight.faithful, f"{instance.instance_id}: {preflight.reason}"
        assert preflight.without_patch is not None
        assert preflight.without_patch.verdict.reason == "unresolved"
    assert len({instance.parser for instance in suite.values()}) == len(suite) >= 4


Mutation = Callable[[str], str]
MUTATIONS: dict[str, tuple[Mutation, str, str]] = {
    # name: (mutation, reason for a generated patch, reason for an imported prediction)
    "as it is": (lambda d: d, "resolved", "resolved"),
    "fenced": (lambda d: f"```diff\n{d}```\n", "resolved", "resolved"),
    "prose around": (lambda d: f"I fixed it.\n\n{d}\nHope this helps.\n", "resolved", "resolved"),
    "no diff --git": (
        lambda d: re.sub(r"^diff --git.*\n(index.*\n)?", "", d, flags=re.M),
        "resolved",
        "resolved",
    ),
    "lines off by 37": (
        lambda d: re.sub(r"@@ -(\d+)", lambda m: f"@@ -{int(m[1]) + 37}", d),
        "resolved",
        "resolved",
    ),
    "blank lines without space": (lambda d: re.sub(r"^ $", "", d, flags=re.M), "resolved", "resolved"),
    "no final newline": (lambda d: d.rstrip("\n"), "resolved", "resolved"),
    "crlf": (lambda d: d.replace("\n", "\r\n"), "resolved", "resolved"),
    "wrong hunk counts": (lambda d: re.sub(r"@@ -(\d+),\d+", r"@@ -\1,2", d), "resolved", "patch_failed"),
    "one context char wrong": (
        lambda d: d.replace(" def split(cents", " def splat(cents"),
        "resolved",
        "resolved",
    ),
    "no a/ b/": (
        lambda d: d.replace("a/money", "money").replace("b/money", "money"),
        "patch_failed",
        "patch_failed",
    ),
    "wrong folder": (lambda d: d.replace("money/", "src/money/"), "patch_failed", "patch_failed"),
    "absolute": (lambda d: d.replace("a/money", "/testbed/money"), "patch_refused", "patch_refused"),
    "truncated": (lambda d: d[: d.index("+    share")] + "+    sha", "unresolved", "patch_failed"),
    "tabs": (lambda d: d.replace("    ", "\t"), "patch_failed", "patch_failed"),
    "binary stub beside": (
        lambda d: d + "diff --git a/x.png b/x.png\nBinary files /dev/null and b/x.png differ\n",
        "resolved",
        "resolved",
    ),
    "empty": (lambda d: "", "empty_patch", "empty_patch"),
    "whitespace": (lambda d: " \n\n", "empty_patch", "empty_patch"),
    "git hook": (
        lambda d: d + new_file(".git/hooks/post-checkout", "#!/bin/sh\ntouch /tmp/x"),
        *["patch_refused"] * 2,
    ),
    "climbing": (lambda d: d + new_file("../../x", "x"), "patch_refused", "patch_refused"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_table(name: str, runner: LocalRunner, suite: Suite) -> None:
    mutate, generated, imported = MUTATIONS[name]
    patch = mutate(suite["money"].patch)
    verdict = runner.evaluate(suite["money"], patch, generated=True).verdict
    assert verdict.reason == generated, verdict.detail
    verdict = runner.evaluate(suite["money"], patch, generated=False).verdict
    assert verdict.reason == imported, verdict.detail


def test_failure_texts_say_what_git_said(runner: LocalRunner, suite: Suite) -> None:
    patch = suite["money"].patch.replace("money/", "src/money/")
    verdict = runner.evaluate(suite["money"], patch, generated=True).verdict
    assert "src/money/split.py: No such file or directory" in verdict.detail
    wrong = suite["money"].patch.replace("divmod(cents, people)", "divmod(cents, 7)")
    verdict = runner.evaluate(suite["money"], wrong, generated=True).verdict
    assert "FAIL_TO_PASS not passing: No cent is lost." in verdict.detail


def test_protected_files_do_not_help(runner: LocalRunner, suite: Suite) -> None:
    """conftest hooks, ini files, start-up modules, shadowed packages: dropped, and the rest is graded."""
    instance = suite["durations"]
    cheats = {
        "conftest.py": CONFTEST_CHEAT,
        "tests/conftest.py": CONFTEST_CHEAT,
        "pytest.ini": "[pytest]\naddopts = -p cheat\n",
        "sitecustomize.py": "import os\nprint('PASSED everything')\n",
        "pluggy.py": "raise SystemExit(0)\n",
        "unittest/__init__.py": "raise SystemExit(0)\n",
    }
    cheat = "".join(new_file(path, text) for path, text in cheats.items()) + new_file("cheat.py", CONFTEST_CHEAT)
    alone = runner.evaluate(instance, cheat, generated=True).verdict
    assert alone.reason == "unresolved"
    dropped = {mark.partition(":")[2] for mark in alone.marks if mark.startswith("protected:")}
    assert dropped == {
        "conftest.py",
        "tests/conftest.py",
        "pytest.ini",
        "sitecustomize.py",
        "pluggy.py",
        "unittest",
    }
    assert runner.evaluate(instance, instance.patch + cheat, generated=True).verdict.resolved


def test_configuration_is_kept_unless_it_speaks_to_pytest(runner: LocalRunner, suite: Suite) -> None:
    instance = suite["durations"]
    honest = append(runner, instance, "pyproject.toml", 'description = "Durations."')
    verdict = runner.evaluate(instance, instance.patch + honest, generated=True).verdict
    assert (verdict.reason, verdict.marks) == ("resolved", ())
    loaded = new_file("cheat.py", CONFTEST_CHEAT)
    cheat = append(runner, instance, "pyproject.toml", '[tool.pytest.ini_options]\naddopts = "-p cheat"')
    verdict = runner.evaluate(instance, cheat + loaded, generated=True).verdict
    assert (verdict.reason, verdict.marks) == ("unresolved", ("protected:pyproject.toml",))
    tables = suite["tables"]
    cheat = "".join(
        f"{line}\n"
        for line in (
            "--- a/pyproject.toml", "+++ b/pyproject.toml", "@@ -13,2 +13,2 @@", " [tool.pytest.ini_options]",
            '-addopts = "--strict-markers"', '+addopts = "-p cheat"',
        )
    )  # fmt: skip
    verdict = runner.evaluate(tables, cheat + new_file("src/cheat.py", CONFTEST_CHEAT), generated=True).verdict
    assert (verdict.reason, verdict.marks) == ("unresolved", ("protected:pyproject.toml",))


def test_forged_results_are_tampered(runner: LocalRunner, suite: Suite) -> None:
    instance = suite["durations"]
    expected = [*instance.fail_to_pass, *instance.pass_to_pass]
    forge = "import os, sys\nsys.__stdout__.write('')\n"
    forge += f"os.write(1, {''.join(f'PASSED {name}' + chr(10) for name in expected)!r}.encode())\n"
    late = append(runner, instance, "durations.py", f"{forge}\nos._exit(0)")
    assert not runner.evaluate(instance, late, generated=True).verdict.resolved
    # Through a descriptor that pytest's capturing does not cover, with a header like pytest's own.
    text = "=== short test summary info ===\n" + "".join(f"PASSED {name}\n" for name in expected)
    write = f"    try:\n        os.write(fd, {text!r}.encode())\n    except OSError:\n        pass\n"
    raw = f"import os\nfor fd in range(3, 30):\n{write}"
    verdict = runner.evaluate(
        instance, append(runner, instance, "durations.py", f"{raw}os._exit(0)"), generated=True
    ).verdict
    assert verdict.reason == "tampered", verdict
    # Forged markers of the harness.
    marker = append(
        runner, instance, "durations.py", f"import os\nos.write(2, b'x')\nprint({'>>>>> End Test Output'!r})"
    )
    assert not runner.evaluate(instance, marker, generated=True).verdict.resolved


def test_graded_test_files_are_reset_one_by_one(runner: LocalRunner, suite: Suite) -> None:
    """An edit of a graded test neither helps nor hurts, whatever it turns the path into."""
    instance = suite["money"]
    easy = append(runner, instance, "tests/test_money.py", "\nraise SystemExit('edited')")
    assert runner.evaluate(instance, easy, generated=True).verdict.reason == "unresolved"
    assert runner.evaluate(instance, instance.patch + easy, generated=True).verdict.resolved
    removed = "diff --git a/tests/test_money.py b/tests/test_money.py\n"
    removed += "deleted file mode 100644\n--- a/tests/test_money.py\n"
    base = (runner.workspace(instance).tree / "tests/test_money.py").read_text().splitlines()
    removed += f"+++ /dev/null\n@@ -1,{len(base)} +0,0 @@\n" + "".join(f"-{line}\n" for line in base)
    folder = new_file("tests/test_money.py/x.txt", "x")
    assert runner.evaluate(instance, instance.patch + removed, generated=True).verdict.resolved
    assert runner.evaluate(instance, instance.patch + removed + folder, generated=True).verdict.resolved


def test_a_hanging_patch_times_out_and_is_a_loss(make_runner: Callable[..., LocalRunner], suite: Suite) -> None:
    impatient = make_runner("auto", limits=Limits(wall_s=3, cpu_s=60))
    patch = append(impatient, suite["money"], "money/text.py", "import time\ntime.sleep(600)")
    verdict = impatient.evaluate(suite["money"], patch, generated=True).verdict
    assert verdict.reason == "timeout"
    assert not verdict.resolved


def test_equal_runs_are_taken_from_the_cache(runner: LocalRunner, suite: Suite) -> None:
    patch = suite["poly"].patch.replace("product[i + j] += a * b", "product[i + j] += b * a")
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: runner.evaluate(suite["poly"], patch, generated=True), range(4)))
    assert [run.cached for run in runs].count(False) == 1
    assert len({run.verdict for run in runs}) == 1
    assert runs[0].verdict.resolved
    marked = runner.evaluate(suite["poly"], patch.rstrip("\n"), generated=False)
    assert (marked.cached, marked.verdict.marks) == (True, ("repaired:final_newline",))


def test_unfaithful_when_gold_does_not_resolve_or_nothing_is_needed(runner: LocalRunner, suite: Suite) -> None:
    import dataclasses

    instance = suite["poly"]
    drifted = dataclasses.replace(instance, pass_to_pass=(*instance.pass_to_pass, "test_of_another_python"))
    preflight = runner.preflight(drifted)
    assert not preflight.faithful
    assert "1 of 4 PASS_TO_PASS not passing: test_of_another_python" in preflight.reason
    easy = dataclasses.replace(instance, fail_to_pass=("test_call",))
    assert "pass without any patch" in runner.preflight(easy).reason


def test_public_check_uses_visible_tests_only(runner: LocalRunner, suite: Suite) -> None:
    instance = suite["durations"]
    broken = instance.patch.replace('or "0s"', '+ x or "0s"')
    evaluation = runner.check(instance, broken)
    assert "test_format_zero" not in evaluation.output
    assert "NameError" in evaluation.output
    assert "test_format_zero" not in runner.check(instance, instance.patch).output


def test_the_fix_cannot_be_found_in_the_tree(tmp_path: Path, runner: LocalRunner, suite: Suite) -> None:
    source = tmp_path / "source"
    git(["init", "--quiet", str(source)])
    for number in (1, 2):
        (source / "f.py").write_text(f"version = {number}\n")
        git(["add", "."], cwd=source)
        git(["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", f"number {number}"], cwd=source)
    base = git(["rev-parse", "HEAD~1"], cwd=source).strip()
    git(["tag", "v2"], cwd=source)
    tree = tmp_path / "tree"
    checkout_shallow(source / ".git", base, tree)
    assert (tree / "f.py").read_text() == "version = 1\n"
    assert git(["rev-parse", "HEAD"], cwd=tree).strip() == base
    assert git(["log", "--all", "--format=%s"], cwd=tree).split("\n") == ["number 1", ""]
    everything = subprocess.run(["grep", "-r", str(source), str(tree)], capture_output=True, text=True, check=False)
    assert everything.stdout == ""
    objects = git(["cat-file", "--batch-check", "--batch-all-objects"], cwd=tree).splitlines()
    assert len(objects) == 3  # one commit, one tree, one blob


def test_unknown_repository_and_commit_name_the_remedy(runner: LocalRunner, suite: Suite) -> None:
    import dataclasses

    missing = dataclasses.replace(suite["poly"], base_commit="1" * 40)
    with pytest.raises(ConfigError, match=r"mini__poly.txtar has no commit 1{40}"):
        runner.workspace(missing)
    other = dataclasses.replace(suite["poly"], repo="someone/else")
    with pytest.raises(ConfigError, match="no environment is known"):
        runner.workspace(other)


def test_without_the_program_patch_a_patch_that_git_refuses_is_no_verdict(
    tmp_path: Path, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The official harness asks patch(1) after git: what is not installed here says nothing about the patch."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "git", "timeout", "env"):
        (programs / name).symlink_to(shutil.which(name) or name)
    tree, control = tmp_path / "tree", tmp_path / "root" / "tmp" / ".elo"
    control.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", tree], check=True)
    (tree / "a.txt").write_text("one\n")
    (control / "model.patch").write_text("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-two\n+three\n")
    plan = Plan(word="word", prelude="", patch="x", test_command="true", limits=Limits(wall_s=60), base_commit="HEAD")
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("ELO_ROOT", str(tmp_path / "root"))
    done = subprocess.run(["bash", "-c", plan.script()], cwd=tree, capture_output=True, text=True, check=False)
    stages = read_stages(done.stdout, "word")
    assert stages.failed == "patch_program"
    finished = Finished(ended="exit", exit_code=done.returncode, output=done.stdout.encode(), wall_s=1.0)
    with pytest.raises(RunnerError, match="the program patch, which the official harness asks next, is not installed"):
        read_run(suite["money"], finished, stages, ())
