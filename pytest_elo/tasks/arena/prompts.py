"""Arena prompts from a file: YAML, or the JSON lines that other arenas write.

YAML is a list of items, or a mapping with ``items`` and what all of them share::

    system: Answer briefly.
    max_tokens: 256
    items:
      - id: late_invoice
        prompt: Write a polite reminder ...
        rubric: Names the sum and the delay.

JSON lines hold ``prompt`` (or ``turns`` of one turn) and ``id``, ``question_id`` or ``uid``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_elo._parse import parse_json
from pytest_elo._text import safe_id
from pytest_elo.errors import DataError
from pytest_elo.tasks.yaml_file import Entry, read

__all__ = ["ArenaPrompt", "PromptFile", "read_prompts"]

FILE_KEYS: Final = ("system", "max_tokens", "items")
ITEM_KEYS: Final = ("id", "prompt", "system", "max_tokens", "category", "reference", "rubric")
_ID_KEYS: Final = ("id", "question_id", "uid")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaPrompt:
    """One item. ``reference`` and ``rubric`` are for the judge alone."""

    item_id: str
    prompt: str
    system: str | None = None
    max_tokens: int | None = None
    category: str | None = None
    reference: str | None = None
    rubric: str | None = None


@dataclass(frozen=True, slots=True)
class PromptFile:
    prompts: Sequence[ArenaPrompt]
    warnings: Sequence[str]


def read_prompts(path: Path) -> PromptFile:
    """All prompts in file order, each id once.

    Raises :class:`DataError` naming file and line for anything missing, unknown, empty or given twice.
    Two ids with one prompt are a warning: their results are not independent.
    """
    lines = path.suffix in (".jsonl", ".json")
    found = list(_from_json_lines(path) if lines else _from_yaml(path))
    if not found:
        raise DataError(f"{path}: holds no prompts")
    ids: dict[str, str] = {}
    texts: dict[str, str] = {}
    warnings = []
    for where, prompt in found:
        if prompt.item_id in ids:
            raise DataError(f"{where}: id {prompt.item_id!r} already stands at {ids[prompt.item_id]}")
        ids[prompt.item_id] = where
        if prompt.prompt in texts:
            warnings.append(f"{path}: {texts[prompt.prompt]} and {prompt.item_id} are the same prompt")
        texts.setdefault(prompt.prompt, prompt.item_id)
    return PromptFile(tuple(prompt for _, prompt in found), tuple(warnings))


def _from_yaml(path: Path) -> Iterator[tuple[str, ArenaPrompt]]:
    root = read(path)
    shared = root.known_fields(FILE_KEYS) if root.is_mapping else {}
    if root.is_mapping and "items" not in shared:
        raise root.error("has no 'items'; list the prompts under it")
    system = shared["system"].text() if "system" in shared else None
    max_tokens = shared["max_tokens"].whole_number(at_least=1) if "max_tokens" in shared else None
    for entry in (shared["items"] if root.is_mapping else root).entries():
        yield f"{path}:{entry.line}", _from_entry(entry, system, max_tokens)


def _from_entry(entry: Entry, system: str | None, max_tokens: int | None) -> ArenaPrompt:
    fields = entry.fields()
    for key in ("id", "prompt"):
        if key not in fields:
            raise entry.error(f"an item without {key!r}")
    item_id = safe_id(fields["id"].text())
    entry = entry.owned_by(f"item {item_id!r}")
    fields = entry.known_fields(ITEM_KEYS)

    def text(key: str) -> str | None:
        return fields[key].text() if key in fields else None

    return ArenaPrompt(
        item_id=item_id,
        prompt=fields["prompt"].text(),
        system=text("system") or system,
        max_tokens=fields["max_tokens"].whole_number(at_least=1) if "max_tokens" in fields else max_tokens,
        category=text("category"),
        reference=text("reference"),
        rubric=text("rubric"),
    )


def _from_json_lines(path: Path) -> Iterator[tuple[str, ArenaPrompt]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8; save the file as UTF-8") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path}:{number}"
            yield where, _from_object(_object(line, where), where)


def _object(line: str, where: str) -> Mapping[str, Any]:
    try:
        values = parse_json(line)
    except ValueError as error:
        raise DataError(f"{where}: not JSON ({error}); write one object a line") from None
    if not isinstance(values, dict):
        raise DataError(f"{where}: expected an object, found {type(values).__name__}")
    return values


def _from_object(values: Mapping[str, Any], where: str) -> ArenaPrompt:
    item_id = next((values[key] for key in _ID_KEYS if values.get(key) is not None), None)
    if item_id is None:
        raise DataError(f"{where}: no id; give one of {', '.join(_ID_KEYS)}")
    turns = values.get("turns")
    if isinstance(turns, list) and len(turns) != 1:
        raise DataError(f"{where}: {len(turns)} turns; the arena judges single answers, give one turn")
    prompt = turns[0] if isinstance(turns, list) else values.get("prompt")
    prompt = prompt.get("content") if isinstance(prompt, dict) else prompt
    if not isinstance(prompt, str) or not prompt.strip():
        raise DataError(f"{where}: no prompt; give 'prompt' (or 'turns' of one turn) as text")
    optional = {key: str(values[key]) for key in ("system", "category", "reference", "rubric") if values.get(key)}
    max_tokens = values.get("max_tokens")
    if max_tokens is not None and (not isinstance(max_tokens, int) or max_tokens < 1):
        raise DataError(f"{where}: max_tokens is {max_tokens!r}; use a whole number of at least 1")
    return ArenaPrompt(item_id=safe_id(str(item_id)), prompt=prompt, max_tokens=max_tokens, **optional)
