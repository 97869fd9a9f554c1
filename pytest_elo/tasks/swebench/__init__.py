"""SWE-bench: real repositories, real patches, the official verdict, with or without containers.

``load`` builds the task from settings; ``load_instances``, the graders and the runners work on their
own. Nothing here needs the ``swebench`` package.
"""

from __future__ import annotations

from pytest_elo.tasks.swebench.errors import RunnerError
from pytest_elo.tasks.swebench.grading import GRADER_VERSION, Verdict, grade_log
from pytest_elo.tasks.swebench.instance import Instance
from pytest_elo.tasks.swebench.predictions import Prediction, read_predictions, write_predictions
from pytest_elo.tasks.swebench.problem import SweBenchProblem, failure_text
from pytest_elo.tasks.swebench.rows import find_data, load_instances
from pytest_elo.tasks.swebench.runner import Evaluation, Preflight, Runner
from pytest_elo.tasks.swebench.task import SweBenchTask, default_cache, load

__all__ = [
    "GRADER_VERSION",
    "Evaluation",
    "Instance",
    "Prediction",
    "Preflight",
    "Runner",
    "RunnerError",
    "SweBenchProblem",
    "SweBenchTask",
    "Verdict",
    "default_cache",
    "failure_text",
    "find_data",
    "grade_log",
    "load",
    "load_instances",
    "read_predictions",
    "write_predictions",
]
