from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import openai

from pytest_elo.gateway.http import http_module

ROOT = Path(__file__).parents[2]


def test_the_transport_is_built_on_the_library_under_the_sdk() -> None:
    modules = {base.__module__.partition(".")[0] for base in openai.DefaultHttpxClient.__mro__}
    assert http_module().__name__ in modules
    assert len(modules & {"httpx", "httpx2"}) == 1


def test_replaying_and_asking_never_import_the_sdk() -> None:
    """It takes 0.6 s of processor time, in every worker."""
    heavy = "{'openai', 'httpx', 'httpx2'} & set(sys.modules)"
    script = f"import sys; import pytest_elo.gateway.client; print({heavy})"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stdout == "set()\n"
