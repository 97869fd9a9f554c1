"""The voting page over HTTP, without a browser."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.tasks.arena.judging import Contestant, Pair
from pytest_elo.votes.page.ballots import Ballot, ballots_of, write_ballots
from pytest_elo.votes.page.server import VotingServer
from pytest_elo.votes.records import Vote
from pytest_elo.votes.settle import distinct, settle
from pytest_elo.votes.store import append_votes, read_votes

ATTACK = "<script>document.title='owned'</script><img src=https://example.org/x.png>"


def ballot(n: int, **changes: str) -> Ballot:
    fields = {
        "task_id": "arena",
        "item_id": f"p{n}",
        "prompt": f"Prompt {n}",
        "a": "policy-alpha",
        "b": "policy-beta",
        "answer_a": f"Answer *one* {n}",
        "answer_b": f"Answer two {n}",
    }
    return Ballot(**(fields | changes))  # type: ignore[arg-type]


@contextmanager
def serving(directory: Path) -> Iterator[VotingServer]:
    with VotingServer(directory) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_ballots(tmp_path, [ballot(n) for n in range(4)])
    return tmp_path


@pytest.fixture
def server(directory: Path) -> Iterator[VotingServer]:
    with serving(directory) as running:
        yield running


def request(
    server: VotingServer, method: str, path: str, body: object = None, **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    content = None if body is None else json.dumps(body)
    sent = {"Content-Type": "application/json"} if body is not None else {}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, content, sent)
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response, data


def state(server: VotingServer, voter: str) -> dict[str, Any]:
    response, data = request(server, "GET", f"/api/ballot?voter={quote(voter)}")
    assert response.status == 200
    return json.loads(data)


def vote(server: VotingServer, voter: str, ballot_id: str, choice: str) -> dict[str, Any]:
    response, data = request(server, "POST", "/api/vote", {"voter": voter, "ballot": ballot_id, "choice": choice})
    assert response.status == 200
    return json.loads(data)


def vote_all(server: VotingServer, voter: str, choice: str) -> dict[str, Any]:
    now = state(server, voter)
    while now["ballot"]:
        now = vote(server, voter, now["ballot"]["id"], choice)
    return now


def test_a_voter_goes_through_all_pairs_and_each_vote_is_on_disk(server: VotingServer, directory: Path) -> None:
    now = state(server, "ann")
    for done in range(4):
        assert (now["done"], now["total"]) == (done, 4)
        now = vote(server, "ann", now["ballot"]["id"], "tie")
        assert len(read_votes(directory / "votes.jsonl").votes) == done + 1
    assert now["ballot"] is None
    assert {(v.judge, v.kind, v.winner) for v in read_votes(directory / "votes.jsonl").votes} == {
        ("ann", "person", "tie")
    }


def test_no_answer_of_the_server_names_a_policy(server: VotingServer) -> None:
    _, page = request(server, "GET", "/")
    shown = page.decode() + json.dumps(vote_all(server, "ann", "left")) + json.dumps(state(server, "bob"))
    assert "alpha" not in shown
    assert "beta" not in shown


def test_left_means_the_answer_that_stood_left_whatever_the_sides(server: VotingServer, directory: Path) -> None:
    """Whoever always picks the answer with emphasis picks policy alpha, though sides differ by voter."""
    sides: Counter[str] = Counter()
    for voter in (f"voter {n}" for n in range(6)):
        now = state(server, voter)
        while now["ballot"]:
            side = "left" if "<em>" in now["ballot"]["left"] else "right"
            sides[side] += 1
            now = vote(server, voter, now["ballot"]["id"], side)
    assert min(sides.values()) >= 4
    results = settle(read_votes(directory / "votes.jsonl").votes)
    assert {(r.a, r.share) for r in results} == {("policy-alpha", 1.0)}


def test_a_reload_shows_the_same_page(server: VotingServer) -> None:
    assert state(server, "ann") == state(server, "ann")


def test_undo_brings_the_pair_back_and_the_new_vote_counts(server: VotingServer, directory: Path) -> None:
    first = state(server, "ann")["ballot"]["id"]
    vote(server, "ann", first, "left")
    _, data = request(server, "POST", "/api/undo", {"voter": "ann"})
    undone = json.loads(data)
    assert (undone["ballot"]["id"], undone["done"], undone["canUndo"]) == (first, 0, False)
    vote(server, "ann", first, "both_bad")
    votes = read_votes(directory / "votes.jsonl").votes
    assert [v.winner for v in votes][1:] == [None, "both_bad"]
    [result] = settle(distinct(votes).votes)
    assert result.share == 0.5


def test_a_restarted_server_goes_on_where_it_was(directory: Path) -> None:
    with serving(directory) as server:
        now = vote(server, "ann", state(server, "ann")["ballot"]["id"], "left")
    with serving(directory) as server:
        assert state(server, "ann") == now
        assert state(server, "bob")["done"] == 0


def test_several_voters_at_once_lose_no_vote(server: VotingServer, directory: Path) -> None:
    voters = [f"v{n}" for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda voter: vote_all(server, voter, "left"), voters))
    stored = read_votes(directory / "votes.jsonl")
    assert stored.torn == ()
    assert Counter(v.judge for v in stored.votes) == dict.fromkeys(voters, 4)


def test_the_pair_with_fewest_votes_comes_first(server: VotingServer) -> None:
    first = [state(server, "ann")["ballot"]["id"]]
    vote(server, "ann", first[0], "tie")
    for voter in ("bob", "eve", "joe"):
        first.append(state(server, voter)["ballot"]["id"])
        vote(server, voter, first[-1], "tie")
    assert len(set(first)) == 4


def test_at_the_end_the_voter_sees_the_agreement_with_the_judge(directory: Path) -> None:
    append_votes(
        directory / "votes.jsonl",
        [
            Vote(task_id="arena", item_id=f"p{n}", a=a, b=b, winner=w, judge="gpt", kind="model", both_orders=True)
            for n in range(4)
            for a, b, w in (("policy-alpha", "policy-beta", "a"), ("policy-beta", "policy-alpha", "b"))
        ],
    )
    with serving(directory) as server:
        end = vote_all(server, "ann", "tie")
    assert end["agreement"] == ["ann and gpt agree on 0.0% of 4 pairs (- of 0 without ties), Cohen's kappa 0.00"]


def test_an_answer_arrives_escaped_under_a_policy_that_runs_only_our_script(tmp_path: Path) -> None:
    write_ballots(tmp_path, [ballot(0, answer_a=ATTACK, answer_b=ATTACK + " ", prompt=ATTACK)])
    with serving(tmp_path) as server:
        page, document = request(server, "GET", "/")
        shown = state(server, "ann")["ballot"]
    assert all("<script" not in shown[part] and "<img" not in shown[part] for part in ("prompt", "left", "right"))
    policy = page.getheader("Content-Security-Policy") or ""
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    script = re.search(rb"<script>(.*?)</script>", document, re.DOTALL)
    assert script is not None
    assert base64.b64encode(hashlib.sha256(script[1]).digest()).decode() in policy
    assert not re.search(rb"https?://|src=|@import|url\(", document)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:80"},
        {"Origin": "http://evil.example"},
        {"Content_Type": "text/plain"},
    ],
)
def test_another_site_cannot_vote(server: VotingServer, directory: Path, headers: dict[str, str]) -> None:
    body = {"voter": "ann", "ballot": state(server, "ann")["ballot"]["id"], "choice": "left"}
    response, _ = request(server, "POST", "/api/vote", body, **headers)
    assert response.status == 403
    assert not (directory / "votes.jsonl").exists()


def test_a_rebound_name_reads_nothing(server: VotingServer) -> None:
    assert request(server, "GET", "/api/ballot?voter=ann", Host="evil.example")[0].status == 403


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"voter": "ann", "ballot": "nope", "choice": "left"}, "not among the 4 pairs"),
        ({"voter": "ann", "ballot": "nope", "choice": "up"}, "none of left, right, tie, both_bad"),
        ({"voter": " ", "ballot": "nope", "choice": "left"}, "printable characters"),
        ({"voter": "ann"}, "'ballot' is missing"),
    ],
)
def test_a_request_that_makes_no_sense_is_told_so(server: VotingServer, body: object, problem: str) -> None:
    response, data = request(server, "POST", "/api/vote", body)
    assert response.status == 400
    assert problem in json.loads(data)["error"]


def test_failed_and_identical_answers_are_not_put_to_people() -> None:
    def pair(a: str, b: str) -> Pair:
        contestants = [Contestant(policy=p, text=t) for p, t in (("x", a), ("y", b))]
        return Pair(task_id="arena", item_id="p", prompt="?", a=contestants[0], b=contestants[1])

    ballots = ballots_of([pair("one", "two"), pair("", "two"), pair("$ERROR$", "x"), pair("same", "same\n")])
    assert [b.answer_a for b in ballots] == ["one"]


def test_a_directory_without_ballots_or_a_taken_port_is_one_clear_error(
    tmp_path: Path, server: VotingServer, directory: Path
) -> None:
    with pytest.raises(DataError, match=r"ballots\.jsonl: cannot be read .* give the directory of a run"):
        VotingServer(tmp_path / "none")
    (tmp_path / "ballots.jsonl").write_text('{"task_id": "arena"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"ballots\.jsonl:1: not a ballot"):
        VotingServer(tmp_path)
    write_ballots(tmp_path, [ballot(0)])
    with pytest.raises(ConfigError, match="choose another with --port"):
        VotingServer(tmp_path, 70_000)
