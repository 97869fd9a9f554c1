from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_elo.gateway.usage import Usage, fold_usage


def openai_usage(prompt: Any, completion: Any, total: Any, **details: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **details}


REASONING_60 = {"completion_tokens_details": {"reasoning_tokens": 60}}
CACHED_1000 = {"prompt_tokens_details": {"cached_tokens": 1000}}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (openai_usage(9, 5, 14), Usage(9, 5)),
        # details that are null are unknown, not zero
        (openai_usage(9, 5, 14, prompt_tokens_details=None), Usage(9, 5, cached=None)),
        (
            openai_usage(9, 70, 79, prompt_tokens_details={"cached_tokens": 4}, **REASONING_60),
            Usage(9, 70, cached=4, reasoning=60),
        ),
        # thoughts left out of completion but not of total (any-llm#1290, CLIProxyAPI#5733)
        (openai_usage(20, 198, 623), Usage(20, 603, repaired=True)),
        (openai_usage(21, 0, 81, **REASONING_60), Usage(21, 60, reasoning=60, repaired=True)),
        # ... and left out of total too
        (openai_usage(21, 0, 21, **REASONING_60), Usage(21, 60, reasoning=60, repaired=True)),
        # reasoning inside completion is not added again (browser-use#4075)
        (openai_usage(21, 80, 101, **REASONING_60), Usage(21, 80, reasoning=60)),
        # cached part left out of the prompt
        (openai_usage(10, 5, 1015, **CACHED_1000), Usage(1010, 5, cached=1000, repaired=True)),
        (openai_usage(10, 5, 15, **CACHED_1000), Usage(1010, 5, cached=1000, repaired=True)),
        (openai_usage("12", "5", "17"), Usage(12, 5, repaired=True)),
        (openai_usage(12, 5, 0), Usage(12, 5, repaired=True)),
        (openai_usage(12, 5, None), Usage(12, 5, repaired=True)),
        (openai_usage(12, None, 17), Usage(12, 5, repaired=True)),
        (openai_usage(None, None, 17), Usage(17, 0, repaired=True)),
        # embeddings
        ({"prompt_tokens": 8, "total_tokens": 8}, Usage(8, 0)),
        # the Responses API
        (
            {
                "input_tokens": 30,
                "output_tokens": 12,
                "total_tokens": 42,
                "input_tokens_details": {"cached_tokens": 20},
                "output_tokens_details": {"reasoning_tokens": 7},
            },
            Usage(30, 12, cached=20, reasoning=7),
        ),
        # Anthropic: the three inputs add
        (
            {
                "input_tokens": 10,
                "cache_creation_input_tokens": 200,
                "cache_read_input_tokens": 3000,
                "output_tokens": 40,
            },
            Usage(3210, 40, cached=3000),
        ),
    ],
)
def test_usage_of_every_api_folds_into_one_shape(raw: dict[str, Any], expected: Usage) -> None:
    assert fold_usage(raw, has_text=True) == expected


@pytest.mark.parametrize("raw", [None, {}, [], "12", openai_usage(None, None, None), openai_usage(-1, "x", True)])
def test_usage_that_says_nothing_is_unknown(raw: object) -> None:
    assert fold_usage(raw, has_text=False) is None


def test_zeros_are_believed_only_where_nothing_was_generated() -> None:
    zeros = openai_usage(0, 0, 0)
    assert fold_usage(zeros, has_text=True) is None
    assert fold_usage(zeros, has_text=False) == Usage(0, 0)


counts = st.none() | st.integers(0, 10**6)


@given(counts, counts, counts, counts, counts)
def test_folding_keeps_the_laws_of_the_ledger(
    prompt: int | None, completion: int | None, total: int | None, cached: int | None, reasoning: int | None
) -> None:
    raw = openai_usage(
        prompt,
        completion,
        total,
        prompt_tokens_details={"cached_tokens": cached},
        completion_tokens_details={"reasoning_tokens": reasoning},
    )
    usage = fold_usage(raw, has_text=False)
    if usage is None:
        assert [prompt, completion, total] == [None, None, None]
        return
    assert usage.total >= max(prompt or 0, completion or 0, total or 0)
    if None not in (prompt, completion, total):
        assert usage.prompt >= (cached or 0)
        assert usage.completion >= (reasoning or 0) or usage.total == total
    if not usage.repaired:
        assert (usage.prompt, usage.total) == (prompt, total)
