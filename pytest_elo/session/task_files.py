"""What a kind of task adds to the run directory, in a form of its own, from the outcomes alone."""

from __future__ import annotations

from pathlib import Path

from pytest_elo.ledger.fold import Ledger

__all__ = ["write_task_files"]


def write_task_files(run_dir: Path, ledger: Ledger) -> None:
    """Write ``swebench/<policy>/{all_preds.jsonl, report.json}`` where there are outcomes of such a task.

    The controller never loads tasks (its workers do), so it knows them by their name or by their scores.
    """
    of_swebench = ledger.outcomes_scored_by("fail_to_pass", task="swebench")
    if of_swebench:
        from pytest_elo.tasks.swebench.outputs import write_run

        write_run(run_dir / "swebench", of_swebench)
