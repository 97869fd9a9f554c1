"""inspect-ai: a task over a dataset with its own connection limit."""

import os
import sys
import tempfile

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate

items, concurrency = int(sys.argv[1]), int(sys.argv[2])
dataset = MemoryDataset([Sample(input=f"What is {i} + {i}?", target=f"ANSWER: {2 * i}") for i in range(items)])
model = get_model(
    "openai/test-model",
    base_url=os.environ["OPENAI_BASE_URL"],
    api_key="sk-test",
    config=GenerateConfig(max_connections=concurrency, temperature=0),
    responses_api=False,
)
task = Task(dataset=dataset, solver=generate(), scorer=includes())
(log,) = eval(task, model=model, log_dir=tempfile.mkdtemp(), display="none", max_samples=concurrency)
print(log.status, log.results.completed_samples if log.results else None)
