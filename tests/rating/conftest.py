from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

DATA = Path(__file__).parent.parent / "data" / "rating"


@pytest.fixture(scope="session")
def table():
    """Read a reference table by name, gzipped or not, as a list of rows."""

    def read(name: str) -> list[dict[str, str]]:
        raw = (DATA / name).read_bytes()
        text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode("utf-8")
        return list(csv.DictReader(text.splitlines()))

    return read
