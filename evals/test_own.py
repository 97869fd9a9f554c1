"""Your own tasks: each entry of one YAML file is an item under every strategy of elo.yaml."""

import pytest


@pytest.mark.elo("own", data="data/own_tasks.yaml")
def test_own(trial):
    trial.grade()
