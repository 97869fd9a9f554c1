from __future__ import annotations

from pathlib import Path

import pytest

from pytest_elo.errors import ConfigError
from pytest_elo.votes.commands import import_command
from pytest_elo.votes.store import read_votes

VOTES = Path(__file__).parent.parent / "data" / "votes"


def test_import_prints_what_it_found_and_writes_what_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = VOTES / "fastchat_gpt-4_pair_compact.jsonl"
    run = tmp_path / "run"
    run.mkdir()
    assert import_command([pairs], into=run, out=tmp_path / "board", lmsys=tmp_path / "votes.jsonl") == 0
    said = capsys.readouterr().out
    assert "FastChat pairs, 75 records" in said
    assert "consistency 63.0%" in said
    assert len(read_votes(run / "votes.jsonl").votes) == 150
    assert sorted(p.name for p in (tmp_path / "board").iterdir()) == [
        "leaderboard.csv",
        "leaderboard.html",
        "leaderboard.json",
    ]
    assert import_command([tmp_path / "votes.jsonl"]) == 0  # what was exported can be imported


def test_votes_join_only_a_directory_that_exists(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such directory"):
        import_command([VOTES / "evalica_food.csv"], into=tmp_path / "none")
