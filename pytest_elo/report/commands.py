"""``pytest-elo compare`` and ``pytest-elo baseline``: stored runs from the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_elo._parse import parse_json
from pytest_elo.errors import ConfigError
from pytest_elo.gates.baseline import baseline_path, dump, stored_names
from pytest_elo.gates.snapshot import Snapshot
from pytest_elo.ledger.rundir import write_atomically
from pytest_elo.report.compare import compare, render
from pytest_elo.report.judging import run_snapshot, stored_run

__all__ = ["compare_runs", "save_baseline"]


def compare_runs(before: str, after: str, *, allowed: tuple[str, ...], level: float, form: str) -> str:
    """The comparison as text. Raises ``ConfigError`` or ``DataError``."""
    return render(compare(_find(before), _find(after), allowed, level), form)


def save_baseline(run_dir: Path, name: str, to: Path | None) -> tuple[Path, Snapshot]:
    """Write the baseline file of a run; the file stands beside elo.yaml unless ``to`` says otherwise."""
    snapshot = replace(run_snapshot(run_dir, name), name=name)
    if not snapshot.cells:
        raise ConfigError(f"{run_dir}: no outcome was scored, so there is nothing to compare with")
    path = to or baseline_path(baseline_folder(run_dir), name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, dump(snapshot))
    return path, snapshot


def baseline_folder(run_dir: Path) -> Path:
    """``baselines`` beside the elo.yaml of a run. Raises ``ConfigError`` where that is not to be found."""
    header = run_dir / "run.json"
    config = ""
    if header.is_file():
        config = str(parse_json(header.read_text(encoding="utf-8")).get("config", ""))
    if config and Path(config).is_file():
        from pytest_elo.config import load

        folder = load(Path(config)).gates.baselines
        if folder is not None:
            return folder
    raise ConfigError(f"{run_dir}: its elo.yaml is not to be found from here ({config or 'not named'}); give --to FILE")


def _find(name: str) -> Snapshot:
    path = Path(name)
    if path.exists() or "/" in name:
        folder = path
    else:
        folder = baseline_folder(Path(".elo/latest"))
        if not stored_names(folder):
            raise ConfigError(f"no baseline is stored in {folder}; make one with: pytest-elo baseline save")
    found = stored_run(name, folder, Path.cwd())
    if found is None:
        raise ConfigError(f"no run {name!r}")
    return found
