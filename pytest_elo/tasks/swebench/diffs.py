"""Unified diffs read as data: which files a patch names, how, and in which hunks.

Nothing here applies a patch. The reader is deliberately generous: it collects *every* path that ``git apply``
or ``patch`` could take from the headers, because what they might write to must be known before they run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["FileChange", "is_empty", "named_paths", "read_changes", "without_binary"]

HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file's part of a diff. ``old`` and ``new`` are ``None`` for ``/dev/null``."""

    old: str | None
    new: str | None
    text: str
    binary: bool = False
    symlink: bool = False

    @property
    def path(self) -> str:
        """The file that exists afterwards, or the one that was removed."""
        return self.new or self.old or ""


def is_empty(diff: str | None) -> bool:
    """True for ``None`` and whitespace: such a patch is not run, it is a loss."""
    return diff is None or not diff.strip()


def read_changes(diff: str) -> tuple[FileChange, ...]:
    """The files of a diff in order; text before the first file header is ignored."""
    return tuple(_change(lines) for lines in _sections(diff.splitlines(keepends=True)))


def named_paths(diff: str) -> tuple[str, ...]:
    """Every path in any header of the diff, prefixes ``a/`` and ``b/`` stripped, in order, once each.

    Includes paths that only one of the tools of the apply chain would use (``Index:`` is ``patch``'s,
    ``rename to`` is git's) and those after ``diff --git`` that differ from the ``---``/``+++`` ones.
    """
    found: dict[str, None] = {}
    for line in _header_lines(diff.splitlines()):
        for path in _paths_of_header(line):
            found[path] = None
    return tuple(found)


def without_binary(diff: str) -> tuple[str, tuple[str, ...]]:
    """The diff without its binary files, and their paths (a binary stub fails the whole official chain)."""
    changes = read_changes(diff)
    dropped = tuple(change.path for change in changes if change.binary)
    if not dropped:
        return diff, ()
    return "".join(change.text for change in changes if not change.binary), dropped


def _sections(lines: list[str]) -> Iterator[list[str]]:
    """Split into files at ``diff --git`` lines, or at ``---``/``+++`` pairs where there are none."""
    current: list[str] = []
    remaining = (0, 0)
    for i, line in enumerate(lines):
        if remaining > (0, 0) and _in_hunk(line):
            remaining = _consume(remaining, line)
        elif match := HUNK.match(line):
            remaining = (int(match[1] or 1), int(match[2] or 1))
        elif line.startswith("diff --git ") or (_is_pair(lines, i) and _has_body(current)):
            if current:
                yield current
            current = [line]
            continue
        elif _is_pair(lines, i) and not current:
            current = [line]
            continue
        if current:
            current.append(line)
    if current:
        yield current


def _in_hunk(line: str) -> bool:
    return line[:1] in (" ", "+", "-", "\\") or not line.strip()


def _consume(remaining: tuple[int, int], line: str) -> tuple[int, int]:
    old, new = remaining
    mark = line[:1]
    if mark == "\\":
        return remaining
    return max(old - (mark != "+"), 0), max(new - (mark != "-"), 0)


def _is_pair(lines: list[str], i: int) -> bool:
    return lines[i].startswith("--- ") and i + 1 < len(lines) and lines[i + 1].startswith("+++ ")


def _has_body(section: list[str]) -> bool:
    return any(line.startswith("+++ ") for line in section)


def _change(lines: list[str]) -> FileChange:
    old = new = None
    created = deleted = binary = symlink = False
    for line in lines:
        text = line.rstrip("\r\n")
        if text.startswith("@@ "):
            break
        if text.startswith("diff --git "):
            old, new = _split_git_header(text)
        elif text.startswith("--- "):
            old = _file_name(text[4:])
        elif text.startswith("+++ "):
            new = _file_name(text[4:])
        elif text.startswith(("rename from ", "copy from ")):
            old = _unquote(text.split(" from ", 1)[1])
        elif text.startswith(("rename to ", "copy to ")):
            new = _unquote(text.split(" to ", 1)[1])
        created = created or text.startswith("new file mode")
        deleted = deleted or text.startswith("deleted file mode")
        binary = binary or text.startswith(("Binary files ", "GIT binary patch"))
        symlink = symlink or text in ("new file mode 120000", "new mode 120000")
    return FileChange(
        old=None if created else old,
        new=None if deleted else new,
        text="".join(lines),
        binary=binary,
        symlink=symlink,
    )


def _header_lines(lines: list[str]) -> Iterator[str]:
    """Lines outside hunks: only these can name files."""
    remaining = (0, 0)
    for line in lines:
        if remaining > (0, 0) and _in_hunk(line):
            remaining = _consume(remaining, line)
            continue
        match = HUNK.match(line)
        remaining = (int(match[1] or 1), int(match[2] or 1)) if match else (0, 0)
        if not match:
            yield line


def _paths_of_header(line: str) -> Iterator[str]:
    if line.startswith("diff --git "):
        yield from (path for path in _split_git_header(line) if path)
    elif line.startswith(("--- ", "+++ ", "Index: ")):
        path = _file_name(line.split(" ", 1)[1])
        if path is not None:
            yield path
    elif line.startswith(("rename from ", "copy from ", "rename to ", "copy to ")):
        yield _unquote(line.split(" ", 2)[2])


def _split_git_header(line: str) -> tuple[str | None, str | None]:
    rest = line[len("diff --git ") :].strip()
    if rest.startswith('"'):
        parts = re.findall(r'"(?:[^"\\]|\\.)*"|\S+', rest)
    elif rest.startswith("a/") and " b/" in rest:
        # A name may hold spaces; where both sides are the same file, the middle is the separator.
        middle = len(rest) // 2
        same = rest[middle : middle + 1] == " " and rest[2:middle] == rest[middle + 3 :]
        cut = middle if same else rest.index(" b/")
        parts = [rest[:cut], rest[cut + 1 :]]
    else:
        parts = rest.split()
    names = [_file_name(part) for part in parts]
    return (names[0], names[-1]) if names else (None, None)


def _file_name(text: str) -> str | None:
    """A header's file name without timestamp and ``a/``/``b/`` prefix; ``None`` for ``/dev/null``."""
    name = _unquote(text.strip().split("\t", 1)[0])
    if name == "/dev/null":
        return None
    return name[2:] if name[:2] in ("a/", "b/") else name


def _unquote(name: str) -> str:
    """Undo git's C-style quoting of unusual names."""
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):
        return name
    raw = re.sub(
        r"\\([0-7]{3}|.)",
        lambda m: chr(int(m[1], 8)) if len(m[1]) == 3 else _ESCAPES.get(m[1], m[1]),
        name[1:-1],
    )
    return raw.encode("latin-1", "replace").decode("utf-8", "replace")
