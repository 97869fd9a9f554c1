"""Predictions: patches that other agents made, read with line numbers, and ours, written the official way."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_elo._parse import parse_json
from pytest_elo.errors import DataError

__all__ = ["Prediction", "read_predictions", "write_predictions"]


@dataclass(frozen=True, slots=True)
class Prediction:
    """One patch for one instance; ``patch`` is empty when the agent gave none."""

    instance_id: str
    model: str
    patch: str

    def to_dict(self) -> dict[str, str]:
        return {
            "instance_id": self.instance_id,
            "model_name_or_path": self.model,
            "model_patch": self.patch,
        }


def read_predictions(path: Path, known: Collection[str] | None = None) -> dict[str, Prediction]:
    """Predictions by instance id from ``.jsonl`` (one a line), or ``.json`` (a list, or an object by id).

    Args:
        known: the ids that exist; any other is an error.

    Raises:
        DataError: naming file and line (or entry): no object, a missing key, an id twice (the official
            harness silently takes the last), an unknown id.
    """
    found: dict[str, Prediction] = {}
    for where, value in _entries(path):
        prediction = _prediction(value, where)
        if prediction.instance_id in found:
            raise DataError(f"{where}: a second prediction for {prediction.instance_id!r}; keep one of them")
        if known is not None and prediction.instance_id not in known:
            raise DataError(f"{where}: instance {prediction.instance_id!r} is not in the dataset")
        found[prediction.instance_id] = prediction
    if not found:
        raise DataError(f"{path}: holds no prediction")
    return found


def write_predictions(path: Path, predictions: Iterable[Prediction]) -> None:
    """``all_preds.jsonl``, which the official harness grades again."""
    lines = [json.dumps(prediction.to_dict()) + "\n" for prediction in predictions]
    path.write_text("".join(lines), encoding="utf-8")


def _entries(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield f"{path}:{number}", _loads(line, f"{path}:{number}")
        return
    values = _loads(text, str(path))
    if isinstance(values, dict):
        for key, value in values.items():
            if isinstance(value, dict):
                value = {"instance_id": key, **value}
            yield f"{path}: entry {key!r}", value
    elif isinstance(values, list):
        for number, value in enumerate(values, 1):
            yield f"{path}: entry {number}", value
    else:
        raise DataError(f"{path}: expected a list of predictions or an object by instance id")


def _loads(text: str, where: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise DataError(f"{where}: not valid JSON ({error})") from None


def _prediction(value: Any, where: str) -> Prediction:
    if not isinstance(value, dict):
        raise DataError(f"{where}: a prediction must be an object")
    for key in ("instance_id", "model_patch"):
        if key not in value:
            raise DataError(f"{where}: key {key!r} is missing")
    patch = value["model_patch"]
    if patch is not None and not isinstance(patch, str):
        raise DataError(f"{where}: key 'model_patch' must be a text or null")
    return Prediction(
        instance_id=str(value["instance_id"]),
        model=str(value.get("model_name_or_path") or "unknown"),
        patch=patch or "",
    )
