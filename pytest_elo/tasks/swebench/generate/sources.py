"""The files of a repository at one commit, read from git without a work tree."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from pytest_elo.tasks.swebench.local.git import GitError, git

__all__ = ["Sources", "is_source", "is_test"]

_TEST = re.compile(r"(^|/)(tests?|testing)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")


def is_test(path: str) -> bool:
    """Whether a path looks like a test or a test's data."""
    return _TEST.search(path) is not None


def is_source(path: str) -> bool:
    """Python files that are no tests: what a repair is likely to change."""
    return path.endswith(".py") and not is_test(path)


class Sources:
    """Files by path; texts are read on demand and kept."""

    def __init__(self, git_dir: Path, commit: str) -> None:
        self._git_dir = git_dir
        self._commit = commit
        listed = git(["--git-dir", str(git_dir), "ls-tree", "-r", "-z", "--name-only", commit])
        self.paths = tuple(path for path in listed.split("\0") if path)
        self._texts: dict[str, str | None] = {}

    def read(self, path: str) -> str | None:
        """The text of a file; ``None`` when there is none or it is not UTF-8."""
        if path not in self._texts:
            self.load([path])
        return self._texts[path]

    def load(self, paths: Iterable[str]) -> None:
        """Read many files in one go."""
        known = set(self.paths)
        wanted = [path for path in dict.fromkeys(paths) if path not in self._texts]
        self._texts.update({path: None for path in wanted if path not in known})
        present = [path for path in wanted if path in known]
        if not present:
            return
        request = "".join(f"{self._commit}:{path}\n" for path in present).encode("utf-8", "surrogateescape")
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "--git-dir", str(self._git_dir), "cat-file", "--batch"],
            input=request,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise GitError(f"git cat-file: {done.stderr.decode(errors='replace').strip()}")
        self._texts.update(zip(present, _blobs(done.stdout, len(present)), strict=True))


def _blobs(data: bytes, count: int) -> list[str | None]:
    """Contents in order from ``cat-file --batch``: a header line with the size, the bytes, a newline."""
    texts: list[str | None] = []
    at = 0
    for _ in range(count):
        end = data.index(b"\n", at)
        header = data[at:end].split()
        at = end + 1
        if len(header) != 3 or header[1] != b"blob":
            texts.append(None)
            continue
        size = int(header[2])
        try:
            texts.append(data[at : at + size].decode("utf-8"))
        except UnicodeDecodeError:
            texts.append(None)
        at += size + 1
    return texts
