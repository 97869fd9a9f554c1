"""SWE-bench: each instance is an item; a patch is right when the instance's own tests pass, run in a sandbox.

The instances shipped here are our own small repositories, in SWE-bench's format. Point ``data`` at rows of
SWE-bench, or at a name such as ``SWE-bench/SWE-bench_Verified``, to run the benchmark itself: docs/swebench.md.
"""

import pytest


@pytest.mark.elo("swebench", data="data/swebench/instances.jsonl")
def test_swebench(trial):
    trial.grade()
