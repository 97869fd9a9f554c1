"""Generators ``single`` and ``map``: one call, or two with a look at the repository's map before."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from pytest_elo.records import Ask, Draft, Message, Reply, Role
from pytest_elo.tasks.swebench.generate.edits import Proposal, proposal
from pytest_elo.tasks.swebench.generate.outline import repository_map
from pytest_elo.tasks.swebench.generate.prompts import (
    DIFF_FORMAT,
    edit_prompt,
    feedback_prompt,
    localise_prompt,
    repair_prompt,
)
from pytest_elo.tasks.swebench.generate.settings import GeneratorSettings, Material

__all__ = ["from_map", "from_single_prompt", "named_files", "opening", "revise", "single_messages"]

_RESERVE = 1_000
"""Tokens of the context kept for the wording around issue and files."""


def single_messages(material: Material, settings: GeneratorSettings) -> list[Message]:
    """The one-shot prompt: the likeliest files, and a diff as the answer."""
    budget = settings.max_context_tokens - _RESERVE - len(material.issue) // 4
    files = material.packed(material.ranked[:50], budget)
    return opening(settings, edit_prompt(material.issue, files, DIFF_FORMAT))


async def from_single_prompt(
    material: Material,
    ask: Ask,
    settings: GeneratorSettings,
    *,
    sample: int,
    role: Role,
    temperature: float | None,
) -> Draft:
    """One call for a diff, nothing else: the form that articles measure."""
    messages = await asyncio.to_thread(single_messages, material, settings)
    reply = await ask(messages, role=role, sample=sample, temperature=temperature, max_tokens=settings.max_tokens)
    return Draft(reply=reply, kept=(reply.call_id,), messages=tuple(messages))


async def from_map(
    material: Material,
    ask: Ask,
    settings: GeneratorSettings,
    *,
    sample: int,
    role: Role,
    temperature: float | None,
) -> Draft:
    """The model picks files from the map, sees them whole, edits them, and may repair its edits once."""
    common: dict[str, Any] = {"role": role, "sample": sample, "temperature": temperature}
    kept: list[str] = []
    paths: Sequence[str] = material.ranked[: settings.max_files]
    if settings.include_repo_map and len(material.ranked) > 1:
        shown = await asyncio.to_thread(repository_map, material.ranked, material.read, settings.map_tokens)
        question = opening(settings, localise_prompt(material.issue, shown, settings.max_files))
        choice = await ask(question, max_tokens=settings.max_tokens, **common)
        kept.append(choice.call_id)
        paths = named_files(choice.text, material, settings.max_files) or material.ranked[:3]
    budget = settings.max_context_tokens - _RESERVE - len(material.issue) // 4
    files = await asyncio.to_thread(material.packed, paths, budget)
    messages = opening(settings, edit_prompt(material.issue, files))
    return await _edited(material, ask, settings, messages, kept, common)


async def revise(
    material: Material, ask: Ask, settings: GeneratorSettings, previous: Draft, feedback: str,
    *, sample: int, role: Role, temperature: float | None,
) -> Draft:  # fmt: skip
    """Go on from a draft with what its tests said; the answer is a complete repair again."""
    common: dict[str, Any] = {"role": role, "sample": sample, "temperature": temperature}
    messages = [*previous.messages, _assistant(previous.reply), _user(feedback_prompt(feedback))]
    return await _edited(material, ask, settings, messages, [], common)


def named_files(text: str, material: Material, most: int) -> list[str]:
    """Paths that the model named: exact, or by an ending that only one file has."""
    inside = re.search(r"<files>(.*?)(?:</files>|\Z)", text, re.DOTALL)
    found: dict[str, None] = {}
    for line in (inside[1] if inside else text).splitlines():
        for word in re.findall(r"[\w./+-]+\.\w+", line):
            name = word.removeprefix("./").removeprefix("/testbed/")
            matching = [path for path in material.ranked if path == name or path.endswith(f"/{name}")]
            exact = [path for path in matching if path == name] or matching
            if len(exact) == 1:
                found[exact[0]] = None
            elif not exact and material.read(name) is not None:
                found[name] = None
    return list(found)[:most]


async def _edited(
    material: Material, ask: Ask, settings: GeneratorSettings, messages: list[Message], kept: list[str],
    common: dict[str, Any],
) -> Draft:  # fmt: skip
    reply = await ask(messages, max_tokens=settings.max_tokens, **common)
    made = await asyncio.to_thread(proposal, reply.text, material.read)
    if _needs_repair(made, reply):
        files = [(path, text) for path in made.files if (text := material.read(path)) is not None]
        messages = [*messages, _assistant(reply), _user(repair_prompt(made.problems, files))]
        kept = [*kept, reply.call_id]
        reply = await ask(messages, max_tokens=settings.max_tokens, **common)
    return Draft(reply=reply, kept=(*kept, reply.call_id), messages=tuple(messages))


def _needs_repair(made: Proposal, reply: Reply) -> bool:
    """A reply that was cut or refused would be cut or refused again."""
    unfinished = reply.finish_reason in ("length", "content_filter") or reply.refusal is not None
    return not unfinished and bool(made.problems or made.diff is None)


def opening(settings: GeneratorSettings, text: str) -> list[Message]:
    """The first messages of a conversation: the system message, where one is set, and the request."""
    system: list[Message] = [{"role": "system", "content": settings.system}] if settings.system else []
    return [*system, _user(text)]


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _assistant(reply: Reply) -> Message:
    return {"role": "assistant", "content": reply.text}
