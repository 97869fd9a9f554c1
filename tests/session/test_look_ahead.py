"""Running ahead buys only what is certain to run, as far ahead as may be in flight, under every way to distribute."""

from __future__ import annotations

import pytest

from tests.harness import Suite
from tests.loopback import LoopbackGateway

SOME_SKIPPED = """
    import sys
    import pytest

    def own(name):
        return pytest.mark.elo(name, kind="own", data="tasks.yaml")

    @own("skipped")
    @pytest.mark.skip(reason="not today")
    def test_skipped(trial): trial.grade()

    @own("skipped_here")
    @pytest.mark.skipif(sys.version_info > (3,), reason="never")
    def test_skipped_here(trial): trial.grade()

    @own("skipped_by_text")
    @pytest.mark.skipif("sys.version_info > (3,)", reason="never")
    def test_skipped_by_text(trial): trial.grade()

    @own("not_run")
    @pytest.mark.xfail(run=False)
    def test_not_run(trial): trial.grade()

    @own("run")
    @pytest.mark.skipif(sys.version_info < (3,), reason="always")
    def test_run(trial): trial.grade()

    @own("late")
    def test_late(request):
        if request.node.name.endswith("never"): request.getfixturevalue("trial")

    def test_ordinary(tmp_path): assert tmp_path.exists()
"""


@pytest.fixture
def single(suite):
    return suite.strategies(baseline={"kind": "single"})


def items_of(gateway: LoopbackGateway) -> list[str]:
    prompts = [request.body["messages"][-1]["content"] for request in gateway.requests]
    return sorted(prompt.split()[2] for prompt in prompts if prompt.startswith("What is"))


def test_only_what_will_run_is_bought(single, answer):
    single.file("evals/test_sums.py", SOME_SKIPPED)
    with LoopbackGateway(answer) as gateway:
        run = single.live(gateway)
        assert run.exit_code == 0, run.output
        assert {row["task_id"] for row in run.charged} == {"run"}
        assert items_of(gateway) == [str(i) for i in range(8)]


@pytest.mark.parametrize("option", ["--collect-only", "--setup-plan", "--setup-only"])
def test_nothing_is_bought_where_no_test_runs(single, answer, option):
    with LoopbackGateway(answer) as gateway:
        run = single.live(gateway, option, "-n", "0")
    assert run.exit_code in (0, 5), run.output
    assert not gateway.requests
    assert not (single.path / ".elo").exists()


def test_k_and_last_failed_buy_what_they_select(single, answer):
    single.file(
        "evals/test_sums.py",
        """
        import pytest

        @pytest.mark.elo("sums", kind="own", data="tasks.yaml")
        def test_sums(trial):
            assert trial.grade().item_id != "sum003"
        """,
    )
    with LoopbackGateway(answer) as gateway:
        run = single.live(gateway, "-k", "sum003 or sum004", "-p", "cacheprovider")
        assert run.exit_code == 1, run.output
        assert items_of(gateway) == ["3", "4"]
        run = single.live(gateway, "--lf", "-p", "cacheprovider")
        assert items_of(gateway) == ["3", "3", "4"]


@pytest.mark.parametrize(
    "distribution",
    [["-n", "0"], ["-n", "2"], ["-n", "2", "--dist", "worksteal"], ["-n", "2", "--dist", "loadgroup"]],
    ids=" ".join,
)
def test_calls_in_flight_do_not_depend_on_the_workers(pytester, slow_answer, distribution):
    """The contract with xdist's queue: were it not read, a worker would know of two items, and four be in flight."""
    single = Suite(pytester).items(24).strategies(baseline={"kind": "single"})
    with LoopbackGateway(slow_answer) as gateway:
        run = single.live(gateway, "--elo-concurrency", "8", *distribution)
    assert run.exit_code == 0, run.output
    assert len(run.outcomes) == 24
    if "loadgroup" not in distribution:  # sends two items ahead, whoever asks
        assert 6 <= gateway.most_in_flight <= 8
    assert gateway.most_in_flight <= 8
