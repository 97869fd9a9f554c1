"""A YAML file read as its author wrote it: no object is ever constructed, and every error knows its line.

Scalars are taken as written, so that ``no``, ``1.10``, ``007`` or ``7:25`` stay what they look like.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from pytest_elo._parse import parse_json, refuse_overgrown
from pytest_elo._text import did_you_mean
from pytest_elo.errors import DataError

__all__ = ["Entry", "compose", "read"]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = "tag:yaml.org,2002:null"
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "timestamp", "map", "seq", "null")
)
_WHOLE_NUMBER = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A value in the file, with what to call it in errors."""

    path: Path
    node: yaml.Node
    name: str = ""
    owner: str = ""
    """The item it belongs to, once known: ``item 'x'``."""

    @property
    def line(self) -> int:
        return int(self.node.start_mark.line) + 1

    def error(self, message: str) -> DataError:
        place = ": ".join(part for part in (self.owner, self.name) if part)
        return DataError(f"{self.path}:{self.line}: {place + ': ' if place else ''}{message}")

    def owned_by(self, owner: str) -> Entry:
        return replace(self, owner=owner)

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    def text(self) -> str:
        """A scalar as written, without white space at its ends. Raises ``DataError`` when it is empty."""
        if not isinstance(self.node, yaml.ScalarNode):
            raise self.error("must be text")
        self._check_tag()
        # A text of its own: the node's would pin the memory of the nodes around it, measured 1 KB an item.
        text = f"{self.node.value} ".strip()
        if not text or self.node.tag == _NULL:
            raise self.error("is empty; write a value (in quotes if it is the word null)")
        return text

    def texts(self) -> tuple[str, ...]:
        """One scalar, or every scalar of a list that is not empty."""
        if not self.is_list:
            return (self.text(),)
        values = tuple(entry.text() for entry in self.entries())
        if not values:
            raise self.error("is an empty list; write at least one value")
        return values

    def plain(self) -> Any:
        """The value as JSON knows it: a schema's numbers and booleans are not taken as written."""
        try:
            return parse_json(json.dumps(yaml.SafeLoader("").construct_document(self.node)))
        except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise self.error(f"cannot be read as JSON ({' '.join(str(error).split())[:100]})") from None

    def whole_number(self, *, at_least: int) -> int:
        text = self.text()
        if not _WHOLE_NUMBER.fullmatch(text) or int(text) < at_least:
            raise self.error(f"is {text!r}; use a whole number of at least {at_least}")
        return int(text)

    def entries(self) -> tuple[Entry, ...]:
        """The elements of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error("must be a list")
        self._check_tag()
        return tuple(Entry(self.path, node, self.name, self.owner) for node in self.node.value)

    def fields(self) -> Mapping[str, Entry]:
        """The values of a mapping by key; a key given twice is an error."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error("must be a mapping of keys to values")
        self._check_tag()
        found: dict[str, Entry] = {}
        for key_node, value_node in self.node.value:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
            entry = Entry(self.path, value_node, key, self.owner)
            if key in found:
                raise Entry(self.path, key_node, "", self.owner).error(f"key {key!r} stands here twice; keep one")
            found[key] = entry
        return found

    def known_fields(self, known: Iterable[str]) -> Mapping[str, Entry]:
        """``fields``, where a key outside ``known`` is an error with a suggestion."""
        fields = self.fields()
        names = tuple(known)
        for key, entry in fields.items():
            if key not in names:
                raise replace(entry, name="").error(f"unknown key {key!r}{did_you_mean(key, names)}")
        return fields

    def _check_tag(self) -> None:
        if self.node.tag not in _PLAIN_TAGS:
            raise self.error(f"has the tag {self.node.tag!r}; only plain YAML is read, remove the tag")


def compose(document: Any, path: Path) -> Entry:
    """Plain Python values as if they stood in a file; ``path`` names them in errors."""
    try:
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    except yaml.YAMLError as error:
        raise DataError(f"{path}: only plain values can be read ({' '.join(str(error).split())[:100]})") from None
    root = yaml.compose(text, Loader=_LOADER)
    assert root is not None
    return Entry(path, root)


def _inside(node: Any) -> list[Any] | None:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else None


def read(path: Path) -> Entry:
    """The root of a YAML file of one document.

    Raises ``DataError`` when the file is missing, not UTF-8, empty or not YAML.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}); save the file as UTF-8") from None
    try:
        root = yaml.compose(text, Loader=_LOADER)
        refuse_overgrown(root, _inside)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DataError(f"{path}{line}: not valid YAML ({error.problem}); check indentation and quotes") from None
    except (yaml.YAMLError, ValueError) as error:
        raise DataError(f"{path}: not valid YAML ({error})") from None
    if root is None:
        raise DataError(f"{path}: empty; write a list of items")
    return Entry(path, root)
