"""A user's Python function as the check of an answer: found, imported and called with care."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_elo._text import did_you_mean
from pytest_elo.tasks.answers import Found, normalised
from pytest_elo.tasks.yaml_file import Entry

__all__ = ["CheckError", "Function"]


class CheckError(Exception):
    """A check that could not be carried out: the check's fault, not the model's."""


@dataclass(frozen=True, slots=True)
class Function:
    """A Python function ``(answer: str) -> bool | float in [0, 1]``."""

    name: str
    function: Callable[[str], object]
    source_sha256: str
    whole = True
    expected = None

    @property
    def rule(self) -> Any:
        return [self.name, self.source_sha256]

    def key(self, answer: Found) -> Hashable | None:
        return normalised(answer.text) or None

    def score(self, answer: Found) -> float:
        try:
            result = self.function(answer.text)
        except Exception as error:  # a user's code may raise anything; the run goes on
            raise CheckError(f"check {self.name} raised {type(error).__name__}: {error}") from error
        if isinstance(result, bool):
            return float(result)
        if not isinstance(result, int | float) or math.isnan(result) or not 0 <= result <= 1:
            raise CheckError(f"check {self.name} returned {result!r}; return True, False or a number from 0 to 1")
        return float(result)

    @classmethod
    def build(cls, entry: Entry) -> Function:
        """``function: checks.py:name`` (a file beside the YAML file) or ``function: package.module:name``."""
        text = entry.text()
        place, _, name = text.rpartition(":")
        if not place or not name.isidentifier():
            raise entry.error(f"is {text!r}; write file.py:name or package.module:name")
        module = _module(entry, place)
        function = getattr(module, name, None)
        if not callable(function):
            defined = [known for known, value in vars(module).items() if inspect.isfunction(value)]
            raise entry.error(f"{place} has no function {name!r}{did_you_mean(name, defined)}")
        if inspect.iscoroutinefunction(function):
            raise entry.error(f"{name!r} is async; a check is a plain function (text) -> bool or float")
        return cls(text, function, _source_sha256(module))


def _module(entry: Entry, place: str) -> ModuleType:
    try:
        if place.endswith(".py"):
            return _module_from_file(entry.path.parent / place)
        return importlib.import_module(place)
    except Exception as error:  # importing runs the user's code
        raise entry.error(f"cannot import {place} ({type(error).__name__}: {error})") from None


def _module_from_file(path: Path) -> ModuleType:
    """Import a file under a name of its own, so that two files called ``checks.py`` do not collide."""
    content = hashlib.sha256(str(path.resolve()).encode() + b"\0" + path.read_bytes()).hexdigest()[:16]
    name = f"_pytest_elo_check_{content}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _source_sha256(module: ModuleType) -> str:
    source = getattr(module, "__file__", None)
    return hashlib.sha256(Path(source).read_bytes()).hexdigest() if source else ""
