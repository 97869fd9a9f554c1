"""The readers of what runs, providers, clients and other programs wrote; see ``fuzz_targets.py``."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.fuzz_targets import ROOT, Target

CLAUDE = b'{"env": {"ANTHROPIC_BASE_URL": "https://g.test/v1?utm_x=a", "A": 1}, "permissions": {"allow": ["Read"]}}'
CODEX = b"""model = "m"
model_provider = "old"
[model_providers.old]
name = "old"
base_url = "https://g.test/v1"
env_key = "OLD_KEY"
wire_api = "chat"
[projects."/tmp/a"]
trust_level = "trusted"
"""
CLINE = b'{"openAiBaseUrl": "https://g.test/v1", "openAiApiKey": "x", "other": {"a": [1]}}'
SWITCH = b'{"activeProvider": "a", "providers": [{"name": "a", "baseUrl": "https://u:p@g.test/v1#x"}, {"name": "b"}]}'
BILL = b"""date,model,input_tokens,cache_read_input_tokens,output_tokens,num_model_requests,tag
2026-01-01,m,"1,000",20,30,2,r3
2026-01-01T23:59:59Z,m,7,,9,1,baseline
1767225600,m,0,0,0,0,
"""
BASELINE = b"""{"v": 1, "baseline": "main", "models": ["m"], "endpoint": "h", "seed": 0, "started": "2026-01-01", \
"prices_date": "2026-01-01", "answers": "live", "strategies": {"r3": {"kind": "vote", "n": 3}}}
{"task": "t", "item": "i", "prompt": "0a", "grading": "0b", "strategies": {"r3": [[1, 0.5], 2410, 0.1], "b": [0, 9]}}
{"task": "t", "item": "j", "prompt": "", "grading": "", "strategies": {"r3": [1, 2410.5]}}
"""
MAPPING = b"""columns: {item_id: task, repeat: run, score: solved}
anchor: simple
ladders: [[simple, retry]]
groups:
  - {task: t, strategy: simple, where: {strategy: simple}}
  - {task: t, strategy: retry, where: {strategy: retry}, add: {strategy: simple}, because: it was left out}
"""
CALLS = b"""strategy,run,task,prompt_tokens,completion_tokens,latency_s,model
simple,1,HumanEval/1,10,5,0.5,m
simple,2,HumanEval/1,10,5,,m
retry,1,HumanEval/1,10,7,1e-3,m
"""
SOLVED = b"""strategy,run,task,solved,model
simple,1,HumanEval/1,1,m
simple,2,HumanEval/1,0,m
retry,1,HumanEval/1,0.5,m
"""
TEMPLATE = b"""Judge well.
---
{prompt}
{answer_a}
{answer_b}
{reference}{rubric}
Say [[A]], [[B]] or [[C]]; {{ and }} are braces.
"""


def more_targets() -> Iterator[Target]:
    yield from _clients()
    yield from _books()
    yield from _runs()
    yield from _binaries()
    yield from _programs()
    yield from _benchmark()


def _clients() -> Iterator[Target]:
    from pytest_elo.session.client_config import Provider, client_files
    from pytest_elo.session.client_files import check_clients

    provider = Provider(name="gateway", base_url="https://g.test/v1", key_variable="KEY", model="m")

    def at_home(place: str) -> Callable[[Path], object]:
        def read(path: Path) -> object:
            home = _folder(path.parent / "home")
            (home / place).parent.mkdir(parents=True)
            path.replace(home / place)
            complaints = list(check_clients(home, home / "none", "g.test", {}))
            return complaints, list(client_files(provider, home))

        return read

    yield Target("claude settings.json", ".json", at_home(".claude/settings.json"), [CLAUDE])
    yield Target("codex config.toml", ".toml", at_home(".codex/config.toml"), [CODEX])
    yield Target("cline globalState.json", ".json", at_home(".cline/data/globalState.json"), [CLINE])
    yield Target("cc-switch config.json", ".json", at_home(".cc-switch/config.json"), [SWITCH])


def _books() -> Iterator[Target]:
    from pytest_elo.gates.baseline import dump, load
    from pytest_elo.gates.changes import changes
    from pytest_elo.gates.pairing import require_comparable
    from pytest_elo.ledger.import_runs import import_runs
    from pytest_elo.report.usage_export import read_billed

    yield Target("bill", ".csv", lambda path: read_billed(str(path)), [BILL])

    def compared(path: Path) -> object:
        valid = path.with_name("valid.jsonl")
        valid.write_bytes(BASELINE)
        ours, theirs = load(valid, "ours"), load(path, "theirs")
        dump(theirs)
        return require_comparable(ours, theirs, ("model", "endpoint", "seed", "grading")), changes(ours, theirs, 0.95)

    yield Target("baseline", ".jsonl", compared, [BASELINE])

    def imported(broken: str) -> Callable[[Path], object]:
        def read(path: Path) -> object:
            folder = _folder(path.parent / "imported")
            files = {"calls.csv": CALLS, "outcomes.csv": SOLVED, "mapping.yaml": MAPPING}
            for name, content in files.items():
                (folder / name).write_bytes(content)
            path.replace(folder / broken)
            return import_runs(*(folder / name for name in files), folder / "out")

        return read

    yield Target("import-runs calls", ".csv", imported("calls.csv"), [CALLS], cost=5)
    yield Target("import-runs outcomes", ".csv", imported("outcomes.csv"), [SOLVED], cost=5)
    yield Target("import-runs mapping", ".yaml", imported("mapping.yaml"), [MAPPING], cost=5)


def run_files() -> dict[str, bytes]:
    """A small run with everything a report reads: rows, outcomes, an arena's contests and votes, gates, replies."""
    from pytest_elo.records import Attempt, Outcome
    from pytest_elo.votes.records import Vote

    rows, outcomes, replies = [], [], []
    for task in ("t", "arena"):
        for item in ("i", "j"):
            for strategy in ("baseline", "r3"):
                place: dict[str, Any] = {"task_id": task, "item_id": item, "strategy": strategy, "model": "m"}
                call = f"{task}{item}{strategy}"
                tokens = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "total_tokens_high": 15}
                seen = {"ts": "2026-01-01T00:00:00.000Z", "latency_s": 0.1, "finish_reason": "stop", "status": "ok"}
                seen |= {"parameters": {"temperature": 0.5, "stop": ["x"]}}
                rows.append(Attempt(call_id=call, **place, **tokens, **seen))
                status = "answered" if task == "arena" else "wrong" if strategy == "baseline" else "correct"
                graded = {"status": status, "score": float(status == "correct"), "output": f"{call} [[A]]"}
                graded |= {"call_ids": (call,), "condition": "c", "marks": ("unscored",) if task == "arena" else ()}
                graded |= {"scores": {"strict": 1.0}, "expected": "A", "answer": "B"}
                outcomes.append(Outcome(repeat=0, **place, **graded))
                body = {"choices": [{"content": "text"}]}
                replies.append({"key": "k", "body": body, "purchase": {"call_id": call}})
    sides = {"task_id": "arena", "judge": "j", "kind": "model", "turn": 1, "ts": "2026-01-01T00:00:00.000000Z"}
    votes = [
        Vote(item_id=item, a=a, b=b, winner=winner, style_a={"chars": 9}, **sides)
        for item, winner in (("i", "a"), ("j", "tie"))
        for a, b in (("baseline", "r3"), ("r3", "baseline"))
    ]
    contests = [
        {"task_id": "arena", "item_id": item, "repeat": 0, "prompt": "p", "plan": "all", "pairs": [["baseline", "r3"]]}
        for item in ("i", "j")
    ]
    header = {
        "v": 1, "model": "m", "host": "h", "anchor": "baseline", "ladders": [["baseline", "r3"]], "answers": "live",
        "mode": "live", "notes": ["n"], "rating": {"ties": "half", "rounds": 100, "online_k": 8}, "seed": 0,
        "prices": {"date": "2026-01-01", "models": {"m": {"prompt": 1.0, "completion": 2.0}}},
        "strategies": {"baseline": {"kind": "single"}, "r3": {"kind": "vote", "n": 3}},
    }  # fmt: skip
    gates = {"v": 1, "gates": [{"gate": "r3 score >= 0.1", "answer": "pass", "found": "0.5"}]}
    return {
        "runs.jsonl": _lines(row.to_dict() for row in rows),
        "outcomes.jsonl": _lines(outcome.to_dict() for outcome in outcomes),
        "votes.jsonl": _lines(vote.to_dict() for vote in votes),
        "contests.jsonl": _lines(contests),
        "run.json": json.dumps(header).encode(),
        "gates.json": json.dumps(gates).encode(),
        "responses/recorded-1.jsonl": _lines(replies),
    }


def _runs() -> Iterator[Target]:
    from pytest_elo.gates.snapshot import snapshot_of
    from pytest_elo.report.build import build
    from pytest_elo.report.files import write_files
    from pytest_elo.report.table import lines
    from pytest_elo.votes.page.ballots import read_ballots

    files = run_files()

    def reported(broken: str) -> Callable[[Path], object]:
        def read(path: Path) -> object:
            run = _folder(path.parent / "run")
            (run / "responses").mkdir()
            for name, content in files.items():
                (run / name).write_bytes(content)
            path.replace(run / broken)
            report = build(run)
            write_files(report, run, with_page=False)
            snapshot_of("main", report.header, report.outcomes, report.totals)
            return lines(report)

        return read

    for name, content in files.items():
        yield Target(f"report, {Path(name).name}", Path(name).suffix, reported(name), [content], cost=30)

    def voted(path: Path) -> object:
        path.replace(_folder(path.parent / "ballots") / "ballots.jsonl")
        return read_ballots(path.parent / "ballots")

    ballot = {"task_id": "t", "item_id": "i", "prompt": "p", "a": "x", "b": "y", "answer_a": "1", "answer_b": "2"}
    yield Target("ballots", ".jsonl", voted, [_lines([ballot, ballot | {"item_id": "j", "repeat": 1}])])


def _binaries() -> Iterator[Target]:
    from pytest_elo.ledger.read import read_attempts
    from pytest_elo.tasks.swebench.rows import load_instances
    from pytest_elo.votes.imports import import_votes

    rows = run_files()["runs.jsonl"]

    def attempts(path: Path) -> object:
        return list(read_attempts(path, lambda text: None))

    yield Target("runs.jsonl.gz", ".gz", attempts, [gzip.compress(rows, mtime=0)])
    try:
        import zstandard
    except ImportError:
        pass
    else:
        yield Target("runs.jsonl.zst", ".zst", attempts, [zstandard.compress(rows)])
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return
    vote = {"question_id": "q", "model_a": "a", "model_b": "b", "winner": "model_a", "judge": "j", "turn": 1}
    instance = json.loads((ROOT / "evals/data/swebench/instances.jsonl").read_bytes().splitlines()[0])
    for name, records, read in (
        ("votes", [vote, vote], lambda path: import_votes([path])),
        ("instances", [instance], load_instances),
    ):
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), sink)
        yield Target(f"{name}.parquet", ".parquet", read, [sink.getvalue().to_pybytes()], cost=5)


def _programs() -> Iterator[Target]:
    from pytest_elo.gateway.models import MODELS_VARIABLE, chosen
    from pytest_elo.gateway.proxy.forward import without_secret, without_usage
    from pytest_elo.gateway.reading import read_response
    from pytest_elo.gateway.stream import StreamReader

    text = {"type": "text", "text": "ANSWER: A"}
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 2}
    message = {"type": "message", "role": "assistant", "content": [text], "stop_reason": "end_turn", "usage": usage}
    said = {"type": "output_text", "text": "A"}
    response = {"status": "completed", "output": [{"type": "message", "content": [said]}], "usage": usage, "model": "m"}
    legacy = {"choices": [{"text": "A", "finish_reason": "stop", "logprobs": {"token_logprobs": [-1.0]}}]}
    whole = {"messages": message, "responses": response, "completions": legacy, "embeddings": {"data": [{}]}}
    for api, body in whole.items():
        seeds = [
            json.dumps(body).encode(),
            b'{"type": "error", "error": {"type": "overloaded_error", "message": "no"}}',
        ]
        yield Target(
            f"response {api}", None, lambda data, api=api: read_response(api, 200, "application/json", data), seeds
        )
    events = {
        "messages": [
            {"type": "message_start", "message": {"model": "m", "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "A"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ],
        "responses": [
            {"type": "response.output_text.delta", "delta": "A", "item_id": "x"},
            {"type": "response.completed", "response": response},
        ],
        "completions": [legacy, {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}],
    }

    def streamed(api: str) -> Callable[[bytes], object]:
        def read(data: bytes) -> object:
            reader = StreamReader(api, 200)
            for chunk in _cut(data):
                reader.feed(chunk)
            return reader.reading(), reader.assembled()

        return read

    for api, sent in events.items():
        yield Target(f"sse {api}", None, streamed(api), [_events(sent)])

    async def relayed(data: bytes) -> bytes:
        async def chunks() -> AsyncIterator[bytes]:
            for chunk in _cut(data):
                yield chunk

        return b"".join([chunk async for chunk in without_secret(without_usage(chunks()), b"sk-secret")])

    chat = [{"choices": [{"delta": {"content": "sk-secret"}}]}, {"choices": [], "usage": {"prompt_tokens": 1}}]
    yield Target("sse relayed", None, lambda data: asyncio.run(relayed(data)), [_events(chat)], cost=3)

    def remembered(path: Path) -> object:
        folder = _folder(path.parent / "models")
        path.replace(folder / "chosen.json")
        os.environ[MODELS_VARIABLE] = str(folder)
        return chosen()

    model = Path(os.devnull).with_name("shm") / "fuzz-model.gguf" if Path("/dev/shm").is_dir() else None
    if model is not None:
        model.write_bytes(b"GGUF")
        facts = {"path": str(model), "sha256": "0" * 64, "size_bytes": 4, "mtime_ns": model.stat().st_mtime_ns}
        yield Target("chosen.json", ".json", remembered, [json.dumps(facts).encode()])


def _benchmark() -> Iterator[Target]:
    from pytest_elo.tasks import own
    from pytest_elo.tasks.arena.template import JudgeTemplate
    from pytest_elo.tasks.swebench.local.archives import read_archive
    from pytest_elo.tasks.swebench.local.environments import known_specs
    from pytest_elo.tasks.swebench.reports import ReportRunner
    from pytest_elo.tasks.swebench.rows import load_instances

    data = ROOT / "evals/data/swebench"
    yield Target("environments.json", ".json", known_specs, [(data / "environments.json").read_bytes()])
    archive = sorted((data / "repositories").iterdir())[0]
    yield Target("archive", archive.suffix, read_archive, [archive.read_bytes()[:6000]])
    yield Target("judge template", ".txt", JudgeTemplate.read, [TEMPLATE])
    instance = next(iter(load_instances(data / "instances.jsonl")))
    tests = {"FAIL_TO_PASS": {"success": ["a"], "failure": []}, "PASS_TO_PASS": {"success": [], "failure": ["b"]}}
    entry = {"patch_exists": True, "patch_successfully_applied": True, "resolved": False, "tests_status": tests}
    single = json.dumps({instance.instance_id: entry}).encode()
    summary = json.dumps({"resolved_ids": [instance.instance_id], "unresolved_ids": ["x"], "error_ids": []}).encode()

    def judged(path: Path) -> object:
        return ReportRunner(path).evaluate(instance, "", generated=True)

    yield Target("report.json", ".json", judged, [single, summary])

    def with_schema(path: Path) -> object:
        folder = _folder(path.parent / "schema")
        path.replace(folder / "schema.json")
        (folder / "own.yaml").write_text("- {id: a, prompt: p, schema: schema.json}\n")
        task = own.load(folder / "own.yaml")
        return task.pose(task.item_ids[0], 0)

    schema = {"type": "object", "required": ["a"], "properties": {"a": {"enum": [1, "x"]}, "b": {"$ref": "#/$defs/c"}}}
    yield Target(
        "schema.json",
        ".json",
        with_schema,
        [json.dumps(schema | {"$defs": {"c": {"type": "string"}}}).encode()],
        cost=5,
    )


def _folder(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def _lines(records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _events(events: list[Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"


def _cut(data: bytes) -> Iterator[bytes]:
    return (data[start : start + 97] for start in range(0, len(data), 97))
