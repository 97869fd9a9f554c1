"""Evaluations on disk: one compressed file each, named by everything the verdict depends on."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.tasks.swebench.grading import GRADER_VERSION
from pytest_elo.tasks.swebench.locks import exclusive, slot
from pytest_elo.tasks.swebench.runner import Evaluation

__all__ = ["cached_evaluation"]


def cached_evaluation(
    folder: Path, parts: Sequence[Any], run: Callable[[], Evaluation], max_workers: int
) -> Evaluation:
    """The evaluation kept under ``parts``, or ``run()``'s, which is then kept.

    Equal requests of several threads or processes wait for the first instead of running too, and at most
    ``max_workers`` of all processes with this folder run at a time. Timeouts are not
    kept: a busy machine may have caused them. The grader's version is part of every key.
    """
    key = hashlib.sha256(json.dumps([GRADER_VERSION, *parts]).encode()).hexdigest()[:32]
    path = folder / key[:2] / f"{key}.json.gz"
    with exclusive(path.with_suffix(".lock")):
        if path.is_file():
            return Evaluation.from_dict(parse_json(gzip.decompress(path.read_bytes())))
        with slot(folder / "running", max_workers):
            evaluation = run()
        if evaluation.verdict.reason != "timeout":
            partial = path.with_suffix(".partial")
            partial.write_bytes(gzip.compress(json.dumps(evaluation.to_dict()).encode(), mtime=0))
            partial.rename(path)
    return evaluation
