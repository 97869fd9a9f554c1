"""Running ahead buys only what is certain to run, as far ahead as may be in flight, under every way to distribute."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_elo.config import StrategySpec
from pytest_elo.session.ahead import Ahead, window_of
from pytest_elo.session.trial import TrialKey
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


class Pace:
    """An engine that notes how many items begin at a time, and whether their end is waited for."""

    def __init__(self, *, computes: bool) -> None:
        self.computes = computes
        self.begun: list[tuple[int, bool]] = []

    def start(self, *keys: TrialKey, wait_s: float = 0.0) -> bool:
        self.begun.append((len(keys), wait_s > 0))
        return self.computes


class Item(SimpleNamespace):
    def __init__(self, number: int) -> None:
        spec = StrategySpec(name="baseline", kind="single")
        key = TrialKey(task=None, task_id="t", item_id=str(number), spec=spec, strategy="baseline", repeat=0)  # type: ignore[arg-type]
        super().__init__(callspec=SimpleNamespace(params={"elo_key": key}), fixturenames=["trial"])

    def get_closest_marker(self, name: str) -> None:
        return None

    def iter_markers(self, name: str) -> list[object]:
        return []


def run_all(engine: Pace, items: int, window: int) -> None:
    session = SimpleNamespace(items=[Item(number) for number in range(items)], config=SimpleNamespace())
    ahead = Ahead(session, lambda: engine, window)  # type: ignore[arg-type, return-value]
    for item, following in zip(session.items, [*session.items[1:], None], strict=True):
        ahead.of(item, following)


def test_items_begin_in_blocks_while_answering_is_computing():
    engine = Pace(computes=True)
    run_all(engine, items=22, window=8)
    assert engine.begun == [(8, True), (4, True), (4, True), (4, True), (2, True)]


def test_items_begin_one_by_one_while_answers_come_from_afar_and_now_and_then_it_is_looked_whether_they_do():
    engine = Pace(computes=False)
    run_all(engine, items=80, window=8)
    assert engine.begun == [(8, True), *[(1, False)] * 32, (1, True), *[(1, False)] * 32, (1, True), *[(1, False)] * 6]


@pytest.mark.parametrize(
    ("concurrency", "workers", "may_stop_early", "window"),
    [(64, 1, False, 80), (64, 4, False, 32), (64, 1, True, 16), (64, 4, True, 4), (4, 8, True, 1), (1, 1, False, 17)],
)
def test_the_window_is_what_may_be_in_flight_and_a_few_that_wait(concurrency, workers, may_stop_early, window):
    assert window_of(concurrency, workers, may_stop_early=may_stop_early) == window
