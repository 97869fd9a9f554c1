"""``pytest-elo init``: a small eval suite, written into any repository, that runs as generated.

The files stand in ``files/``; ``.in`` is dropped from their names. Recordings of a real model come with them, so
that the suite needs no key; ``tools/starter_recordings.py`` cuts them out of the shipped suite's.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from pytest_elo.errors import ConfigError

__all__ = ["init", "starter_files"]


def starter_files() -> dict[str, str]:
    """Relative path to content of every file of the suite."""
    return dict(sorted(_walk(files(__package__).joinpath("files"), "")))


def init(folder: Path) -> list[str]:
    """Write the suite into ``folder``; returns what to tell the user.

    Raises ``ConfigError``, and writes nothing, when one of its files is there already.
    """
    content = starter_files()
    taken = [name for name in content if (folder / name).exists()]
    if taken:
        raise ConfigError(f"{folder / taken[0]} exists already; init overwrites nothing, name another folder")
    for name, text in content.items():
        target = folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{target} cannot be written ({error.strerror}); name a folder of your own") from None
    return [
        *(f"wrote {folder / name}" for name in content),
        f"now run: pytest {folder}   (recorded answers of a real model; set TAOTOKEN_API_KEY to call models)",
        "add .elo/ to .gitignore: each run leaves its directory there",
    ]


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        else:
            found.append((f"{prefix}{entry.name.removesuffix('.in')}", entry.read_text(encoding="utf-8")))
    return found
