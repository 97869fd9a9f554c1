"""Any program as a policy: it works in a tree, asks the model through the proxy, and leaves an answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_elo.errors import ConfigError, GatewayError, LimitExceededError
from pytest_elo.records import Answer, Problem, Reply
from pytest_elo.strategies.asks import LimitedAsk
from pytest_elo.strategies.programs import Program, needed_folders, preset

if TYPE_CHECKING:
    from pytest_elo.gateway.proxy.access import Access
    from pytest_elo.strategies.workplace import Ended, Guest
    from pytest_elo.tasks.swebench.session import ShellSession

__all__ = ["command", "suits"]

_LIMIT = "limit_exceeded"
"""``finish_reason`` of an answer that stood when a limit was met."""
_STDERR_SHOWN = 300
_POLL_S = 0.25
_GRACE_S = 10.0
"""For a program to write down what it has, once its calls are refused."""


async def command(
    problem: Problem,
    ask: LimitedAsk,
    *,
    command: Sequence[str] | None = None,
    preset: str | None = None,
    answer: str | None = None,
    environment: Mapping[str, str] | None = None,
    mounts: Sequence[str] = (),
    seconds: float = 1800.0,
    model: str | None = None,
    small_model: str | None = None,
    sandbox: str = "auto",
    at_once: int | None = None,
    output_bytes: int = 200_000,
) -> Answer:
    """Run a program on the problem; all its calls are charged to the item.

    ``command`` is a list of words with placeholders (``{problem}``, ``{problem_file}``, ``{model}``,
    ``{overhead_model}``, ``{openai_base_url}``, ``{anthropic_base_url}``, ``{token}``, ``{tree}``, ``{scratch}``,
    ``{answer_file}``),
    ``preset`` the name of a known one. ``answer`` is ``stdout``, ``diff``, ``file`` (what is in ``{answer_file}``) or a
    path in the tree; by default the diff where the task has a tree, else stdout. What stands when ``seconds`` are over
    or a limit is met is the answer. At most ``at_once`` programs (default: the machine's cores) run in a process.

    Raises ``ConfigError`` when the program cannot be started, ``GatewayError`` when it got no answer from the model.
    """
    from pytest_elo.strategies.workplace import Guest

    suits(problem, command=command, preset=preset, answer=answer, mounts=mounts)
    program = _program(command, preset, environment)
    how = answer or ("diff" if hasattr(problem, "workplace") else "stdout")
    async with _turn(ask, at_once or os.cpu_count() or 1), ask.lease(model=model) as access:
        guest = Guest(
            program,
            _statement(problem),
            access,
            overhead_model=f"{small_model or access.model}:overhead",
            seconds=seconds,
            mounts=mounts,
        )
        try:
            open_place = getattr(problem, "workplace", None) or _empty(sandbox)
            stopping = asyncio.create_task(_stop_when_refused(guest, access))
            try:
                ended = await _in_thread(guest, open_place, how, output_bytes)
            finally:
                stopping.cancel()
        finally:
            guest.close()
        if access.was_stopped:
            raise asyncio.CancelledError("the run is stopping")
        return _settled(problem, access, ended)


def suits(
    problem: Problem,
    *,
    command: Sequence[str] | None = None,
    preset: str | None = None,
    answer: str | None = None,
    mounts: Sequence[str] = (),
    **_: object,
) -> None:
    """Raises ``ConfigError`` for a command that cannot be run here."""
    if (command is None) == (preset is None):
        raise ConfigError("command needs either 'command: [program, ...]' or 'preset: NAME'")
    needed_folders(_program(command, preset, None).argv, mounts)
    if answer is not None and (not isinstance(answer, str) or answer.startswith("/") or ".." in answer.split("/")):
        raise ConfigError(f"answer is {answer!r}; write stdout, diff, file, or a path inside the tree")


def _program(words: Sequence[str] | None, name: str | None, environment: Mapping[str, str] | None) -> Program:
    program = preset(name) if name is not None else Program(argv=words or ())
    if isinstance(program.argv, str) or not program.argv or not all(isinstance(word, str) for word in program.argv):
        raise ConfigError(f"command is {words!r}; write a list of words: [program, argument, ...]")
    added = {str(key): str(value) for key, value in (environment or {}).items()}
    return Program(argv=program.argv, environment={**program.environment, **added})


def _statement(problem: Problem) -> str:
    told = getattr(problem, "statement", None)
    if isinstance(told, str):
        return told
    return "\n\n".join(str(message.get("content", "")) for message in problem.messages)


def _empty(sandbox: str) -> Any:
    from pytest_elo.strategies.workplace import empty_workplace

    return partial(empty_workplace, sandbox)


async def _in_thread(guest: Guest, open_place: Any, how: str, output_bytes: int) -> Ended:
    """Run the guest in a thread of its own; being cancelled kills it at once."""
    from pytest_elo.tasks.swebench.errors import RunnerError

    opened: list[ShellSession] = []
    cancelled = threading.Event()
    place: AbstractContextManager[ShellSession] = open_place(guest.furnish, guest.command_s)

    def work() -> Ended:
        with place as session:
            opened.append(session)
            if cancelled.is_set():
                raise RunnerError("cancelled")
            return guest.run(session, how, output_bytes)

    with ThreadPoolExecutor(1, "pytest-elo command") as pool:
        running = asyncio.get_running_loop().run_in_executor(pool, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            cancelled.set()
            for session in opened:
                session.kill()
            with contextlib.suppress(Exception):
                await running
            raise
        except RunnerError as error:
            raise GatewayError(f"the program's sandbox failed: {error}", kind="sandbox") from error


async def _stop_when_refused(guest: Guest, access: Access) -> None:
    """End a program that goes on asking after it was refused: some wait minutes between a dozen tries."""
    while access.refused is None and not access.was_stopped:
        await asyncio.sleep(_POLL_S)
    await asyncio.sleep(_GRACE_S)
    guest.stop()


def _settled(problem: Problem, access: Access, ended: Ended) -> Answer:
    where = f"{problem.task_id}[{problem.item_id}]"
    if ended.ended == "not_started":
        raise ConfigError(f"{where}: the program does not start: {ended.reason}")
    answered = access.answered
    if (error := access.error) is not None and (error.status == "config_error" or not answered):
        raise error
    over = access.refused or ("its limit of time" if ended.ended == "timeout" else None)
    if over is not None and not ended.answer.strip():
        raise LimitExceededError(f"the program reached {over}")
    if not answered and ended.exit_code != 0:
        said = " ".join(ended.stderr.split())[-_STDERR_SHOWN:]
        raise ConfigError(f"{where}: the program ended with exit code {ended.exit_code} and asked no model: {said}")
    rows = [row for call in access.calls for row in call.attempts]
    reply = Reply(
        call_id=answered[-1].call_id if answered else f"command:{problem.item_id}",
        text=ended.answer,
        finish_reason="stop" if over is None else _LIMIT,
        model=access.model,
        prompt_tokens=sum(row.prompt_tokens for row in rows),
        completion_tokens=sum(row.completion_tokens for row in rows),
    )
    marks = () if ended.exit_code == 0 or over is not None else (f"exit_{ended.exit_code}",)
    return Answer(reply=reply, kept=[call.call_id for call in answered], marks=marks)


_places: dict[tuple[asyncio.AbstractEventLoop, int], asyncio.Semaphore] = {}


@contextlib.asynccontextmanager
async def _turn(ask: LimitedAsk, at_once: int) -> AsyncIterator[None]:
    """Wait for a place among the programs of this process; the limit of seconds does not run meanwhile."""
    key = (asyncio.get_running_loop(), at_once)
    places = _places.setdefault(key, asyncio.Semaphore(at_once))
    async with ask.unhurried():
        await places.acquire()
    try:
        yield
    finally:
        places.release()
