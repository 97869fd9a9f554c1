"""Whatever ends an item without a report: it is named, and the exit code is not 0."""

from __future__ import annotations

import pytest

from tests.loopback import LoopbackGateway

HEAD = """
    import os, signal
    import pytest

    @pytest.mark.elo("sums", kind="own", data="tasks.yaml")
    def test_sums(trial, record_property):
        trial.grade()
        if trial.item_id in ("sum001", "sum002", "sum003"):
"""


@pytest.mark.parametrize(
    ("accident", "arguments"),
    [
        ("record_property('acc', __import__('decimal').Decimal(1))", ()),
        ("pytest.exit('enough')", ()),
        ("os.kill(os.getpid(), signal.SIGKILL)", ("--max-worker-restart", "0")),
    ],
    ids=["unserialisable property", "pytest.exit", "no worker restarted"],
)
def test_items_without_a_report(suite, answer, accident, arguments):
    suite.strategies(baseline={"kind": "single"})
    suite.file("evals/test_sums.py", HEAD + f"            {accident}\n")
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "-n", "2", "--elo-concurrency", "4", *arguments)
    assert run.exit_code != 0, run.output
    assert "items came to no end" in run.output or "items did not run" in run.output
    # whatever became of the items, every request has its row; a killed worker's last ones may never have been read
    unanswered = [row for row in run.rows if row["status"] == "open"]
    assert len(run.rows) - len(unanswered) <= len(gateway.requests) <= len(run.rows)


def test_a_module_that_cannot_be_imported_in_a_worker(suite, answer):
    suite.file("evals/test_broken.py", "import os\nif 'PYTEST_XDIST_WORKER' in os.environ: os._exit(3)\n")
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway, "-n", "2", "--max-worker-restart", "0")
    assert run.exit_code != 0, run.output


def test_one_task_in_two_tests_would_be_counted_twice(suite, answer):
    suite.file(
        "evals/test_again.py",
        """
        import pytest

        @pytest.mark.elo("sums", kind="own", data="tasks.yaml")
        def test_again(trial): trial.grade()
        """,
    )
    with LoopbackGateway(answer) as gateway:
        run = suite.live(gateway)
    assert run.exit_code == 4, run.output
    assert "both hold task 'sums'" in run.output
