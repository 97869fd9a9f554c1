"""Does a transcript hang together? Checks that cost an honest run nothing and a forged one its win.

Code under test runs in the same process as the test runner, so it can print status lines and leave with
``os._exit(0)``. What it prints before the runner's own ending is not an ending: pytest, Django and sympy all
close with totals, and the totals have to agree with what was reported. A forger who reproduces a whole
transcript, totals included, is beyond any check of text; such a patch is visible in its diff.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

__all__ = ["contradiction"]

Parser = Callable[[str], Mapping[str, str]]

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_HEADER = re.compile(r"^=+ short test summary info =+$", re.MULTILINE)
_TOTALS = re.compile(
    r"^(?:=+ )?((?:\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?|rerun)(?:, )?)+)"
    r" in [\d.]+ ?s\S*(?: .*)?$",
    re.MULTILINE,
)
_DJANGO_RAN = re.compile(r"^Ran (\d+) tests? in [\d.]+s$", re.MULTILINE)
_DJANGO_END = re.compile(r"^(OK|FAILED)(?: \(.*\))?$", re.MULTILINE)
_SYMPY_TOTALS = re.compile(r"tests finished: (.*) in [\d.]+ seconds")


def contradiction(family: str, parse: Parser, output: str, exit_code: int | None, passed: set[str]) -> str:
    """What is wrong with the transcript of a run that claims success; empty when nothing is.

    Args:
        family: ``pytest``, ``django`` or ``sympy``.
        parse: the parser that read ``passed`` from ``output``.
        passed: keys of the graded tests with status PASSED.
    """
    output = _COLOUR.sub("", output)
    problems = {"pytest": _pytest, "django": _django, "sympy": _sympy}[family](parse, output, exit_code, passed)
    return next(problems, "")


def _pytest(parse: Parser, output: str, exit_code: int | None, passed: set[str]) -> Iterator[str]:
    if not passed:  # nothing but skipped or expected failures: no status line to forge
        return
    headers = list(_HEADER.finditer(output))
    if not headers:
        yield "tests are reported as passed but pytest never printed its summary"
        return
    summary = output[headers[-1].end() :]
    totals = list(_TOTALS.finditer(summary))
    if not totals:
        yield "pytest's summary has no closing totals: the run ended before pytest did"
        return
    # tox and friends print after pytest; what counts ends with the first totals after the last header.
    reported = parse(summary[: totals[0].start()])
    stray = sorted(name for name in passed if reported.get(name) != "PASSED")
    if stray:
        yield f"{len(stray)} tests are reported as passed outside pytest's summary, such as {stray[0]}"
    counted = _counts(totals[0][1])
    lines = sum(line.startswith("PASSED ") for line in summary[: totals[0].start()].split("\n"))
    if counted.get("passed", 0) != lines:
        yield f"pytest counted {counted.get('passed', 0)} passed tests but {lines} are listed"
    failures = counted.get("failed", 0) + counted.get("error", 0) + counted.get("errors", 0)
    if exit_code == 0 and failures:
        yield f"exit code 0 beside {failures} failed tests"


def _counts(totals: str) -> dict[str, int]:
    return {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", totals)}


def _django(parse: Parser, output: str, exit_code: int | None, passed: set[str]) -> Iterator[str]:
    ran = list(_DJANGO_RAN.finditer(output))
    if not ran:
        yield "tests are reported as passed but Django's runner never printed how many it ran"
        return
    ending = _DJANGO_END.search(output, ran[-1].end())
    if ending is None:
        yield "the transcript ends before Django's runner gave its result"
        return
    before = parse(output[: ran[-1].start()])
    stray = sorted(name for name in passed if before.get(name) != "PASSED")
    if stray:
        yield f"{len(stray)} tests are reported as passed after the run's end, such as {stray[0]}"
    total = sum(int(match[1]) for match in ran)
    if len(passed) > total:
        yield f"{len(passed)} graded tests are reported as passed but {total} were run"
    if exit_code == 0 and ending[1] == "FAILED":
        yield "exit code 0 beside a failed run"


def _sympy(parse: Parser, output: str, exit_code: int | None, passed: set[str]) -> Iterator[str]:
    totals = list(_SYMPY_TOTALS.finditer(output))
    if not totals:
        yield "tests are reported as passed but sympy's runner never printed its totals"
        return
    before = parse(output[: totals[-1].start()])
    stray = sorted(name for name in passed if before.get(name) != "PASSED")
    if stray:
        yield f"{len(stray)} tests are reported as passed after the run's end, such as {stray[0]}"
    counted = _counts(totals[-1][1])
    if len(passed) > counted.get("passed", 0):
        yield f"{len(passed)} graded tests are reported as passed but {counted.get('passed', 0)} were counted"
    if exit_code == 0 and counted.get("failed", 0) + counted.get("exceptions", 0):
        yield "exit code 0 beside failed tests"
