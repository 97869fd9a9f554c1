"""What generators are given: the settings they share, and what may be shown to a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["GeneratorName", "GeneratorSettings", "Material"]

GeneratorName = Literal["map", "single", "agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSettings:
    """How patches are made; part of the condition.

    Context sizes are in tokens, estimated as a quarter of the characters. ``max_steps`` to ``agent_tokens``
    concern the agent only: a limit that is met ends it, and what it has changed by then is graded.
    """

    generator: GeneratorName = "map"
    max_context_tokens: int = 100_000
    include_repo_map: bool = True
    map_tokens: int = 20_000
    include_hints: bool = False
    system: str = ""
    max_files: int = 5
    max_tokens: int = 8192
    max_steps: int = 250
    command_s: float = 60.0
    observation_chars: int = 10_000
    agent_wall_s: float = 3600.0
    agent_tokens: int = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What may be shown to a model: the issue and the repository at its base commit.

    ``ranked`` holds the source files, the most likely first.
    """

    issue: str
    ranked: Sequence[str]
    read: Callable[[str], str | None] = field(repr=False)

    def packed(self, paths: Sequence[str], max_tokens: int) -> list[tuple[str, str]]:
        """(path, text) pairs within a budget; a file that does not fit is cut, and a line says so."""
        from pytest_elo.tasks.swebench.generate.outline import tokens_of

        packed: list[tuple[str, str]] = []
        left = max_tokens
        for path in paths:
            text = self.read(path)
            if text is None or left < 200:
                continue
            if tokens_of(text) > left:
                lines = text[: left * 4].splitlines(keepends=True)[:-1]
                rest = text.count("\n") - len(lines)
                text = f"{''.join(lines)}... ({rest} more lines of {path} are not shown)\n"
            left -= tokens_of(text)
            packed.append((path, text))
        return packed
