"""An arena: prompts without one right answer. Every strategy answers, and a judge compares the answers in pairs.

Without a judge in elo.yaml the model judges its own answers, and the report says so. People vote with
`pytest-elo vote .elo/latest`.
"""

import pytest


@pytest.mark.elo("arena", data="data/arena_prompts.yaml")
def test_arena(contest):
    contest.judge()
