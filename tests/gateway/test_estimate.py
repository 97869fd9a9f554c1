from __future__ import annotations

from typing import Any

from pytest_elo.gateway.estimate import Estimator, completion_cap


def prompt(content: Any, **body: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}], **body}


def test_an_estimate_without_knowledge_is_good_to_a_factor_of_two() -> None:
    text = "The quick brown fox jumps over the lazy dog."
    n_tokens = 10  # with the o200k and cl100k encodings
    interval = Estimator().text("m", len(text))
    assert interval.low <= n_tokens <= interval.high
    assert interval.high <= 4 * interval.low + 8


def test_rows_with_usage_teach_the_models_own_ratio() -> None:
    estimator = Estimator()
    before = estimator.text("m", 4000)
    estimator.learn("m", 40_000, 10_000)
    after = estimator.text("m", 4000)
    assert (after.low, after.high) == (800, 1250)
    assert before.low < after.low
    assert after.high < before.high
    assert (estimator.method("m"), estimator.method("other")) == ("bytes/4", "bytes/3")


def test_all_parts_of_a_prompt_count() -> None:
    estimator = Estimator()
    plain = estimator.prompt("m", prompt("x" * 600))
    parts = [{"type": "text", "text": "x" * 300}, {"type": "text", "text": "x" * 300}]
    assert estimator.prompt("m", prompt(parts)) == plain
    tools = [{"type": "function", "function": {"name": "add", "description": "d" * 300}}]
    assert estimator.prompt("m", prompt("x" * 600, tools=tools)).low > plain.low
    picture = [*parts, {"type": "image_url", "image_url": {"url": "data:" + "A" * 10**6}}]
    with_picture = estimator.prompt("m", prompt(picture))
    assert with_picture.low == plain.low
    assert plain.high < with_picture.high < plain.high + 3000


def test_the_most_a_completion_costs_is_its_cap_times_n() -> None:
    assert completion_cap({"max_tokens": 100, "n": 3}) == 300
    assert completion_cap({"max_completion_tokens": 7}) == 7
    assert completion_cap({"max_output_tokens": 9}) == 9
    assert completion_cap({}) == 4096
