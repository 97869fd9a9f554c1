"""``pytest-elo embed``: what it does and says. Options are parsed by the command line, not here."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TextIO

from pytest_elo.gateway.fetch import fetch, source_of
from pytest_elo.gateway.models import (
    CATALOGUE,
    CatalogueModel,
    ModelFile,
    choose,
    find,
    megabytes,
    models_directory,
    verify,
)

__all__ = ["embed"]

_TERMINAL_EVERY_S = 0.2
_LOG_EVERY = 0.1


def embed(name: str | None = None, *, model_file: str | None = None, out: TextIO | None = None) -> int:
    """Fetch or verify a model and remember it for ``--elo-model embedded``; with neither, list the models.

    Returns the exit code 0; what goes wrong is raised as the ``EloError`` to print.

    Raises:
        ConfigError, DataError: see ``find``, ``fetch``, ``verify`` and ``choose``.
        FetchError: the source could not be reached or did not deliver.
    """
    out = out or sys.stdout
    if model_file is not None:
        model = _verified(Path(model_file), out)
    elif name is not None:
        model = _fetched(find(name), out)
    else:
        _list_models(out)
        return 0
    choose(model)
    out.write(f"{model.describe()}\n{model.path}\n`pytest evals --elo-model embedded` now runs on it.\n")
    return 0


def _list_models(out: TextIO) -> None:
    directory = models_directory()
    out.write(f"Models for --elo-model embedded, kept in {directory}:\n")
    for model in CATALOGUE:
        state = "fetched" if (directory / model.file_name).is_file() else "not fetched"
        size = megabytes(model.size_bytes)
        out.write(f"  {model.name:<20}{size:>9}  {model.licence}  {state:<11}  {model.page}\n")
    out.write(
        "Fetch one with `pytest-elo embed NAME`; use any other GGUF file with `pytest-elo embed --model-file FILE`.\n"
    )


def _fetched(model: CatalogueModel, out: TextIO) -> ModelFile:
    out.write(
        f"{model.name}: {megabytes(model.size_bytes)}, {model.licence}, quantized by {model.quantized_by}\n"
        f"from {source_of(model)}\n"
    )
    with _Meter(out) as meter:
        return fetch(model, models_directory(), meter.show)


def _verified(path: Path, out: TextIO) -> ModelFile:
    out.write(f"checking {path}\n")
    with _Meter(out) as meter:
        return verify(path, meter.show)


class _Meter:
    """Progress in one rewritten line on a terminal, in a line for every tenth elsewhere (CI logs)."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._rewrites = out.isatty()
        self._started_s = time.monotonic()
        self._first: int | None = None
        self._shown_s = 0.0
        self._shown = 0.0

    def __enter__(self) -> _Meter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._rewrites and self._first is not None:
            self._out.write("\n")

    def show(self, done: int, total: int) -> None:
        now_s = time.monotonic()
        if self._first is None:
            self._first, self._started_s = done, now_s
        if not self._is_due(done, total, now_s):
            return
        self._shown_s, self._shown = now_s, done / total
        rate = (done - self._first) / max(now_s - self._started_s, 1e-3)
        line = f"  {done / total:4.0%}  {megabytes(done)} of {megabytes(total)}  {megabytes(int(rate))}/s"
        self._out.write(f"\r{line:<60}" if self._rewrites else f"{line}\n")
        self._out.flush()

    def _is_due(self, done: int, total: int, now_s: float) -> bool:
        if done == total:
            return True
        if self._rewrites:
            return now_s - self._shown_s >= _TERMINAL_EVERY_S
        return done / total - self._shown >= _LOG_EVERY
