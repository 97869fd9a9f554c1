"""Generator ``agent``: the model works in a shell inside the sandbox until it submits or meets a limit."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from pytest_elo.errors import GatewayError
from pytest_elo.records import Ask, Draft, Message, Reply
from pytest_elo.tasks.swebench.generate.prompts import AGENT
from pytest_elo.tasks.swebench.generate.settings import GeneratorSettings
from pytest_elo.tasks.swebench.session import Observation, ShellSession

__all__ = ["LIMIT", "SUBMIT", "from_agent", "only_command"]

SUBMIT = "ELO_SUBMIT"
LIMIT = "limit_exceeded"
"""``finish_reason`` of a draft whose agent met a limit before it submitted."""

_BLOCK = re.compile(r"^```(?:bash|sh|shell)?[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)

OpenSession = Callable[[float], AbstractContextManager[ShellSession]]


async def from_agent(
    issue: str,
    open_session: OpenSession,
    ask: Ask,
    settings: GeneratorSettings,
    *,
    sample: int,
    temperature: float | None,
    notes: str = "",
) -> Draft:
    """Let the model work; the reply of the draft is the working tree's diff at the end.

    Limits: steps, seconds, tokens of all calls together, and the model's own context. Meeting one ends the
    work, and the diff of that moment counts.

    Args:
        open_session: gives a shell in the prepared tree, with a time limit for each command.
        notes: appended to the issue, such as feedback on an earlier attempt whose changes are in the tree.
    """
    rules = AGENT.format(command_s=f"{settings.command_s:g}")
    rules = f"{settings.system}\n\n{rules}" if settings.system else rules
    task = f"<issue>\n{issue}\n</issue>" + (f"\n\n{notes}" if notes else "")
    messages: list[Message] = [{"role": "system", "content": rules}, {"role": "user", "content": task}]
    session_context = open_session(settings.command_s)
    session = await asyncio.to_thread(session_context.__enter__)
    try:
        reply, kept, ended = await _work(session, ask, settings, messages, sample, temperature)
        diff = await asyncio.to_thread(session.diff)
    finally:
        await asyncio.to_thread(session_context.__exit__, None, None, None)
    final = replace(reply, text=diff, finish_reason=ended or reply.finish_reason)
    return Draft(reply=final, kept=tuple(kept), messages=tuple(messages))


async def _work(
    session: ShellSession,
    ask: Ask,
    settings: GeneratorSettings,
    messages: list[Message],
    sample: int,
    temperature: float | None,
) -> tuple[Reply, list[str], str | None]:
    """The loop: ask, run, show. Returns the last reply, all calls and ``LIMIT`` unless it submitted."""
    kept: list[str] = []
    deadline = time.monotonic() + settings.agent_wall_s
    spent = 0
    reply: Reply | None = None
    for _ in range(settings.max_steps):
        try:
            reply = await ask(
                messages, role="agent", sample=sample, temperature=temperature, max_tokens=settings.max_tokens
            )
        except GatewayError as error:
            if error.status != "context_exceeded" or reply is None:
                raise
            return reply, kept, LIMIT
        kept.append(reply.call_id)
        spent += reply.prompt_tokens + reply.completion_tokens
        messages.append({"role": "assistant", "content": reply.text})
        command = only_command(reply.text)
        if command is not None and re.fullmatch(rf"\s*echo ['\"]?{SUBMIT}['\"]?\s*", command):
            return reply, kept, None
        if command is None:
            answer = "Send exactly one command in one ```bash block."
        else:
            answer = _shown(await asyncio.to_thread(session.run, command), settings.observation_chars)
        messages.append({"role": "user", "content": answer})
        if time.monotonic() > deadline or spent > settings.agent_tokens:
            break
    assert reply is not None, "max_steps is at least 1"
    return reply, kept, LIMIT


def only_command(text: str) -> str | None:
    """The command of a turn; ``None`` when it holds none or several."""
    blocks = [match[1].strip() for match in _BLOCK.finditer(text)]
    return blocks[0] if len(blocks) == 1 and blocks[0] else None


def _shown(observation: Observation, most: int) -> str:
    """Output with its middle left out when it is long: errors stand at the end, headings at the start."""
    text = observation.output
    if len(text) > most:
        half = most // 2
        text = f"{text[:half]}\n... ({len(text) - 2 * half} characters left out) ...\n{text[-half:]}"
    return f"exit code {observation.exit_code}\n{text}"
