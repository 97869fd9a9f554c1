"""Where a program works: a tree behind walls, with the model as its only neighbour."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_elo._parse import parse_json
from pytest_elo.strategies import _launch
from pytest_elo.strategies.programs import interpreter, needed_folders
from pytest_elo.tasks.swebench.sandbox import Cell, Furnish, Limits, Scratch, choose_sandbox, launch_environment
from pytest_elo.tasks.swebench.session import ShellSession

if TYPE_CHECKING:
    from pytest_elo.gateway.proxy.access import Access
    from pytest_elo.strategies.programs import Program

__all__ = ["Ended", "Guest", "empty_workplace"]

TREE, GUEST, SOCKET = "/testbed", "/elo-guest", "/elo-proxy"
_SLACK_S = 60.0
_PATHS = {
    "tree": TREE,
    "problem_file": f"{GUEST}/problem.md",
    "scratch": "/tmp",
    "stop": f"{GUEST}/stop",
    "answer_file": "/tmp/elo-answer",
    "stdout": "/tmp/elo-stdout",
    "stderr": "/tmp/elo-stderr",
    "socket": f"{SOCKET}/proxy.sock",
}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: ``exit``, ``timeout`` or ``not_started``, and what it left."""

    ended: str
    exit_code: int
    reason: str
    answer: str
    stderr: str


class Guest:
    """One program's run: what it is told, what it may see, and how its answer is taken.

    Use ``command_s`` and ``furnish`` to open a workplace, then ``run`` in it, which blocks. Afterwards ``close``.
    """

    def __init__(
        self,
        program: Program,
        problem: str,
        access: Access,
        *,
        overhead_model: str,
        seconds: float,
        mounts: Sequence[str],
    ) -> None:
        argv = list(program.argv)
        argv[0], folders = needed_folders(argv, mounts)
        self._folders = folders
        self._access = access
        self._seconds = seconds
        self._folder = Path(tempfile.mkdtemp(prefix="elo-guest-"))
        spec: Mapping[str, Any] = {
            "argv": argv,
            "environment": dict(program.environment),
            "access": access.environment_at("{origin}"),
            "values": {"model": access.model, "overhead_model": overhead_model, "token": access.token},
            "paths": _PATHS,
            "seconds": seconds,
        }
        (self._folder / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
        (self._folder / "problem.md").write_text(problem, encoding="utf-8", errors="replace")
        shutil.copyfile(_launch.__file__, self._folder / "launch.py")

    @property
    def command_s(self) -> float:
        """The longest that a command of the workplace's shell may take."""
        return self._seconds + _SLACK_S

    def furnish(self, cell: Cell) -> Cell:
        """The cell with the program, our interpreter and the way to the proxy in it, and room for large runtimes.

        Runtimes of agents reserve address space by the hundred gigabytes: a limit on it stops them before they start.
        """
        python = interpreter().parent.parent
        shown = {str(folder): folder for folder in (*self._folders, *([] if python == Path("/usr") else [python]))}
        limits = replace(cell.limits, wall_s=self.command_s, cpu_s=int(self.command_s) * 8, memory_mb=1 << 30)
        return replace(
            cell,
            read_only={**cell.read_only, **shown, GUEST: self._folder, SOCKET: self._access.socket.parent},
            environment={**cell.environment, "PATH": _path(cell.environment.get("PATH", ""), self._folders)},
            limits=limits,
        )

    def run(self, session: ShellSession, answer: str, output_bytes: int) -> Ended:
        """Run the program to its end and take its answer: ``stdout``, ``diff``, or a file's path in the tree."""
        told = session.run(f"{interpreter()} -I $ELO_ROOT{GUEST}/launch.py $ELO_ROOT{GUEST}/spec.json")
        try:
            end = parse_json(told.output.strip().splitlines()[-1])
        except (ValueError, IndexError):
            end = {"ended": "not_started", "exit_code": told.exit_code, "reason": told.output.strip()[-500:]}
        return Ended(
            end["ended"],
            int(end["exit_code"]),
            str(end["reason"]),
            _taken(session, answer, output_bytes),
            session.run(f"tail -c 2000 $ELO_ROOT{_PATHS['stderr']} 2>/dev/null").output,
        )

    def stop(self) -> None:
        """End the program, from any thread, as if its time were over."""
        (self._folder / "stop").touch()

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _taken(session: ShellSession, answer: str, output_bytes: int) -> str:
    if answer == "diff":
        return session.diff()
    path = _PATHS["stdout"] if answer == "stdout" else f"{TREE}/{answer}"
    if answer == "file":
        path = _PATHS["answer_file"]
    return session.run(f'head -c {output_bytes} -- "$ELO_ROOT"{shlex.quote(path)} 2>/dev/null').output


def _path(known: str, folders: Sequence[Path]) -> str:
    own = [str(folder / "bin") for folder in folders] + [str(folder / ".bin") for folder in folders]
    return ":".join([*(known.split(":") if known else []), *own])


@contextlib.contextmanager
def empty_workplace(sandbox: str, furnish: Furnish, command_s: float) -> Iterator[ShellSession]:
    """An empty git repository in a sandbox of that name (``auto``, ...). Raises ``ConfigError`` when there is none."""
    cell = furnish(
        Cell(
            scratch=(Scratch(TREE, 1024), Scratch("/tmp", 1024)),
            environment={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "TZ": "UTC"},
            limits=Limits(),
        )
    )
    word = ShellSession.new_word()
    identity = "-c user.name=elo -c user.email=elo@localhost -c init.defaultBranch=main"
    prelude = (
        f"cd $root{TREE} || fail tree\n"
        f"{{ git {identity} init -q && git {identity} commit -q --allow-empty -m start; }} >/dev/null 2>&1"
    )
    program = ShellSession.program(word, prelude, cell.limits, command_s)
    walls = _sandbox(sandbox)
    entered: AbstractContextManager[list[str]] = walls.entering(cell, ["bash", "-c", program])
    with (
        entered as argv,
        ShellSession(argv, word, command_s=command_s, environment=launch_environment()) as session,
    ):
        yield session


@lru_cache(maxsize=4)
def _sandbox(name: str) -> Any:
    return choose_sandbox(name)
