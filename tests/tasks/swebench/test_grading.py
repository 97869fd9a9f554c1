"""The verdict table of the official grader, and the runs it would let through."""

from __future__ import annotations

import pytest

from pytest_elo.tasks.swebench.grading import END, EXIT_CODE, START, grade_log
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.logparsers import PARSERS


def instance(f2p: list[str], p2p: list[str], parser: str = "parse_log_pytest") -> Instance:
    return Instance(
        instance_id="mini__x-1",
        repo="mini/x",
        base_commit="0" * 40,
        problem_statement="p",
        patch="p",
        test_patch="t",
        fail_to_pass=tuple(f2p),
        pass_to_pass=tuple(p2p),
        parser=parser,
        test_command="true",
    )


def pytest_log(*lines: str, totals: str | None = None, before: str = "") -> str:
    """What ``pytest -rA`` prints for these summary lines."""
    words = {"failed": "FAILED", "passed": "PASSED", "skipped": "SKIPPED", "xfailed": "XFAIL"}
    counts = {word: sum(line.startswith(status) for line in lines) for word, status in words.items()}
    told = ", ".join(f"{n} {word}" for word, n in counts.items() if n)
    closing = f"{'=' * 10} {told if totals is None else totals} in 0.12s {'=' * 10}"
    summary = "\n".join(lines)
    return f"collected 3 items\n{before}\n=== short test summary info ===\n{summary}\n{closing}\n"


@pytest.mark.parametrize(
    ("f2p", "p2p", "lines", "reason"),
    [
        (["t::a"], ["t::b"], ["PASSED t::a", "PASSED t::b"], "resolved"),
        (["t::a"], ["t::b"], ["PASSED t::b"], "unresolved"),  # expected test missing from the log
        (["t::a"], ["t::b"], ["SKIPPED t::a", "PASSED t::b"], "unresolved"),  # F2P skipped
        (["t::a"], ["t::b"], ["PASSED t::a", "SKIPPED t::b"], "resolved"),  # P2P skipped
        (["t::a"], ["t::b"], ["XFAIL t::a", "XFAIL t::b"], "resolved"),
        (["t::a"], ["t::b"], ["XPASS t::a", "PASSED t::b"], "unresolved"),  # XPASS is not parsed
        (["t::a"], ["t::b"], ["PASSED t::a", "FAILED t::b - assert 1 == 2"], "unresolved"),
        (["t::a"], ["t::b"], ["PASSED t::a", "ERROR t::b"], "unresolved"),
        (["t::a[x"], [], ["PASSED t::a[x y]"], "resolved"),  # id cut at its space
        (["t::a[log(", "t::b"], [], ["PASSED t::a[log(p)]", "PASSED t::b"], "resolved"),  # cut, unambiguous
        (["t::a[log("], [], ["PASSED t::a[log(p)]", "FAILED t::a[log(q)]"], "unresolved"),  # cut, ambiguous
        (["t::a"], [], ["PASSED t::a[x]"], "unresolved"),  # whole ids match exactly
    ],
)
def test_official_verdict_table(f2p: list[str], p2p: list[str], lines: list[str], reason: str) -> None:
    failed = any(line.startswith(("FAILED", "ERROR")) for line in lines)
    verdict = grade_log(instance(f2p, p2p), pytest_log(*lines), 1 if failed else 0)
    assert verdict.reason == reason
    assert verdict.resolved == (reason == "resolved")


def test_markers_slice_the_log_and_twice_is_tampered() -> None:
    inst = instance(["t::a"], [])
    log = f"pip says hello\n+ : '{START}'\n{pytest_log('PASSED t::a')}+ : '{END}'\n{EXIT_CODE}: 0\n"
    assert grade_log(inst, log, 0).resolved
    assert grade_log(inst, log.replace("collected", f"{END}\ncollected"), 0).reason == "tampered"


def test_invalid_logs() -> None:
    inst = instance(["t::a"], [])
    assert grade_log(inst, "Segmentation fault\n", 139).reason == "invalid_log"
    assert grade_log(inst, pytest_log("PASSED t::a"), 4).reason == "invalid_log"


def test_forged_passes_are_tampered() -> None:
    """The two cheats that the official grader resolves, and clumsier ones."""
    inst = instance(["t::a"], ["t::b"])
    forged = "PASSED t::a\nPASSED t::b\n"
    # printed while the module is imported, then os._exit(0)
    assert grade_log(inst, f"collected 0 items\n{forged}", 0).reason == "tampered"
    # printed with a header of its own, without pytest's totals
    assert grade_log(inst, f"=== short test summary info ===\n{forged}", 0).reason == "tampered"
    # printed before an honest summary that does not list them
    honest = pytest_log("PASSED t::c", before=forged)
    assert grade_log(inst, honest, 0).reason == "tampered"
    # listed in the summary, but more of them than pytest counted
    assert grade_log(inst, pytest_log(*forged.split("\n")[:2], totals="1 passed"), 0).reason == "tampered"
    # failures that did not reach the exit code
    log = pytest_log("PASSED t::a", "PASSED t::b", "FAILED t::c - no")
    assert grade_log(inst, log, 0).reason == "tampered"
    assert grade_log(inst, log, 1).resolved  # an ungraded test may fail


def test_output_of_inner_runs_does_not_count_as_forged() -> None:
    """pytest's own tests print whole inner sessions; what counts is the last summary."""
    inner = pytest_log("PASSED inner::x", totals="1 passed")
    verdict = grade_log(instance(["t::a"], []), pytest_log("PASSED t::a", before=inner), 0)
    assert verdict.resolved


DJANGO = """\
test_a (m.tests.A.test_a) ... ok
Nothing is lost. ... ok
test_c (m.tests.A.test_c) ... Testing against Django installed in 'x' with 2 processes silenced).
ok
test_d (m.tests.A.test_d) ... skipped 'no database'
test_e (m.tests.A.test_e) ... FAIL

----------------------------------------------------------------------
Ran 5 tests in 0.010s

FAILED (failures=1, skipped=1)
"""
SYMPY = """\
sympy/core/tests/test_x.py[3]
test_a ok
test_b F
test_c E
________________________________________________________________________________
_____________________ sympy/core/tests/test_x.py:test_b ______________________
=========== tests finished: 1 passed, 1 failed, 1 exceptions, in 0.31 seconds ============
"""


def test_django_names_and_ending() -> None:
    graded = ["test_a (m.tests.A.test_a)", "Nothing is lost."]
    inst = instance(graded, ["test_c (m.tests.A.test_c)", "test_d (m.tests.A.test_d)"], "parse_log_django")
    assert grade_log(inst, DJANGO, 1).resolved
    assert grade_log(inst, DJANGO, 0).reason == "tampered"
    assert grade_log(inst, DJANGO.partition("Ran")[0], 1).reason == "tampered"
    assert grade_log(inst, DJANGO.replace("Ran 5", "Ran 2"), 1).reason == "tampered"


def test_sympy_names_and_totals() -> None:
    inst = instance(["test_a"], [], "parse_log_sympy")
    assert grade_log(inst, SYMPY, 1).resolved
    assert grade_log(inst, SYMPY, 0).reason == "tampered"
    assert grade_log(inst, SYMPY.partition("====")[0], 1).reason == "tampered"
    assert PARSERS["parse_log_sympy"](SYMPY) == {
        "test_a": "PASSED",
        "test_b": "FAILED",
        "test_c": "ERROR",
        "sympy/core/tests/test_x.py:test_b": "FAILED",
    }


@pytest.mark.parametrize(
    ("parser", "line", "expected"),
    [
        ("parse_log_flask", "PASSED t::a[x y] extra", {"t::a[x": "PASSED"}),
        ("parse_log_flask", "FAILED t::a - assert x", {"t::a": "FAILED"}),
        ("parse_log_flask", "SKIPPED [3] t.py:1: no", {}),
        ("parse_log_flask", "PASSED [100%]", {"[100%]": "PASSED"}),
        ("parse_log_requests", "PASSED t::a[/home/x/y]", {"t::a[/y]": "PASSED"}),
        ("parse_log_requests", "PASSED t::a[//x/y]", {"t::a[//x/y]": "PASSED"}),
        ("parse_log_requests", "PASSED t::a[/x/*]", {"t::a[/x/*]": "PASSED"}),
        ("parse_log_astropy", "\x1b[32mPASSED\x1b[0m t::a[x y]", {"t::a[x y]": "PASSED"}),
        ("parse_log_astropy", "t::a[x y] PASSED", {"t::a[x y]": "PASSED"}),
        ("parse_log_astropy", "FAILED t::a[x] - a - b", {"t::a[x]": "FAILED"}),
        ("parse_log_seaborn", "t::a PASSED [ 5%]", {"t::a": "PASSED"}),
        ("parse_log_seaborn", "SKIPPED t::a", {}),
        ("parse_log_matplotlib", "PASSED t::a[MouseButton.LEFT]", {"t::a[1]": "PASSED"}),
        ("parse_log_django", "a docstring - with dashes ... ok", {"a docstring - with dashes": "PASSED"}),
        ("parse_log_django", "ERROR: test_x (m.A)", {"test_x": "ERROR"}),
    ],
)
def test_parsers_keep_the_datasets_artefacts(parser: str, line: str, expected: dict[str, str]) -> None:
    assert PARSERS[parser](line) == expected
