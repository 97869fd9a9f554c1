"""One item of an own task, from what its author wrote to what is asked and how it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pytest_elo._text import safe_id
from pytest_elo.records import Message
from pytest_elo.tasks.checks import CHECKS, Check
from pytest_elo.tasks.function_check import Function
from pytest_elo.tasks.yaml_file import Entry

__all__ = ["ITEM_KEYS", "OwnItem", "Shared", "build_item", "examples_of"]

ITEM_KEYS: Final = ("id", "prompt", "system", "max_tokens", "verify")
EXAMPLE_KEYS: Final = ("prompt", "reply")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnItem:
    item_id: str
    messages: tuple[Message, ...]
    max_tokens: int
    grading: Check
    verify: Function | None = None

    @property
    def sort(self) -> tuple[str, bool]:
        """Items of one sort offer strategies the same: answers that can or cannot be voted on, a public check."""
        return type(self.grading).__name__, self.verify is not None


@dataclass(frozen=True, slots=True)
class Shared:
    """What items take from the file unless they say otherwise."""

    max_tokens: int
    system: str = ""
    examples: tuple[Message, ...] = ()

    def overridden_by(self, fields: Mapping[str, Entry]) -> Shared:
        if "system" not in fields and "max_tokens" not in fields:
            return self
        system, max_tokens = fields.get("system"), fields.get("max_tokens")
        return replace(
            self,
            system=self.system if system is None else system.text(),
            max_tokens=self.max_tokens if max_tokens is None else max_tokens.whole_number(at_least=1),
        )

    def messages(self, prompt: str) -> tuple[Message, ...]:
        system: tuple[Message, ...] = ({"role": "system", "content": self.system},) if self.system else ()
        return (*system, *self.examples, {"role": "user", "content": prompt})


def examples_of(entry: Entry) -> tuple[Message, ...]:
    """The worked examples as earlier turns of the chat. Raises ``DataError`` for one that is incomplete."""
    return tuple(message for example in entry.entries() for message in _example(example))


def _example(entry: Entry) -> tuple[Message, Message]:
    fields = entry.known_fields(EXAMPLE_KEYS)
    for key in EXAMPLE_KEYS:
        if key not in fields:
            raise entry.error(f"has no {key!r}; an example is a prompt and a reply")
    user, assistant = fields["prompt"].text(), fields["reply"].text()
    return {"role": "user", "content": user}, {"role": "assistant", "content": assistant}


def build_item(entry: Entry, number: int, shared: Shared) -> OwnItem:
    """The item that ``entry`` writes, the ``number``-th of its file.

    Raises ``DataError`` for one without id, prompt or exactly one check, and for a key or check it cannot use.
    """
    entry = entry.owned_by(f"item {number}")
    written = entry.fields()
    if "id" in written:
        entry = entry.owned_by(f"item {written['id'].text()!r}")
    fields = entry.known_fields((*ITEM_KEYS, *CHECKS))
    for key in ("id", "prompt"):
        if key not in fields:
            raise entry.error(f"has no {key!r}; every item needs an id, a prompt and one check")
    kinds = [key for key in fields if key in CHECKS]
    if len(kinds) != 1:
        found = "no check" if not kinds else f"{len(kinds)} checks ({', '.join(kinds)})"
        raise entry.error(f"has {found}; write exactly one of {', '.join(CHECKS)}")
    shared = shared.overridden_by(fields)
    return OwnItem(
        item_id=safe_id(fields["id"].text()),
        messages=shared.messages(fields["prompt"].text()),
        max_tokens=shared.max_tokens,
        grading=CHECKS[kinds[0]](fields[kinds[0]]),
        verify=Function.build(fields["verify"]) if "verify" in fields else None,
    )
