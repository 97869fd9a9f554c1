"""Repositories by name: the user's own copies first, else one bare mirror each, cloned once.

A tree for a model is fetched with depth 1: worktrees and shared clones hold the fixing commit, which
``git log --all`` would show.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_elo.errors import ConfigError
from pytest_elo.tasks.swebench.local.archives import commit_archive
from pytest_elo.tasks.swebench.local.git import GitError, git
from pytest_elo.tasks.swebench.locks import exclusive

__all__ = ["Mirrors", "checkout_shallow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrors:
    """Where commits of a repository come from.

    ``repositories`` maps ``owner/name`` to a path or address; ``mirror_dirs`` are folders of copies in any of
    the usual layouts (``owner/name``, ``owner__name``, ``owner+name``, ``name``; bare or not); everything
    else is cloned from ``url`` into ``folder``.
    """

    folder: Path
    mirror_dirs: tuple[Path, ...] = ()
    repositories: Mapping[str, str] = field(default_factory=dict)
    url: str = "https://github.com/{repo}.git"
    wrap: Sequence[str] = ()

    def holding(self, repo: str, commit: str) -> Path:
        """A git directory of ``repo`` that has ``commit``.

        Raises:
            ConfigError: when no copy has it and it cannot be cloned.
        """
        for path in self._own_copies(repo):
            if _has(path, commit):
                return path
        mirror = self.folder / f"{repo.replace('/', '__')}.git"
        address = self.repositories.get(repo) or self.url.format(repo=repo)
        with exclusive(mirror.with_suffix(".lock")):
            if not _has(mirror, commit):
                archive = self._archive(repo)
                if archive is not None:
                    commit_archive(archive, mirror)
                else:
                    self._clone(address, mirror, repo)
                if not _has(mirror, commit):
                    source = archive or address
                    raise ConfigError(
                        f"swebench: {source} has no commit {commit} of {repo}; check swebench.repositories"
                    )
        return mirror

    def _archive(self, repo: str) -> Path | None:
        """The text archive of a small repository (see ``archives``), where there is one."""
        named = self.repositories.get(repo, "")
        paths = [Path(named)] if named.endswith(".txtar") else []
        paths += [folder / f"{repo.replace('/', '__')}.txtar" for folder in self.mirror_dirs]
        return next((path for path in paths if path.is_file()), None)

    def _own_copies(self, repo: str) -> list[Path]:
        named = self.repositories.get(repo)
        roots = [Path(named)] if named and Path(named).is_dir() else []
        owner, name = repo.split("/")
        layouts = (repo, f"{owner}__{name}", f"{owner}+{name}", name)
        for folder in self.mirror_dirs:
            roots += [folder / f"{layout}{ending}" for layout in layouts for ending in ("", ".git")]
        paths = [root / inner if inner else root for root in roots for inner in ("", ".git", "repo")]
        return [path for path in paths if (path / "HEAD").is_file() and (path / "objects").is_dir()]

    def _clone(self, address: str, mirror: Path, repo: str) -> None:
        """Make the mirror, or bring what is new into the one that is there."""
        try:
            if mirror.is_dir():
                refs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
                git(["--git-dir", str(mirror), "fetch", "--quiet", address, *refs], wrap=self.wrap, network=True)
                return
            partial = mirror.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.parent.mkdir(parents=True, exist_ok=True)
            git(["clone", "--quiet", "--bare", address, str(partial)], wrap=self.wrap, network=True)
            partial.rename(mirror)
        except GitError as error:
            raise ConfigError(
                f"swebench: {repo} cannot be had from {address} ({error}); "
                "give a folder of copies with swebench.mirror_dir, or a path in swebench.repositories"
            ) from None


def checkout_shallow(git_dir: Path, commit: str, tree: Path) -> None:
    """A new repository at ``tree`` whose only commit is ``commit``, with no trace of where it came from."""
    tree.mkdir(parents=True, exist_ok=True)
    git(["init", "--quiet", str(tree)])
    git(
        [
            "fetch", "--quiet", "--depth", "1", "--no-tags", "--no-write-fetch-head", "--upload-pack",
            "git -c safe.directory=* -c uploadpack.allowAnySHA1InWant=true upload-pack",
            f"file://{git_dir.resolve()}", commit,
        ],
        cwd=tree,
    )  # fmt: skip
    git(["checkout", "--quiet", "--detach", commit], cwd=tree)
    shutil.rmtree(tree / ".git" / "logs", ignore_errors=True)


def _has(git_dir: Path, commit: str) -> bool:
    if not git_dir.is_dir():
        return False
    try:
        git(["--git-dir", str(git_dir), "cat-file", "-e", f"{commit}^{{commit}}"])
    except GitError:
        return False
    return True
