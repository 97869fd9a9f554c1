"""Settings of the whole suite: no test depends on how busy the machine is, or on who started it."""

import signal

import pytest
from hypothesis import settings

settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A CI that starts its job in the background ignores Ctrl-C, and so would every process of these tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = frozenset(
    [
        "test_ten_thousand_small_worlds_never_crash_and_never_give_nan",
        "test_the_tutorial_prints_what_it_says",
        "test_types_are_strict",
        "test_unchanged_costs_nothing_and_a_worse_prompt_fails_with_the_items_named",
        "test_what_replaces_other_tools_runs",
        "test_what_runs_offline_runs",
    ]
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A long test that comes last leaves all workers but one without work.
    items.sort(key=lambda item: item.name not in LONGEST)
