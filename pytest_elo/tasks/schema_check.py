"""The check ``schema``: the reply holds JSON that a JSON Schema accepts.

Validation is left to ``jsonschema``, the reference implementation for Python (all drafts, maintained by the
specification's community); a subset of our own would disagree with it in silence. It is an extra:
``pip install 'pytest-elo[schema]'``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo._text import shorten
from pytest_elo.tasks.answers import Found
from pytest_elo.tasks.yaml_file import Entry

__all__ = ["Schema", "find_json"]

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Schema:
    """Valid JSON scores 1, JSON that the schema refuses 0; a reply without JSON holds no answer."""

    text: str
    """The schema as canonical JSON."""
    validator: Any
    whole = True
    expected = None

    @property
    def rule(self) -> Any:
        return self.text

    def key(self, answer: Found) -> Hashable | None:
        """Equal for equal JSON values, however they are written."""
        value = find_json(answer.text)
        return None if value is _MISSING else _canonical(value)

    def score(self, answer: Found) -> float:
        return float(self.validator.is_valid(find_json(answer.text)))

    def complaint(self, answer: Found) -> str | None:
        """The first thing that the schema refuses, with its place."""
        found = next(
            iter(sorted(self.validator.iter_errors(find_json(answer.text)), key=lambda error: error.json_path))
        )
        return shorten(f"{found.json_path}: {found.message}", 300)

    @classmethod
    def build(cls, entry: Entry) -> Schema:
        """``schema: {type: object, ...}``, or ``schema: file.json`` beside the YAML file."""
        schema = entry.plain() if entry.is_mapping else _from_file(entry)
        try:
            from jsonschema.exceptions import SchemaError
            from jsonschema.validators import validator_for
        except ImportError:
            raise entry.error("needs the package jsonschema; pip install 'pytest-elo[schema]'") from None
        chosen = validator_for(schema)
        try:
            chosen.check_schema(schema)
        except SchemaError as error:
            raise entry.error(f"not a JSON Schema: {shorten(f'{error.json_path}: {error.message}')}") from None
        return cls(_canonical(schema), chosen(schema))


def find_json(text: str) -> Any:
    """The JSON value of a reply: all of it, its last fenced block, or from its first bracket to its last."""
    for candidate in _candidates(text):
        try:
            return parse_json(candidate)
        except ValueError:
            continue
    return _MISSING


def _candidates(text: str) -> Iterator[str]:
    yield text
    yield from reversed(_FENCE.findall(text))
    for opening, closing in ("{}", "[]"):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            yield text[start : end + 1]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _from_file(entry: Entry) -> Any:
    path = entry.path.parent / entry.text()
    try:
        return parse_json(path.read_text("utf-8"))
    except OSError as error:
        raise entry.error(f"{path} cannot be read ({error.strerror}); give a JSON file beside this one") from None
    except ValueError as error:
        raise entry.error(f"{path} is not JSON ({error})") from None
