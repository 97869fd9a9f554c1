"""Models are named by their bytes, found by what the user says, and remembered between runs."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pytest_elo.errors import ConfigError, DataError
from pytest_elo.gateway.embed_command import embed
from pytest_elo.gateway.models import CATALOGUE, choose, chosen, find, locate, models_directory, verify

GGUF_BYTES = b"GGUF" + bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "models"
    monkeypatch.setenv("PYTEST_ELO_MODELS", str(directory))
    return directory


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "mine.gguf"
    path.write_bytes(GGUF_BYTES)
    return path


@pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)
def test_catalogue_names_one_file_of_one_hash_on_the_models_own_page(model):
    assert urlsplit(model.source).scheme == "https"
    assert model.source.startswith(f"{model.page}/resolve/")
    assert model.source.endswith(".gguf")
    assert len(bytes.fromhex(model.sha256)) == 32
    assert model.licence == "Apache-2.0"
    assert find(model.name) is find(model.model_name.upper()) is model


def test_catalogue_is_sorted_and_its_names_are_unique():
    assert list(CATALOGUE) == sorted(CATALOGUE, key=lambda model: model.size_bytes)
    for key in ("name", "model_name", "sha256", "source"):
        assert len({getattr(model, key) for model in CATALOGUE}) == len(CATALOGUE)


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(ConfigError, match=r"Did you mean qwen2\.5-coder-1\.5b\?"):
        find("qwen-coder-1.5b")


def test_unknown_bytes_are_named_by_their_hash(gguf):
    model = verify(gguf)
    sha256 = hashlib.sha256(GGUF_BYTES).hexdigest()
    assert (model.sha256, model.size_bytes, model.catalogued) == (sha256, len(GGUF_BYTES), None)
    assert model.model_name == f"unknown-{sha256[:12]}"
    assert model.describe().startswith("unknown model")
    assert sha256 in model.describe()


@pytest.mark.parametrize(
    ("content", "message"), [(None, "no such model file"), (b"PK\x03\x04", "not a GGUF"), (b"", "not a GGUF")]
)
def test_what_is_no_model_is_refused_by_name(tmp_path, content, message):
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        verify(path)
    assert str(path) in str(caught.value)


def test_nothing_chosen_says_which_command_to_run(models):
    with pytest.raises(ConfigError, match=r"pytest-elo embed qwen2\.5-coder-1\.5b") as caught:
        locate()
    assert str(models) in str(caught.value)


def test_a_chosen_model_is_found_again(gguf):
    choose(verify(gguf))
    assert chosen() == locate() == verify(gguf)


def test_a_chosen_file_that_changed_is_hashed_again(gguf):
    choose(verify(gguf))
    gguf.write_bytes(GGUF_BYTES + b"!")
    os.utime(gguf, ns=(1, 1))
    assert chosen().sha256 == hashlib.sha256(GGUF_BYTES + b"!").hexdigest()


def test_a_chosen_file_that_is_gone_is_an_error(gguf):
    choose(verify(gguf))
    gguf.unlink()
    with pytest.raises(DataError, match="no such model file"):
        chosen()


def test_a_catalogued_name_on_other_bytes_is_not_believed(models):
    model = find("smollm2")
    with pytest.raises(ConfigError, match="not fetched yet"):
        locate("smollm2")
    models.mkdir()
    (models / model.file_name).write_bytes(GGUF_BYTES)
    with pytest.raises(DataError, match="not smollm2"):
        locate("smollm2")


def test_directory_is_the_variable_or_else_the_users_cache(monkeypatch, tmp_path):
    assert models_directory() == tmp_path / "models"
    monkeypatch.setenv("PYTEST_ELO_MODELS", "  ")
    assert models_directory().parts[-2:] == ("pytest-elo", "models")


def test_embed_with_a_file_checks_it_and_remembers_it(gguf):
    out = io.StringIO()
    assert embed(model_file=str(gguf), out=out) == 0
    assert locate().path == gguf
    assert "100%" in out.getvalue()
    assert "unknown model" in out.getvalue()
    assert "--elo-model embedded" in out.getvalue()


def test_embed_without_a_name_lists_the_models_and_changes_nothing(models):
    out = io.StringIO()
    assert embed(out=out) == 0
    for model in CATALOGUE:
        assert model.name in out.getvalue()
        assert model.page in out.getvalue()
    assert not models.exists()
