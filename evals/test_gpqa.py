"""GPQA-format questions: each question is an item under every strategy of elo.yaml.

The questions shipped here are our own. Point ``data`` at the official gpqa_diamond.csv to run GPQA itself.
"""

import pytest


@pytest.mark.elo("gpqa", data="data/gpqa_questions.csv")
def test_gpqa(trial):
    trial.grade()
