"""SEARCH/REPLACE edits: how models change files reliably, and the diff that we make of them.

Raw unified diffs fail on counts and context that models do not keep; a block that quotes the text to be
replaced either is in the file or is not. Blocks are applied exactly, then tolerant of trailing space, then of
indentation; what matches nowhere, or in several places, is a problem told to the model.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_elo.tasks.swebench.patches import extract_diff

__all__ = ["Edit", "Proposal", "apply_edits", "make_diff", "parse_edits", "proposal"]

Read = Callable[[str], str | None]

_OPEN = re.compile(r"^<{5,9} ?SEARCH\s*$")
_MIDDLE = re.compile(r"^={5,9}\s*$")
_CLOSE = re.compile(r"^>{5,9} ?REPLACE\s*$")
_WHOLE = re.compile(r"^<file path=[\"']?([^\"'>\n]+?)[\"']?>[ \t]*\n(.*?)^</file>", re.DOTALL | re.MULTILINE)
_NO_PATH = ("```", "~~~")


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace ``search`` by ``replace`` in ``path``; an empty ``search`` makes a new file."""

    path: str
    search: str
    replace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a reply proposes: the diff (``None`` without any), and what could not be applied."""

    diff: str | None
    problems: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def proposal(reply: str, read: Read) -> Proposal:
    """The diff of a reply that holds edits, whole files or a raw diff.

    Args:
        read: the base text of a file by path, ``None`` when there is none.
    """
    edits = parse_edits(reply)
    if edits:
        texts, problems = apply_edits(edits, read)
        files = tuple(dict.fromkeys(edit.path for edit in edits))
        return Proposal(diff=_diff_of(texts, read), problems=tuple(problems), files=files)
    whole = {_meant(match[1], read): match[2] for match in _WHOLE.finditer(reply)}
    return Proposal(diff=_diff_of(whole, read) if whole else extract_diff(reply), files=tuple(whole))


def _diff_of(texts: Mapping[str, str], read: Read) -> str | None:
    return "".join(make_diff(path, read(path), text) for path, text in texts.items()) or None


def parse_edits(reply: str) -> list[Edit]:
    """The complete blocks of a reply in order; the path stands on the last line of text before the block."""
    edits: list[Edit] = []
    path = ""
    lines = reply.split("\n")
    i = 0
    while i < len(lines):
        if not _OPEN.match(lines[i]):
            path = _path(lines[i]) or path
            i += 1
            continue
        middle = _next(lines, i + 1, _MIDDLE)
        close = _next(lines, middle + 1, _CLOSE) if middle is not None else None
        if middle is None or close is None:
            break
        if path:
            search, replace = lines[i + 1 : middle], lines[middle + 1 : close]
            edits.append(Edit(path, _joined(search), _joined(replace)))
        i = close + 1
    return edits


def apply_edits(edits: Sequence[Edit], read: Read) -> tuple[dict[str, str], list[str]]:
    """New texts by path, and one line for each block that could not be applied."""
    texts: dict[str, str] = {}
    problems: list[str] = []
    for number, edit in enumerate(edits, 1):
        if edit.search.strip():
            edit = replace(edit, path=_meant(edit.path, read))
        old = texts.get(edit.path, read(edit.path))
        if old is None and edit.search.strip():
            problems.append(f"block {number}: there is no file {edit.path}")
            continue
        if old is None or not old:
            texts[edit.path] = edit.replace
            continue
        new = _replaced(old, edit)
        if isinstance(new, int):
            how = "is not in" if new == 0 else f"is in {new} places of"
            problems.append(f"block {number}: its SEARCH text {how} {edit.path}")
        else:
            texts[edit.path] = new
    return texts, problems


def make_diff(path: str, old: str | None, new: str) -> str:
    """A unified diff in git's form; empty when nothing changes."""
    if old == new:
        return ""
    before = (old or "").splitlines(keepends=True)
    after = new.splitlines(keepends=True)
    head = f"diff --git a/{path} b/{path}\n"
    if old is None:
        head += "new file mode 100644\n"
    source = "/dev/null" if old is None else f"a/{path}"
    lines = difflib.unified_diff(before, after, source, f"b/{path}", n=3)
    return head + "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _meant(path: str, read: Read) -> str:
    """The path of a known file without the folders that models put before it (``/testbed/``, ``path/to/``)."""
    parts = path.split("/")
    tails = ("/".join(parts[i:]) for i in range(len(parts)))
    return next((tail for tail in tails if read(tail) is not None), path)


def _path(line: str) -> str:
    """A file path alone on a line, in whatever decoration; empty when the line is something else."""
    if line.strip().startswith(_NO_PATH):
        return ""
    words = line.strip().strip("#*`: ").split()
    name = words[-1].strip("`*:") if words and len(words) <= 2 else ""
    return name if re.fullmatch(r"[\w./+-]+", name) and ("/" in name or "." in name) else ""


def _next(lines: Sequence[str], start: int, pattern: re.Pattern[str]) -> int | None:
    return next((i for i in range(start, len(lines)) if pattern.match(lines[i])), None)


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _replaced(old: str, edit: Edit) -> str | int:
    """The new text, or in how many places the block matches when that is not one."""
    ending = "\r\n" if "\r\n" in old else "\n"
    text = old.replace("\r\n", "\n")
    padded = text if text.endswith("\n") else text + "\n"
    places = _places(padded, edit.search)
    if len(places) == 1:
        new = padded[: places[0]] + edit.replace + padded[places[0] + len(edit.search) :]
    elif places or not edit.search.strip():
        return len(places)
    else:
        found = _tolerant(padded, edit)
        if isinstance(found, int):
            return found
        new = found
    if not text.endswith("\n") and new.endswith("\n") and padded.endswith(edit.search):
        new = new[:-1] if edit.replace else new
    return new.replace("\n", ending)


def _places(text: str, search: str) -> list[int]:
    """Where a text of whole lines stands, overlapping places too."""
    if not search:
        return []
    return [match.start() for match in re.finditer(rf"^(?={re.escape(search)})", text, re.MULTILINE)]


def _tolerant(text: str, edit: Edit) -> str | int:
    lines = text.splitlines(keepends=True)
    wanted = edit.search.strip("\n").splitlines()
    for normal in (str.rstrip, str.strip):
        goal = [normal(line) for line in wanted]
        places = [i for i in range(len(lines) - len(goal) + 1) if [normal(x) for x in lines[i : i + len(goal)]] == goal]
        if len(places) > 1:
            return len(places)
        if places:
            start = places[0]
            new = _shifted(edit.replace, wanted, lines[start : start + len(goal)])
            return "".join(lines[:start]) + new + "".join(lines[start + len(goal) :])
    return 0


def _shifted(replace: str, wanted: Sequence[str], actual: Sequence[str]) -> str:
    """The replacement moved by the difference in indentation between the quoted and the real text."""
    quoted, real = next(((_indent(a), _indent(b)) for a, b in zip(wanted, actual, strict=True) if a.strip()), ("", ""))
    if quoted == real:
        return replace
    out = []
    for line in replace.splitlines(keepends=True):
        if line.startswith(quoted) and line.strip():
            line = real + line[len(quoted) :]
        out.append(line)
    return "".join(out)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
