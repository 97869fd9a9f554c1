"""Patch hygiene: from what a model wrote to a patch that may be applied, and what it may not touch.

Two rules keep honest and dishonest patches apart. A patch that names a path outside the tree, inside ``.git``
or behind a symbolic link is *refused*: ``patch`` would write ``.git/hooks/x`` and git would run it. A patch
that touches a *protected* file (what configures the graded tests) is applied without that file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pytest_elo._text import text_hash
from pytest_elo.tasks.swebench.diffs import HUNK, named_paths, read_changes, without_binary

__all__ = [
    "CONFIGURATION_NAMES",
    "PROTECTED_NAMES",
    "Prepared",
    "extract_diff",
    "patch_key",
    "prepare",
    "refusal",
]

PROTECTED_NAMES = (
    "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini",
    "sitecustomize.py", "usercustomize.py",
)  # fmt: skip
"""Files that steer the test runner; no gold patch of Verified or Lite (800) touches one of them."""

CONFIGURATION_NAMES = ("setup.cfg", "pyproject.toml")
"""Shared files: kept from the patch unless what they say about pytest changes."""

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE)
_TAG = re.compile(r"<(patch|diff)>\s*?\n(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_DIFF_START = re.compile(r"^(?:diff --git |--- (?!-)\S.*\n\+\+\+ )", re.MULTILINE)
_HUNK_TEXT = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A patch ready for the apply chain, with marks of what was done to it (``repaired:<what>``, ...)."""

    text: str
    marks: tuple[str, ...] = ()


def extract_diff(reply: str) -> str | None:
    """The diff in a model's reply: ``<patch>``/``<diff>`` tags, fenced blocks, or bare; ``None`` without one.

    Several fenced diffs are joined: models like to give one block a file.
    """
    tagged = [match[2] for match in _TAG.finditer(reply)]
    inner = "\n".join(tagged) if tagged else reply
    fenced = [match[2] for match in _FENCE.finditer(inner)]
    blocks = [block for block in fenced if _DIFF_START.search(block)]
    text = "\n".join(blocks) if blocks else inner
    start = _DIFF_START.search(text)
    if start is None:
        return None
    return _without_closing_prose(text[start.start() :])


def prepare(diff: str, *, generated: bool, has_crlf: Callable[[str], bool] = lambda path: False) -> Prepared:
    """Make a patch applicable without changing what it means.

    Binary files are dropped and a missing final newline is added for every patch. Only for ``generated``
    patches (never for imported predictions, whose official verdict would be an apply error) hunk counts are
    recomputed, line ends follow the target file and an indented or fenced diff is laid bare.

    Args:
        has_crlf: whether a file of the tree (by path) uses CRLF line ends.
    """
    marks: list[str] = []
    text = diff
    if generated:
        bare = extract_diff(text) or text
        if bare.strip() != text.strip():
            marks.append("repaired:prose")
        text = bare
    text, dropped = without_binary(text)
    marks += [f"binary_dropped:{path}" for path in dropped]
    if text and not text.endswith("\n"):
        text += "\n"
        marks.append("repaired:final_newline")
    if generated:
        for name, repair in (("line_ends", lambda t: _line_ends(t, has_crlf)), ("hunk_counts", _recount)):
            repaired = repair(text)
            if repaired != text:
                marks.append(f"repaired:{name}")
                text = repaired
    return Prepared(text=text, marks=tuple(marks))


def refusal(diff: str, is_symlink: Callable[[str], bool] = lambda path: False) -> str:
    """Why a patch must not be applied at all; empty when it may.

    Args:
        is_symlink: whether a path of the base tree is a symbolic link.
    """
    made_links = {change.path for change in read_changes(diff) if change.symlink}
    for path in named_paths(diff):
        parts = path.split("/")
        if path.startswith("/") or "\\" in path or "\0" in path:
            return f"{path!r} is not a relative path"
        if ".." in parts:
            return f"{path!r} leaves the tree"
        if any(part.lower() in (".git", "git~1") for part in parts):
            return f"{path!r} is inside .git"
        parents = ["/".join(parts[:i]) for i in range(1, len(parts))]
        link = next((parent for parent in parents if parent in made_links or is_symlink(parent)), None)
        if link:
            return f"{path!r} is behind the symbolic link {link!r}"
        if is_symlink(path) and path not in made_links:
            return f"{path!r} is a symbolic link"
    return ""


def patch_key(diff: str) -> str | None:
    """SHA-256 of what a patch changes; equal for patches that differ in context, line numbers or prose only.

    ``None`` for a patch that changes nothing.
    """
    parts: list[str] = []
    for change in sorted(read_changes(diff), key=lambda change: change.path):
        lines = [line.rstrip() for line in _changed_lines(change.text)]
        if lines or change.old != change.new:
            parts += [f"{change.old} -> {change.new}", *lines]
    return text_hash("\n".join(parts)).hexdigest() if parts else None


def _changed_lines(text: str) -> Iterable[str]:
    in_hunk = False
    for line in text.splitlines():
        if HUNK.match(line):
            in_hunk = True
        elif in_hunk and line[:1] in ("+", "-"):
            yield line


def _without_closing_prose(text: str) -> str:
    """Cut what follows the last line that can belong to a diff."""
    lines = text.split("\n")
    last = max(
        (i for i, line in enumerate(lines) if line[:1] in ("+", "-", "@", "\\") or line.startswith(" ")),
        default=-1,
    )
    headers = (
        "diff --git ",
        "index ",
        "new file",
        "deleted file",
        "rename ",
        "similarity ",
        "old mode",
        "new mode",
    )
    last = max([last, *(i for i, line in enumerate(lines) if line.startswith(headers))])
    return "\n".join(lines[: last + 1]) + "\n"


def _line_ends(text: str, has_crlf: Callable[[str], bool]) -> str:
    """CRLF where the target file has it, LF elsewhere; headers always LF."""
    if "\r\n" not in text and not any(has_crlf(change.path) for change in read_changes(text)):
        return text
    pieces: list[str] = []
    for change in read_changes(text.replace("\r\n", "\n")):
        ending = "\r\n" if has_crlf(change.path) else "\n"
        in_hunk = False
        for line in change.text.split("\n")[:-1]:
            in_hunk = in_hunk or line.startswith("@@ ")
            body = in_hunk and not line.startswith(("@@ ", "\\"))
            pieces.append(line + (ending if body else "\n"))
    return "".join(pieces)


def _recount(text: str) -> str:
    """Hunk headers with the counts of their bodies; a hunk whose counts are right is left as it is."""
    lines = text.split("\n")
    out: list[str] = []
    i = 0
    while i < len(lines):
        header = HUNK.match(lines[i])
        if header is None:
            out.append(lines[i])
            i += 1
            continue
        end = i + 1
        while end < len(lines) and _is_body(lines, end):
            end += 1
        body = lines[i + 1 : end]
        declared = (int(header[1] or 1), int(header[2] or 1))
        out += [_recounted_header(lines[i], body, declared), *body]
        i = end
    return "\n".join(out)


def _is_body(lines: list[str], i: int) -> bool:
    line = lines[i]
    if line.startswith(("diff --git ", "@@ ")):
        return False
    if line.startswith("--- ") and i + 1 < len(lines) and lines[i + 1].startswith("+++ "):
        return False
    if not line:  # a blank context line whose space was lost, unless only blank lines follow
        following = next((later for later in lines[i + 1 :] if later), "")
        return following[:1] in (" ", "+", "-", "\\") and not following.startswith("--- ")
    return line[:1] in (" ", "+", "-", "\\", "\r")


def _recounted_header(header: str, body: list[str], declared: tuple[int, int]) -> str:
    old = sum(line[:1] not in ("+", "\\") for line in body)
    new = sum(line[:1] not in ("-", "\\") for line in body)
    match = _HUNK_TEXT.match(header)
    if match is None or (old, new) == declared:
        return header
    return f"@@ -{match[1]},{old} +{match[2]},{new} @@{match[3]}"
