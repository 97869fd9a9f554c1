"""What a kind of task adds to the run directory, in a form of its own, from the outcomes alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_elo.records import Outcome

__all__ = ["write_task_files"]


def write_task_files(run_dir: Path, outcomes: Sequence[Outcome]) -> None:
    """Write ``swebench/<policy>/{all_preds.jsonl, report.json}`` where there are outcomes of such a task.

    The controller never loads tasks (its workers do), so it knows them by their name or by their scores.
    """
    found = {outcome.task_id for outcome in outcomes if "fail_to_pass" in outcome.scores} | {"swebench"}
    of_swebench = [outcome for outcome in outcomes if outcome.task_id in found]
    if of_swebench:
        from pytest_elo.tasks.swebench.outputs import write_run

        write_run(run_dir / "swebench", of_swebench)
