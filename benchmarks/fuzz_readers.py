"""Feed every reader broken input: no traceback, nothing that takes over a second, no more than 500 MB.

Starts from valid files and texts, breaks them (flipped and deleted bytes, repeated and spliced parts, hostile
words) and gives them to the reader. A reader may take them or refuse them with one clear ``EloError``; whatever else
it raises is kept in a file and printed.

    python benchmarks/fuzz_readers.py --cases 1000000
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.fuzz_more_targets import more_targets  # noqa: E402
from benchmarks.fuzz_targets import Target, targets  # noqa: E402
from pytest_elo.errors import EloError  # noqa: E402

SLOW_S = 1.0
WORDS = [
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\r",
    b"\n\n",
    b"'",
    b'"',
    b"`",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[" * 300,
    b"{" * 300,
    b'{"a":' * 300,
    b"[" * 900 + b"]" * 900,
    b"[" * 30_000,
    b"[" * 30_000 + b"]" * 30_000,
    b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    b"- " * 3_000,
    b"a." * 3_000,
    b"2026-99-99",
    b"!!bool x",
    b"!!int ''",
    b"!!timestamp x",
    b"!!float x",
    b"!!set [a]",
    b"!!binary x",
    b"!!omap x",
    b".inf",
    b"http://[",
    b"http://127.0.0.1:99999/",
    b"~nobody/x",
    b"null",
    b"true",
    b"NaN",
    b"Infinity",
    b"-1",
    b"1e999",
    b"9" * 400,
    b"0x1F",
    b"\\ud800",
    b"\\u0000",
    "\u202e\u2028".encode(),
    "\N{ZERO WIDTH SPACE}\N{FULLWIDTH LATIN CAPITAL LETTER A}".encode(),
    b"!!python/object/apply:os.system [id]",
    b"&a [*a, *a]",
    b"<<: *a",
    b"? ",
    b"- ",
    b": ",
    b"../../etc/passwd",
    b"/etc/passwd",
    b".git/config",
    b"\x1b[2J",
    b"=cmd|' /C calc'!A0",
    b"<script>alert(1)</script>",
    b"a" * 5000,
    b"(a+)+$",
    b"%s%n",
    b"${env:HOME}",
    b"data: ",
    b"diff --git a/x b/x\n",
    b"--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n",
    b"@@ -99999999999,0 +1 @@",
    b"```",
    b"ANSWER: A",
    b"[[A]]",
    b"PASSED tests/a.py::b",
    b",",
    b";",
    b"\t",
    b" " * 2000,
]

VALUES: list[Any] = [
    None, True, False, 0, -1, 2, 10**20, -(10**20), 0.5, 1e308, float("nan"), float("inf"), "", "x", "1", "a\ud800b",
    "a\0b", "\n", "a" * 5000, "2026-99-99", [], {}, [[]], [None], ["x", 1], [1, 2, 3], {"a": []}, {"": None},
]  # fmt: skip


def retyped(rng: random.Random, data: bytes) -> bytes:
    """``data`` with one value of one of its JSON lines (or of the whole) replaced, left out or put in."""
    lines = data.split(b"\n")
    chosen = rng.randrange(len(lines))
    mark = b"data: " if lines[chosen].startswith(b"data: ") else b""
    for number, text in ((None, data), (chosen, lines[chosen].removeprefix(mark))):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            continue
        places: list[tuple[Any, Any]] = []
        waiting = [document]
        while waiting:
            value = waiting.pop()
            inner = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
            places += [(value, key) for key, _ in inner]
            waiting += [member for _, member in inner if isinstance(member, dict | list)]
        if not places:
            continue
        value, key = rng.choice(places)
        if rng.randrange(6) == 0:
            del value[key]
        else:
            value[key] = rng.choice(VALUES)
        changed = json.dumps(document).encode()
        if number is None:
            return changed
        lines[number] = mark + changed
        return b"\n".join(lines)
    return data


def broken(rng: random.Random, seeds: list[bytes]) -> bytes:
    """One of the seeds, damaged in one to six places, or with a JSON value that is another."""
    data = bytearray(rng.choice(seeds))
    if rng.randrange(3) == 0:
        data = bytearray(retyped(rng, bytes(data)))
        if rng.randrange(4):
            return bytes(data)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        at = rng.randrange(len(data) + 1)
        to = min(len(data), at + rng.choice((1, 2, 8, 64, 512)))
        way = rng.randrange(7)
        if way == 0:
            data[at:at] = rng.choice(WORDS)
        elif way == 1:
            data[at:to] = rng.choice(WORDS)
        elif way == 2:
            del data[at:to]
        elif way == 3:
            data[at:at] = data[at:to] * rng.choice((1, 2, 20))
        elif way == 4 and at < len(data):
            data[at] = rng.randrange(256)
        elif way == 5:
            other = rng.choice(seeds)
            cut = rng.randrange(len(other) + 1)
            data[at:] = other[cut:]
        else:
            del data[at:]
    return bytes(data[:200_000])


class Hang(BaseException):
    pass


def _hang(number: int, frame: FrameType | None) -> None:
    raise Hang


def fuzz(target: Target, cases: int, rng: random.Random, folder: Path, kept: Path) -> list[str]:
    """What went wrong, one line a distinct place."""
    path = folder / f"case{target.suffix or ''}"
    for seed in target.seeds:  # a reader that refuses its own valid input would make every case vacuous
        try:
            target.read(_argument(target, seed, path))
        except EloError as error:
            raise SystemExit(f"{target.name}: the valid input is refused: {error}") from None
    wrong: dict[str, str] = {}
    for _ in range(cases):
        data = broken(rng, target.seeds)
        argument = _argument(target, data, path)
        signal.setitimer(signal.ITIMER_REAL, 20 * SLOW_S)
        started = time.process_time()
        try:
            target.read(argument)
        except EloError as error:
            told = str(error)
            if "\n" in told.strip() or not told:
                wrong.setdefault("an error of several lines", _keep(kept, target, data, told))
        except (Exception, Hang) as error:
            frames = traceback.extract_tb(error.__traceback__)
            place = next((f for f in reversed(frames) if "pytest_elo" in f.filename), frames[-1])
            key = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
            if key not in wrong:
                wrong[key] = _keep(kept, target, data, f"{error!r}"[:200])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        took = time.process_time() - started
        if took > SLOW_S and "slow" not in wrong:
            wrong["slow"] = _keep(kept, target, data, f"{took:.1f} s")
    return [f"{target.name}: {key}: {told}" for key, told in wrong.items()]


def _argument(target: Target, data: bytes, path: Path) -> object:
    if target.suffix is None:
        return data
    path.write_bytes(data)
    return path


def _keep(kept: Path, target: Target, data: bytes, told: str) -> str:
    kept.mkdir(exist_ok=True)
    path = kept / f"{target.name.replace(' ', '-')}-{abs(hash(data)) % 10**8}{target.suffix or '.bin'}"
    path.write_bytes(data)
    return f"{told} ({path})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _hang)
    faulthandler.enable()  # what ends the interpreter names its place
    chosen = [target for target in (*targets(), *more_targets()) if not options.only or target.name in options.only]
    share = options.cases / sum(1 / target.cost for target in chosen)
    wrong: list[str] = []
    total = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        for target in chosen:
            started = time.process_time()
            cases = max(1, int(share / target.cost))
            found = fuzz(target, cases, random.Random(f"{options.seed}/{target.name}"), Path(folder), options.keep)
            wrong += found
            total += cases
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{target.name:<40}{cases:>9,} cases {time.process_time() - started:8.1f} s {peak:6.0f} MB", flush=True
            )
            print("".join(f"  {line}\n" for line in found), end="", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{total:,} cases, {len(wrong)} kinds of failure, peak {peak:.0f} MB")
    if wrong or peak > 500:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
