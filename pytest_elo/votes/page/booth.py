"""Who votes on what next. Names stay hidden, sides are random for each voter, every vote is on disk first."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from pytest_elo._text import text_hash
from pytest_elo.errors import DataError
from pytest_elo.votes.agreement import agreement_of
from pytest_elo.votes.page.ballots import Ballot, read_ballots
from pytest_elo.votes.records import Vote, Winner, iso_time
from pytest_elo.votes.settle import distinct, settle
from pytest_elo.votes.store import VOTES, append_votes, read_votes
from pytest_elo.votes.style import style_of

__all__ = ["Booth", "Choice", "Progress", "Shown"]

Choice = Literal["left", "right", "tie", "both_bad"]
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Shown:
    """A ballot as one voter sees it."""

    ballot_id: str
    prompt: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Progress:
    done: int
    total: int
    can_undo: bool


class Booth:
    """All voters of one directory. Thread-safe; the votes file is the only state that matters.

    Raises :class:`DataError` for unreadable files, unknown ballots and names that cannot be voters.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / VOTES
        self._ballots = {ballot.ballot_id: ballot for ballot in read_ballots(directory)}
        self._lock = threading.Lock()
        self._votes: list[Vote] = list(read_votes(self._path).votes) if self._path.exists() else []
        self._cast: dict[str, dict[str, None]] = {}
        """Ballots by voter, in the order they were cast."""
        self._reopened: dict[str, str] = {}
        """The ballot a voter has just taken back; it comes next."""
        by_pair = {_pair_key(ballot): ballot.ballot_id for ballot in self._ballots.values()}
        for vote in self._votes:
            ballot_id = by_pair.get((vote.task_id, vote.item_id, vote.repeat, vote.pair))
            if vote.kind == "person" and ballot_id:
                self._remember(vote, ballot_id)

    def next(self, voter: str) -> Shown | None:
        """The ballot just taken back, else the one with the fewest votes; ``None`` when all are done."""
        with self._lock:
            done = self._cast.get(_checked(voter), {})
            reopened = self._reopened.get(voter)
            if reopened is not None and reopened not in done:
                return self._shown(voter, reopened)
            counts = Counter(ballot_id for cast in self._cast.values() for ballot_id in cast)
            left = [ballot_id for ballot_id in self._ballots if ballot_id not in done]
            if not left:
                return None
            return self._shown(voter, min(left, key=lambda b: (counts[b], _mixed(voter, b, "order"))))

    def cast(self, voter: str, ballot_id: str, choice: str) -> None:
        """Write the vote to disk, then count it. A second vote on one ballot replaces the first."""
        if choice not in get_args(Choice):
            raise DataError(f"choice {choice!r} is none of {', '.join(get_args(Choice))}")
        winners: dict[str, Winner] = {"left": "a", "right": "b", "tie": "tie", "both_bad": "both_bad"}
        with self._lock:
            self._append(self._vote(_checked(voter), ballot_id, winners[choice], None), ballot_id)

    def undo(self, voter: str) -> None:
        """Take back the voter's last vote; without one, nothing happens."""
        with self._lock:
            cast = self._cast.get(_checked(voter))
            if cast:
                ballot_id = next(reversed(cast))
                self._append(self._vote(voter, ballot_id, None, "undone"), ballot_id)
                self._reopened[voter] = ballot_id

    def progress(self, voter: str) -> Progress:
        with self._lock:
            done = len(self._cast.get(_checked(voter), {}))
            return Progress(done, len(self._ballots), done > 0)

    def agreement(self, voter: str | None = None) -> Sequence[str]:
        """How far ``voter`` (or all people together) agrees with each model judge of the directory."""
        with self._lock:
            results = settle(distinct(self._votes).votes)
        people = [r for r in results if r.kind == "person" and voter in (None, r.judge)]
        models = [r for r in results if r.kind == "model" and r.status not in ("identical", "excluded")]
        found = [
            agreement_of(people, [r for r in models if r.judge == judge], names=(voter or "people", judge))
            for judge in sorted({r.judge for r in models})
        ]
        return [str(agreement) for agreement in found if agreement.with_ties.n]

    def _shown(self, voter: str, ballot_id: str) -> Shown:
        ballot = self._ballots[ballot_id]
        answers = (ballot.answer_a, ballot.answer_b)
        left, right = reversed(answers) if _swapped(voter, ballot_id) else answers
        return Shown(ballot_id, ballot.prompt, left, right)

    def _vote(self, voter: str, ballot_id: str, winner: Winner | None, reason: str | None) -> Vote:
        ballot = self._ballots.get(ballot_id)
        if ballot is None:
            raise DataError(f"ballot {ballot_id!r} is not among the {len(self._ballots)} pairs; reload the page")
        sides = [(ballot.a, ballot.answer_a), (ballot.b, ballot.answer_b)]
        (a, text_a), (b, text_b) = sides[::-1] if _swapped(voter, ballot_id) else sides
        return Vote(
            task_id=ballot.task_id,
            item_id=ballot.item_id,
            a=a,
            b=b,
            winner=winner,
            judge=voter,
            reason=reason,
            repeat=ballot.repeat,
            ts=iso_time(datetime.now(UTC)),
            style_a=style_of(text_a),
            style_b=style_of(text_b),
        )

    def _append(self, vote: Vote, ballot_id: str) -> None:
        append_votes(self._path, [vote])
        self._votes.append(vote)
        self._remember(vote, ballot_id)

    def _remember(self, vote: Vote, ballot_id: str) -> None:
        cast = self._cast.setdefault(vote.judge, {})
        cast.pop(ballot_id, None)
        if vote.reason != "undone":
            cast[ballot_id] = None


def _pair_key(ballot: Ballot) -> tuple[str, str, int, tuple[str, str]]:
    first, second = sorted((ballot.a, ballot.b))
    return (ballot.task_id, ballot.item_id, ballot.repeat, (first, second))


def _checked(voter: str) -> str:
    if not voter.strip() or len(voter) > _LONGEST_NAME or not voter.isprintable():
        raise DataError(f"a voter's name has 1 to {_LONGEST_NAME} printable characters")
    return voter


def _swapped(voter: str, ballot_id: str) -> bool:
    """The side is drawn for each voter and ballot by a hash, so that a reload shows the same page."""
    return _mixed(voter, ballot_id, "side")[0] % 2 == 1


def _mixed(voter: str, ballot_id: str, what: str) -> bytes:
    return text_hash(f"{voter}\0{ballot_id}\0{what}").digest()
