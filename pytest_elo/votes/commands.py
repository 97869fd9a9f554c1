"""What ``pytest-elo vote`` and ``pytest-elo import-votes`` do, apart from reading their options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pytest_elo.errors import ConfigError
from pytest_elo.votes.imports import import_votes
from pytest_elo.votes.lmsys_export import to_lmsys
from pytest_elo.votes.store import VOTES, append_votes

__all__ = ["import_command", "vote_command"]


def vote_command(directory: Path, *, port: int = 8765) -> int:
    """Serve the voting page until interrupted."""
    from pytest_elo.votes.page.server import serve

    serve(directory, port)
    return 0


def import_command(
    files: Sequence[Path],
    *,
    judge: str | None = None,
    judge_kind: Literal["model", "person"] = "person",
    into: Path | None = None,
    out: Path | None = None,
    lmsys: Path | None = None,
    anchor: str | None = None,
    ties: Literal["half", "davidson", "drop"] = "half",
) -> int:
    """Import vote files, print what they hold and the leaderboard.

    ``into``: a run directory whose ``votes.jsonl`` the votes join. ``out``: a directory for
    ``leaderboard.csv``, ``.json`` and ``.html``. ``lmsys``: a file to export all votes to.
    """
    from pytest_elo.votes.leaderboard import leaderboard
    from pytest_elo.votes.leaderboard_page import to_html
    from pytest_elo.votes.leaderboard_text import to_csv, to_json, to_table

    imported = import_votes(files, judge=judge, judge_kind=judge_kind)
    print("\n".join(imported.lines()))
    board = leaderboard(imported.votes, anchor=anchor, ties=ties)
    print(to_table(board))
    if into is not None:
        if not into.is_dir():
            raise ConfigError(f"{into}: no such directory; give a run directory")
        append_votes(into / VOTES, imported.votes)
        print(f"{len(imported.votes)} votes joined {into / VOTES}")
    if lmsys is not None:
        lmsys.write_text(to_lmsys(imported.votes), encoding="utf-8")
        print(f"votes exported to {lmsys}")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in (("csv", to_csv(board)), ("json", to_json(board)), ("html", to_html(board))):
            (out / f"leaderboard.{name}").write_text(text, encoding="utf-8")
        print(f"leaderboard written to {out}")
    return 0
