"""From the text a test runner printed to ``{test name: status}``, with the names the dataset expects.

The expected names of SWE-bench are artefacts of its parsers (ids cut at the first space, docstrings as Django
test names), so JUnit XML or a pytest plugin cannot replace them. Each parser here gives the same map as the
one of the same name in ``swebench`` 5.0.2; a development test compares them on the logs of real instances.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

__all__ = ["FAMILIES", "PARSERS", "STATUSES", "parser_of_repository"]

STATUSES = ("FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL")

StatusMap = dict[str, str]
Parser = Callable[[str], StatusMap]

_CONTROL = dict.fromkeys(range(1, 32))
_FOLDED_SKIP = re.compile(r"\[\d+\]$")


def _first_words(line: str) -> tuple[str, str] | None:
    """Status and second word of a ``-rA`` summary line; ``None`` for other lines."""
    if not line.startswith(STATUSES):
        return None
    if line.startswith("FAILED"):
        line = line.replace(" - ", " ")
    words = line.split()
    if len(words) < 2 or _is_folded_skip(words[0], words[1]):
        return None
    return words[0], words[1]


def _is_folded_skip(status: str, name: str) -> bool:
    """``SKIPPED [3] path:line: reason`` counts tests, it names none."""
    return status == "SKIPPED" and _FOLDED_SKIP.match(name) is not None


def _summary_words(log: str) -> Iterator[tuple[str, str]]:
    for line in log.split("\n"):
        if words := _first_words(line):
            yield words


def parse_pytest(log: str) -> StatusMap:
    """Second word of each summary line: ids with spaces come out cut, as the dataset has them."""
    return {name: status for status, name in _summary_words(log)}


def parse_pytest_options(log: str) -> StatusMap:
    """As ``parse_pytest``, with a path as parameter (``t[/a/b]``) shortened to its last part (``t[/b]``)."""
    return {_shorten_option(name): status for status, name in _summary_words(log)}


def _shorten_option(name: str) -> str:
    # by position, not by pattern: a model writes this log, and `(.*?)\[(.*)\]` takes cubic time where no `]` follows
    start, end = name.find("["), name.rfind("]")
    if not 0 <= start < end:
        return name
    test, option = name[:start], name[start + 1 : end]
    if option.startswith("/") and not option.startswith("//") and "*" not in option:
        option = "/" + option.rsplit("/", 1)[-1]
    return f"{test}[{option}]"


def parse_pytest_spaces(log: str) -> StatusMap:
    """Ids keep their spaces, colours are stripped, and ``id STATUS`` of old pytest versions is read too."""
    found: StatusMap = {}
    for raw in log.split("\n"):
        line = re.sub(r"\[(\d+)m", "", raw).translate(_CONTROL)
        if line.startswith(STATUSES):
            if line.startswith("FAILED"):
                line = line.split(" - ", 1)[0]
            status, *name = line.split()
            if name and not _is_folded_skip(status, name[0]):
                found[" ".join(name)] = status
        elif line.endswith(STATUSES):
            *name, status = line.split()
            if name:
                found[" ".join(name)] = status
    return found


def parse_seaborn(log: str) -> StatusMap:
    """Passed and failed tests only, from ``STATUS id`` or ``id PASSED`` lines."""
    found: StatusMap = {}
    for line in log.split("\n"):
        words = line.split()
        if len(words) < 2:
            continue
        if line.startswith("FAILED"):
            found[words[1]] = "FAILED"
        elif " PASSED " in line:
            if words[1] == "PASSED":
                found[words[0]] = "PASSED"
        elif line.startswith("PASSED"):
            found[words[1]] = "PASSED"
    return found


def parse_matplotlib(log: str) -> StatusMap:
    """As ``parse_pytest``, with enum parameters written the way the dataset has them."""
    return parse_pytest(log.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"))


def parse_sympy(log: str) -> StatusMap:
    """``test_x ... ok|F|E`` of sympy's own runner, and its ``____ file.py:test ____`` failure headings."""
    found: StatusMap = {}
    for line in log.split("\n"):
        # `(_*) (.*)\.py:(.*) (_*)` by position: as a pattern it takes quadratic time on lines a model may write
        start, end = line.find(" ") + 1, line.rfind(" ")
        dot = line.rfind(".py:", 0, max(end, 0))
        if 0 < start <= dot:
            found[f"{line[start:dot]}.py:{line[dot + 4 : end]}"] = "FAILED"
    endings = {" E": "ERROR", " F": "FAILED", " ok": "PASSED"}
    for raw in log.split("\n"):
        line = raw.strip()
        if line.startswith("test_"):
            for ending, status in endings.items():
                if line.endswith(ending):
                    found[line.split()[0]] = status
    return found


_DJANGO_INTERRUPTED = tuple(
    (re.compile(rf"^(.*?)\s\.\.\.\s{message}{end}", re.MULTILINE), re.compile(end, re.MULTILINE))
    for message, end in (
        (r"Testing\ against\ Django\ installed\ in\ (?s:.*?)", r"\ silenced\)\.\nok$"),
        (r"Internal\ Server\ Error:\ \/.*", r"\/\nok$"),
        (r"System check identified no issues", r" \(0 silenced\)\nok$"),
    )
)
"""A log message printed between a test's name and its ``ok``."""


def parse_django(log: str) -> StatusMap:
    """``name ... ok`` of Django's runner; names may be docstrings, and output may come before the ``ok``."""
    found: StatusMap = {}
    latest: str | None = None
    for raw in log.split("\n"):
        line = raw.strip()
        if "--version is equivalent to version" in line:
            found["--version is equivalent to version"] = "PASSED"
        if " ... " in line:
            latest = line.split(" ... ")[0]
        found.update(_django_line(line))
        if line.startswith("ok") and latest is not None:
            found[latest] = "PASSED"
    for pattern, end in _DJANGO_INTERRUPTED:
        # nothing that begins behind the last end can match, and to find that out takes each a pass over the rest
        last = max((match.end() for match in end.finditer(log)), default=0)
        for match in pattern.finditer(log[:last]):
            found[match[1]] = "PASSED"
    return found


def _django_line(line: str) -> Iterator[tuple[str, str]]:
    for suffix in (" ... ok", " ... OK", " ...  OK"):
        if line.endswith(suffix):
            if line.startswith("Applying sites.0002_alter_domain_unique...test_no_migrations"):
                line = line.split("...", 1)[-1].strip()
            yield line.rsplit(suffix, 1)[0], "PASSED"
            break
    if " ... skipped" in line:
        yield line.split(" ... skipped")[0], "SKIPPED"
    for word, status in (("FAIL", "FAILED"), ("ERROR", "ERROR")):
        if line.endswith(f" ... {word}"):
            yield line.split(f" ... {word}")[0], status
        if line.startswith(f"{word}:") and len(line.split()) > 1:
            yield line.split()[1], status


_PARSER_NAMES: Mapping[Parser, tuple[str, ...]] = {
    parse_pytest: (
        "pytest", "astroid", "flask", "marshmallow", "pvlib", "pyvista", "sqlfluff", "xarray",
    ),
    parse_pytest_options: ("pytest_options", "pydicom", "requests", "pylint"),
    parse_pytest_spaces: ("pytest_v2", "astropy", "scikit", "sphinx"),
    parse_seaborn: ("seaborn",),
    parse_matplotlib: ("matplotlib",),
    parse_sympy: ("sympy",),
    parse_django: ("django",),
}  # fmt: skip

PARSERS: Mapping[str, Parser] = {
    f"parse_log_{name}": parser for parser, names in _PARSER_NAMES.items() for name in names
}
"""Parsers by the names that the dataset's ``log_parser`` column uses."""

_OWN_RUNNERS: Mapping[Parser, str] = {parse_django: "django", parse_sympy: "sympy"}

FAMILIES: Mapping[str, str] = {name: _OWN_RUNNERS.get(parser, "pytest") for name, parser in PARSERS.items()}
"""Which runner's transcript a parser reads: ``pytest``, ``django`` or ``sympy``."""

_REPOSITORIES: Mapping[str, str] = {
    "astropy/astropy": "astropy",
    "django/django": "django",
    "marshmallow-code/marshmallow": "marshmallow",
    "matplotlib/matplotlib": "matplotlib",
    "mwaskom/seaborn": "seaborn",
    "pallets/flask": "flask",
    "psf/requests": "requests",
    "pvlib/pvlib-python": "pvlib",
    "pydata/xarray": "xarray",
    "pydicom/pydicom": "pydicom",
    "pylint-dev/astroid": "astroid",
    "pylint-dev/pylint": "pylint",
    "pytest-dev/pytest": "pytest",
    "pyvista/pyvista": "pyvista",
    "scikit-learn/scikit-learn": "scikit",
    "sqlfluff/sqlfluff": "sqlfluff",
    "sphinx-doc/sphinx": "sphinx",
    "sympy/sympy": "sympy",
}


def parser_of_repository(repo: str) -> str | None:
    """The parser of a benchmark repository, for rows of 4.x that do not name one."""
    name = _REPOSITORIES.get(repo)
    return f"parse_log_{name}" if name else None
