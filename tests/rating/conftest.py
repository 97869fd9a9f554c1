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
        path = DATA / name
        opened = gzip.open(path, "rt", encoding="utf-8") if name.endswith(".gz") else path.open(encoding="utf-8")
        with opened as lines:
            return list(csv.DictReader(lines))

    return read
