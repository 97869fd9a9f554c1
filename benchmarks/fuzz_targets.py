"""The readers that ``fuzz_readers.py`` breaks input for, and valid input for each."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

OWN_LINES = b"""{"system": "Be short.", "max_tokens": 9, "examples": [{"prompt": "1+1?", "reply": "2"}]}
{"id": "a", "prompt": "How many?", "numeric": {"value": 1.5, "tolerance": "2%"}}
{"id": "b", "prompt": "Which?", "exact": ["Paris", "Rome"], "max_tokens": 20}
{"id": "c", "prompt": "JSON?", "schema": {"type": "object", "properties": {"a": {"const": 1}}}}
"""
OWN = b"""
- id: rolls
  prompt: A baker fills 6 trays with 8 rolls each and sells 29. How many are left?
  numeric: 19
- {id: capital, prompt: "Capital of France?", exact: [Paris, paris]}
- id: words
  prompt: >
    Name two primes.
  contains: {share: ["2", "3"]}
- {id: pattern, prompt: "A date", regex: "[0-9]{4}-[0-9]{2}"}
- id: text
  prompt: Explain
  rubric: {criteria: ["is short", "is right"]}
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A reader and valid inputs for it; ``suffix`` is of the file it reads, ``None`` where it takes bytes."""

    name: str
    suffix: str | None
    read: Callable[[Any], object]
    seeds: list[bytes]
    cost: int = 1
    """How many times dearer a case is than most: so many fewer are tried."""


def targets() -> Iterator[Target]:
    yield from _settings()
    yield from _tasks()
    yield from _ledger()
    yield from _votes()
    yield from _gateway()
    yield from _swebench()
    yield from _replies()


def _settings() -> Iterator[Target]:
    from pytest_elo.config import load
    from pytest_elo.gates.language import parse

    articles = ROOT / "tests/data/articles"
    yield Target("elo.yaml", ".yaml", load, [(ROOT / "evals/elo.yaml").read_bytes()])
    yield Target("settings.json", ".json", load, [(articles / "settings.json").read_bytes()])
    yield Target("config.toml", ".toml", load, [(articles / "config.toml").read_bytes()])
    rules = [
        "gpqa/r3 score >= 0.45",
        "r3 not_worse_than main by 2 points",
        "verdict(r5) != HARMFUL",
        "no_answer <= 10%",
    ]
    yield Target("gate", None, lambda data: parse(_text(data), "here"), [rule.encode() for rule in rules])


def _tasks() -> Iterator[Target]:
    from pytest_elo.tasks import gpqa, own
    from pytest_elo.tasks.arena.prompts import read_prompts

    data = ROOT / "evals/data"
    yield Target("gpqa csv", ".csv", lambda path: _posed(gpqa.load(path)), [_head(data / "gpqa_questions.csv", 6000)])
    yield Target("own yaml", ".yaml", lambda path: _posed(own.load(path)), [OWN])
    yield Target("own json lines", ".jsonl", lambda path: _posed(own.load(path)), [OWN_LINES])
    yield Target("arena yaml", ".yaml", read_prompts, [(data / "arena_prompts.yaml").read_bytes()])


def _summed(path: Path) -> None:
    from pytest_elo.ledger.stream import Watch, read_sums
    from pytest_elo.ledger.totals import by_strategy, by_task_strategy, totals_of

    totals = totals_of(read_sums(path, lambda text: None, Watch({("t", "i", "baseline", 0)}, 9)))
    by_strategy(totals)
    by_task_strategy(totals)


def _joined(path: Path) -> None:
    from pytest_elo.ledger.merge import join

    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        run = Path(folder, "run")
        run.mkdir()
        for name in ("runs.jsonl", "outcomes.jsonl", "run.json"):
            (run / name).write_bytes(path.read_bytes() if name == "outcomes.jsonl" else b"")
        join([run], Path(folder, "out"))


def _ledger() -> Iterator[Target]:
    from pytest_elo.gateway.recordings import Manifest, Recordings
    from pytest_elo.ledger.fold import Ledger
    from pytest_elo.ledger.read import read_attempts, read_outcomes
    from pytest_elo.records import Attempt, Outcome

    row = Attempt(
        ts="2026-01-01T00:00:00.000Z", task_id="t", strategy="baseline", model="m", prompt_tokens=10,
        completion_tokens=5, total_tokens=15, latency_s=0.1, finish_reason="stop", call_id="c", item_id="i",
    )  # fmt: skip
    outcome = Outcome(task_id="t", item_id="i", strategy="baseline", model="m", repeat=0, status="correct", score=1.0)
    rows = (row.to_json() + "\n").encode() * 3
    yield Target("runs.jsonl", ".jsonl", lambda path: list(read_attempts(path, lambda text: None)), [rows])
    yield Target("runs.jsonl, sums", ".jsonl", _summed, [rows])
    lines = (outcome.to_json() + "\n").encode() * 3
    yield Target("outcomes.jsonl, joined", ".jsonl", _joined, [lines])
    yield Target("outcomes.jsonl", ".jsonl", lambda path: list(read_outcomes(path, lambda text: None)), [lines])
    events = json.dumps({"open": row.to_dict()}) + "\n" + json.dumps({"outcome": outcome.to_dict()}) + "\n"
    events += '{"kept":{"c":true}}\n{"expected":{"t":{"baseline":2}}}\n{"note":"n"}\n'
    yield Target("journal", None, lambda data: _folded(Ledger(), data), [events.encode()])
    recordings = sorted((ROOT / "evals/recordings").glob("*.jsonl"))[0]
    yield Target("recordings", ".jsonl", lambda path: _recorded(path, Recordings), [_head(recordings, 4000)])
    manifest = (ROOT / "evals/recordings/manifest.json").read_bytes()
    yield Target("manifest", ".json", lambda path: _manifest(path, Manifest.read), [manifest])


def _votes() -> Iterator[Target]:
    from pytest_elo.votes.imports import import_votes

    data = ROOT / "tests/data/votes"
    for path in sorted(path for path in data.iterdir() if "golden" not in path.name):
        yield Target(f"votes {path.name}", path.suffix, lambda file: import_votes([file]), [_head(path, 3000)])
    arena = {"question_id": "q", "model_a": "a", "model_b": "b", "winner": "model_a", "judge": "j", "turn": 1}
    arena |= {"conversation_a": [{"role": "user", "content": "x"}], "language": "English", "tstamp": 1.0}
    yield Target("votes lmsys", ".json", lambda file: import_votes([file]), [json.dumps([arena, arena]).encode()])
    alpaca = {"instruction": "x", "generator_1": "a", "generator_2": "b", "preference": 1.5, "output_1": "# A"}
    pandalm = {"idx": 1, "cmp_key": "a_b", "annotator1": 1, "annotator2": 0, "response1": "x", "response2": "y"}
    style = {"chars": 9, "bold": 1}
    native = {"task_id": "t", "item_id": "i", "a": "x", "b": "y", "winner": "a", "judge": "j", "kind": "model", "v": 1}
    native |= {"style_a": style, "panel": ["p"], "marks": ["m"], "turn": 2, "placed": False, "ts": "2026-01-01"}
    graded = native | {"winner": "graded", "graded_share": 0.7}
    for name, suffix, rows in (
        ("alpaca", ".json", [alpaca, alpaca | {"preference": None}]),
        ("pandalm", ".json", [pandalm]),
        ("ours", ".jsonl", [native, graded]),
    ):
        text = json.dumps(rows) if suffix == ".json" else "\n".join(map(json.dumps, rows))
        yield Target(f"votes {name}", suffix, lambda file: import_votes([file]), [text.encode()])
    kaggle = b"id,model_a,model_b,response_a,response_b,winner_model_a,winner_model_b,winner_tie\n"
    kaggle += b'1,a,b,"[""x""]","[""# y""]",1,0,0\n'
    yield Target("votes kaggle", ".csv", lambda file: import_votes([file]), [kaggle])
    pairs = json.dumps({"t": [["a", "b"], ["b", "a"]]}).encode()
    yield Target("votes pairwise.json", ".json", lambda file: import_votes([file]), [pairs])


def _gateway() -> Iterator[Target]:
    from pytest_elo.gateway.reading import read_response
    from pytest_elo.gateway.stream import StreamReader

    message = {"role": "assistant", "content": "ANSWER: A", "reasoning_content": "hm", "tool_calls": []}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    usage |= {"prompt_tokens_details": {"cached_tokens": 2}, "completion_tokens_details": {"reasoning_tokens": 1}}
    body = {"id": "x", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    whole = json.dumps(body | {"usage": usage}).encode()
    error = b'{"error": {"message": "Rate limit reached", "type": "rate_limit", "code": "rate_limit_exceeded"}}'
    for api in ("chat", "responses", "other"):
        yield Target(
            f"response {api}",
            None,
            lambda data, api=api: read_response(api, 200, "application/json", data),
            [whole, error, b"<html>no</html>"],
        )
    delta = {"choices": [{"index": 0, "delta": {"content": "A"}, "finish_reason": None}], "model": "m"}
    chunk = b"data: " + json.dumps(delta).encode() + b"\n\n"
    end = b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n"

    def streamed(data: bytes) -> object:
        reader = StreamReader("chat", 200)
        for start in range(0, len(data), 97):
            reader.feed(data[start : start + 97])
        return reader.reading(), reader.assembled()

    yield Target("sse", None, streamed, [chunk * 3 + b": keep-alive\n\n" + end])


def _swebench() -> Iterator[Target]:
    from pytest_elo.tasks.swebench.diffs import named_paths, read_changes
    from pytest_elo.tasks.swebench.logparsers import PARSERS
    from pytest_elo.tasks.swebench.patches import prepare, refusal
    from pytest_elo.tasks.swebench.predictions import read_predictions
    from pytest_elo.tasks.swebench.rows import load_instances

    data = ROOT / "evals/data/swebench"
    predictions = sorted((data / "predictions").iterdir())[0]
    yield Target("predictions", predictions.suffix, read_predictions, [_head(predictions, 4000)])
    instances = (data / "instances.jsonl").read_bytes().splitlines(keepends=True)[0]
    yield Target("instances", ".jsonl", load_instances, [instances])
    patch = json.loads(instances)["patch"].encode()

    def patched(raw: bytes) -> object:
        diff = _text(raw)
        return prepare(diff, generated=True), refusal(diff), read_changes(diff), named_paths(diff)

    yield Target("patch", None, patched, [patch, b"```diff\n" + patch + b"```\n"])
    log = b"PASSED tests/test_a.py::test_x\nFAILED tests/test_a.py::test_y - assert 0\ntest_z (m.T) ... ok\n1 passed\n"

    def parsed(raw: bytes) -> object:
        return [parse(_text(raw)) for parse in PARSERS.values()]

    yield Target("logs", None, parsed, [log * 3])


def _replies() -> Iterator[Target]:
    from pytest_elo.records import Reply
    from pytest_elo.tasks.arena.verdict import mask_verdicts, read_verdict
    from pytest_elo.tasks.parsing import lenient_letter, strict_letter, unanswered

    def answered(raw: bytes) -> object:
        text = _text(raw)
        reply = Reply(text=text, finish_reason="stop", call_id="c")
        return strict_letter(text), lenient_letter(text), unanswered(reply), read_verdict(reply), mask_verdicts(text)

    yield Target("replies", None, answered, [b"I think so.\nANSWER: B", b"The first is better. [[A]]", b"\\boxed{C}"])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _head(path: Path, size: int) -> bytes:
    data = path.read_bytes()[:size]
    return data[: data.rfind(b"\n") + 1] if path.suffix != ".json" else path.read_bytes()


def _posed(task: Any) -> object:
    return [task.pose(item_id, 0) for item_id in task.item_ids[:2]]


def _folded(ledger: Any, data: bytes) -> object:
    ledger.add_lines(_text(data))
    return list(ledger.attempts()), list(ledger.outcomes())


def _recorded(path: Path, recordings: Any) -> object:
    folder = path.parent / "recordings"
    folder.mkdir(exist_ok=True)
    path.replace(folder / "t.jsonl")
    (folder / "manifest.json").write_text('{"v": 1, "model": "m", "host": "h", "date": "2026-01-01"}')
    return len(recordings(folder, mode="replay"))


def _manifest(path: Path, read: Callable[[Path], object]) -> object:
    folder = path.parent / "manifest"
    folder.mkdir(exist_ok=True)
    path.replace(folder / "manifest.json")
    return read(folder)
