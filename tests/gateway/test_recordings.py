from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import openai
import pytest

from pytest_elo.errors import ConfigError, DataError, GatewayError, NotRecordedError
from pytest_elo.gateway.client import Gateway, GatewaySettings
from pytest_elo.gateway.context import tagged
from pytest_elo.gateway.recorded import Recorded
from pytest_elo.gateway.recordings import MANIFEST, Manifest, Recordings, merge, request_key
from pytest_elo.records import Tag
from tests.gateway.conftest import QUESTION, TAG, Connect, Rows, Setup
from tests.loopback import Request, Response, completion, error, model_answer, reply, stream

MANIFEST_OF_TEST = Manifest(model="test-model", host="127.0.0.1", date="2026-01-02")
SECRET_PROMPT = [{"role": "user", "content": "Zanzibar answer 42"}]


def record(connect: Connect, tmp_path: Path, script: Any = model_answer) -> Setup:
    """A gateway that records into ``tmp_path / shards``."""
    recordings = Recordings(None, mode="record", shards=tmp_path / "shards")
    return connect(script, recordings=recordings)


def fold(tmp_path: Path) -> Path:
    merge(tmp_path / "shards", tmp_path / "recordings")
    MANIFEST_OF_TEST.write(tmp_path / "recordings")
    return tmp_path / "recordings"


def replay(directory: Path) -> Setup:
    """A gateway without any endpoint, replaying ``directory``."""
    rows = Rows()
    gateway = Gateway(None, GatewaySettings(run_id="run-2"), rows, recordings=Recordings(directory, mode="replay"))
    return Setup(server=None, gateway=gateway, rows=rows)  # type: ignore[arg-type]


def facts(setup: Setup) -> list[dict[str, Any]]:
    """The rows without what belongs to a single run."""
    own = ("ts", "call_id", "run_id", "source")
    return [{k: v for k, v in row.to_dict().items() if k not in own} for row in setup.rows.closed]


def test_a_replayed_call_is_the_recorded_one_with_all_its_attempts(connect: Connect, tmp_path: Path) -> None:
    live = record(connect, tmp_path, [error(429, "Rate limit"), reply("42", refusal=None)])
    answer = live.ask(temperature=0.8, sample=2)
    again = replay(fold(tmp_path))
    replayed = again.ask(temperature=0.8, sample=2)
    assert (replayed.text, replayed.finish_reason, replayed.model) == (answer.text, "stop", "test-model")
    assert (replayed.prompt_tokens, replayed.completion_tokens) == (10, 5)
    assert facts(again) == facts(live)
    assert [row.error_kind for row in again.rows.closed] == ["rate_limit", None]
    assert {row.source for row in again.rows.closed} == {"replay"}
    assert {row.run_id for row in again.rows.closed} == {"run-2"}


def test_the_sdks_clients_replay_too(connect: Connect, tmp_path: Path) -> None:
    live = record(connect, tmp_path, [reply("42"), stream(["4", "3"])])
    with tagged(TAG):
        live.create(temperature=0)
        assert [c.choices[0].delta.content for c in live.create(stream=True) if c.choices][:2] == ["4", "3"]
    again = replay(fold(tmp_path))
    with tagged(TAG):
        assert again.create(temperature=0).choices[0].message.content == "42"
        chunks = list(again.create(stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "43"
    assert [c.usage.total_tokens for c in chunks if c.usage] == [15]
    assert facts(again) == facts(live)


def test_what_was_never_recorded_is_an_error_that_says_how_to_record_it(connect: Connect, tmp_path: Path) -> None:
    record(connect, tmp_path).ask()
    again = replay(fold(tmp_path))
    with pytest.raises(NotRecordedError, match="never recorded") as caught:
        again.ask(temperature=0.123)
    assert "gpqa[rec01-baseline]" in str(caught.value)
    assert "`pytest evals --elo-record`" in str(caught.value)
    with tagged(TAG), pytest.raises(NotRecordedError) as through_sdk:
        again.create(temperature=0.123)
    assert isinstance(through_sdk.value, openai.OpenAIError)
    assert again.rows.closed == []


def test_identical_requests_of_an_item_replay_in_their_order(connect: Connect, tmp_path: Path) -> None:
    live = record(connect, tmp_path, [reply("first"), reply("second"), reply("third")])
    asked = [live.ask(seed=None).text for _ in range(3)]
    again = replay(fold(tmp_path))
    assert [again.ask(seed=None).text for _ in range(3)] == asked
    with pytest.raises(NotRecordedError):
        again.ask(seed=None)
    assert again.gateway.recordings is not None
    again.gateway.recordings.restart(TAG)
    assert again.ask(seed=None).text == "first"


def test_strategies_share_the_samples_they_ask_alike(connect: Connect, tmp_path: Path) -> None:
    live = record(connect, tmp_path)
    r3, r5 = Tag("gpqa", "rec01", "r3"), Tag("gpqa", "rec01", "r5")
    live.ask(r5, sample=1)
    again = replay(fold(tmp_path))
    assert again.ask(r3, sample=1).text == again.ask(r5, sample=1).text
    with pytest.raises(NotRecordedError):
        again.ask(r3, sample=2)


def test_a_refusal_that_is_the_models_doing_is_recorded(connect: Connect, tmp_path: Path) -> None:
    live = record(connect, tmp_path, [error(400, "too long", code="context_length_exceeded")])
    with pytest.raises(GatewayError):
        live.ask()
    again = replay(fold(tmp_path))
    with pytest.raises(GatewayError) as caught:
        again.ask()
    assert (caught.value.kind, caught.value.status) == ("context", "context_exceeded")
    assert facts(again) == facts(live)


def test_a_failure_of_the_gateway_is_not_recorded(connect: Connect, tmp_path: Path) -> None:
    live = record(connect, tmp_path, [error(401)])
    with pytest.raises(GatewayError):
        live.ask()
    assert merge(tmp_path / "shards", tmp_path / "recordings") == (0, 0)


def test_recordings_hold_no_prompt_no_header_and_no_key(connect: Connect, tmp_path: Path) -> None:
    def echo(request: Request) -> Any:
        return reply(f"you sent {request.headers['authorization']}")

    live = record(connect, tmp_path, echo)
    live.ask(messages=SECRET_PROMPT)
    text = "".join(path.read_text() for path in fold(tmp_path).iterdir())
    assert "you sent Bearer [key]" in text
    assert "Zanzibar" not in text
    assert "authorization" not in text


def test_a_recording_can_be_read_and_diffed(connect: Connect, tmp_path: Path) -> None:
    live = record(connect, tmp_path)
    for task, item in (("own", "b"), ("gpqa/physics", "a"), ("own", "a")):
        live.ask(Tag(task, item, "baseline"), messages=[{"role": "user", "content": item}])
    directory = fold(tmp_path)
    assert sorted(path.name for path in directory.iterdir()) == ["gpqa_physics.jsonl", MANIFEST, "own.jsonl"]
    lines = [json.loads(line) for line in (directory / "own.jsonl").read_text().splitlines()]
    assert [line["key"] for line in lines] == sorted(line["key"] for line in lines)
    assert {line["item_id"] for line in lines} == {"a", "b"}
    assert lines[0]["parameters"]["model"] == "test-model"
    assert lines[0]["body"]["choices"][0]["content"].startswith("echo")
    assert Manifest.read(directory) == MANIFEST_OF_TEST


def test_merging_depends_on_no_order_and_on_no_repetition(connect: Connect, tmp_path: Path) -> None:
    for number in range(3):
        recordings = Recordings(None, mode="record", shards=tmp_path / "shards")
        live = connect([reply(f"answer {number}")], recordings=recordings)
        live.ask(Tag("own", "same", "r3"))
        live.ask(Tag("own", f"other{number}", "r3"))
    shards = sorted((tmp_path / "shards").iterdir())
    assert len(shards) == 3
    assert merge(shards, tmp_path / "a") == merge(reversed(shards), tmp_path / "b") == (4, 0)
    once = (tmp_path / "a" / "own.jsonl").read_bytes()
    assert (tmp_path / "b" / "own.jsonl").read_bytes() == once
    merge(shards, tmp_path / "a")
    merge([], tmp_path / "a")
    assert (tmp_path / "a" / "own.jsonl").read_bytes() == once


def test_a_new_recording_replaces_the_old_line(connect: Connect, tmp_path: Path) -> None:
    for text in ("old", "new"):
        record(connect, tmp_path / text, [reply(text)]).ask()
        merge(tmp_path / text / "shards", tmp_path / "recordings")
    MANIFEST_OF_TEST.write(tmp_path / "recordings")
    assert replay(tmp_path / "recordings").ask().text == "new"


def test_a_torn_last_line_is_left_out_and_a_broken_one_named(connect: Connect, tmp_path: Path) -> None:
    live = record(connect, tmp_path)
    live.ask()
    (shard,) = (tmp_path / "shards").iterdir()
    whole = shard.read_bytes()
    shard.write_bytes(whole + whole[: len(whole) // 2])
    assert merge(tmp_path / "shards", tmp_path / "recordings") == (1, 0)
    shard.write_bytes(b"\0" * 40 + whole + whole[:50] + b"\n" + b"\0" * 30 + b"\n" + whole)
    assert merge(tmp_path / "shards", tmp_path / "recordings") == (1, 3)
    shard.write_bytes(whole + b'{"key": 1}\n')
    with pytest.raises(DataError, match=rf"{shard.name}:2 is not a recorded call"):
        merge(tmp_path / "shards", tmp_path / "recordings")


def test_a_process_holds_where_the_lines_stand_and_not_what_they_say(connect: Connect, tmp_path: Path) -> None:
    live = record(connect, tmp_path)
    for number in range(3):
        live.ask(Tag("own", f"held{number}", "baseline"), messages=[{"role": "user", "content": f"{number}"}])
    again = replay(fold(tmp_path))
    again.ask(Tag("own", "held1", "baseline"), messages=[{"role": "user", "content": "1"}])
    gc.collect()
    held = [thing for thing in gc.get_objects() if isinstance(thing, Recorded) and thing.item_id.startswith("held")]
    assert held == []
    (tmp_path / "recordings" / "own.jsonl").write_text("shorter\n")
    with pytest.raises(DataError, match=r"own\.jsonl, byte \d+ is not a recorded call"):
        again.ask(Tag("own", "held2", "baseline"), messages=[{"role": "user", "content": "2"}])


def test_a_directory_without_a_manifest_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no manifest\.json: record it with"):
        Recordings(tmp_path, mode="replay")
    with pytest.raises(ConfigError, match="need a directory for shards"):
        Recordings(tmp_path, mode="record")


def test_a_cache_buys_nothing_twice_not_even_after_a_crash(connect: Connect, tmp_path: Path) -> None:
    def cached(condition: str = "c0") -> Setup:
        return connect(recordings=Recordings(None, mode="cache", shards=tmp_path / "shards", condition=condition))

    first = cached()
    first.ask(sample=1)
    assert first.ask(Tag("gpqa", "rec01", "r5", condition="c0"), sample=1).text
    assert len(first.server.requests) == 1
    # another process of the same run, without any merge in between
    second = cached()
    second.ask(sample=1)
    second.ask(sample=2)
    assert len(second.server.requests) == 1
    # what the same item bought before is the same row again; the ledger folds the two into one
    assert second.rows.closed[0] == first.rows.closed[0]
    second.ask(Tag("gpqa", "rec01", "r7", condition="c0"), sample=1)
    assert [row.source for row in second.rows.closed] == ["live", "live", "replay"]
    other_condition = cached("c1")
    other_condition.ask(sample=1)
    assert len(other_condition.server.requests) == 1


def test_the_key_is_the_request_and_not_how_it_is_carried() -> None:
    body = {"model": "m", "messages": QUESTION, "temperature": 0.8, "seed": 1}
    same = {"seed": 1, "temperature": 0.8, "messages": QUESTION, "model": "m", "stream": True, "user": "me"}
    assert request_key("chat", body) == request_key("chat", same)
    others = [{**body, name: value} for name, value in (("seed", 2), ("temperature", 0.7), ("model", "n"))]
    keys = {
        request_key("chat", body),
        request_key("responses", body),
        *(request_key("chat", b) for b in others),
    }
    assert len(keys) == 5
    # the published keys of shipped recordings depend on this value
    assert request_key("chat", body) == "b86141d4ddde2205d6c06fbcf3cba3a4b8b68ece1a8a7448bbd0225f53c84545"


def test_other_apis_and_mean_logprobs_replay(connect: Connect, tmp_path: Path) -> None:
    tokens = [{"token": "4", "logprob": -0.25}, {"token": "2", "logprob": -0.75}]
    body = completion("42")
    body["choices"][0]["logprobs"] = {"content": tokens}
    embedded = {
        "object": "list",
        "model": "test-model",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}],
        "usage": {"prompt_tokens": 8, "total_tokens": 8},
    }

    def answer(request: Request) -> Response:
        chosen = embedded if request.path.endswith("/embeddings") else body
        return Response(body=json.dumps(chosen).encode())

    live = record(connect, tmp_path, answer)
    assert live.ask(logprobs=True).mean_logprob == -0.5
    with tagged(TAG):
        live.gateway.client().embeddings.create(model="test-model", input="x", encoding_format="float")
    again = replay(fold(tmp_path))
    assert again.ask(logprobs=True).mean_logprob == -0.5
    with tagged(TAG):
        vectors = again.gateway.client().embeddings.create(model="test-model", input="x", encoding_format="float")
    assert vectors.data[0].embedding == [0.5]
    assert facts(again) == facts(live)
