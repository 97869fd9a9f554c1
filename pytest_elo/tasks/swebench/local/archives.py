"""Small repositories as one readable text file, committed the same way everywhere.

The format is that of Go's ``txtar``: a line ``-- path --`` starts each file, what comes before the first is a
comment. Author and date are fixed, so equal text gives equal commit ids on every machine.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from pytest_elo.errors import DataError
from pytest_elo.tasks.swebench.local.git import git

__all__ = ["commit_archive", "read_archive"]

_HEADER = re.compile(r"^-- (.+?) --$")
_IDENTITY: Mapping[str, str] = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "elo"), ("EMAIL", "elo@localhost"), ("DATE", "2024-01-01T00:00:00+0000"))
}


def read_archive(path: Path) -> dict[str, str]:
    """Files by path.

    Raises:
        DataError: the file cannot be read, holds no file, or a path leaves the tree.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    files: dict[str, list[str]] = {}
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if match := _HEADER.match(line.rstrip("\n")):
            name = match[1]
            if name.startswith("/") or {"..", ".git", ""} & set(name.split("/")):
                raise DataError(f"{path}:{number}: {name!r} is not a path inside the tree")
            lines = files.setdefault(name, [])
        else:
            lines.append(line)
    if not files:
        raise DataError(f"{path}: holds no '-- path --' line, so no file")
    return {name: "".join(content) for name, content in files.items()}


def commit_archive(path: Path, git_dir: Path) -> str:
    """A bare repository at ``git_dir`` with the archive as its only commit; returns the commit's id.

    Files that start with ``#!`` are executable.
    """
    tree = git_dir.with_suffix(".tree")
    shutil.rmtree(tree, ignore_errors=True)
    shutil.rmtree(git_dir, ignore_errors=True)
    for name, content in read_archive(path).items():
        file = tree / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode())
        file.chmod(0o755 if content.startswith("#!") else 0o644)
    git(["init", "--quiet", "--object-format=sha1", "--initial-branch=main", "--bare", str(git_dir)])
    place = ["--git-dir", str(git_dir), "--work-tree", str(tree)]
    git([*place, "-c", "core.autocrlf=false", "add", "--all", "--force", "."], cwd=tree)
    git([*place, "commit", "--quiet", "--message", "Start"], cwd=tree, environment=_IDENTITY)
    shutil.rmtree(tree)
    return git(["--git-dir", str(git_dir), "rev-parse", "HEAD"]).strip()
