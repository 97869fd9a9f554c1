"""deepeval: test cases whose metric asks the model, since deepeval itself takes finished outputs."""

import os
import sys

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase
from openai import AsyncOpenAI

items, concurrency = int(sys.argv[1]), int(sys.argv[2])
client = AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="sk-test")


class Asked(BaseMetric):
    def __init__(self) -> None:
        self.threshold = 1.0
        self.async_mode = True

    def measure(self, test_case: LLMTestCase, *args, **kwargs) -> float:
        raise NotImplementedError

    async def a_measure(self, test_case: LLMTestCase, *args, **kwargs) -> float:
        reply = await client.chat.completions.create(
            model="test-model", messages=[{"role": "user", "content": test_case.input}], temperature=0
        )
        self.score = float(reply.choices[0].message.content == test_case.expected_output)
        self.success = self.score == 1
        return self.score

    def is_successful(self) -> bool:
        return bool(self.success)

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return "Asked"


cases = [
    LLMTestCase(input=f"What is {i} + {i}?", actual_output="", expected_output=f"ANSWER: {2 * i}") for i in range(items)
]
evaluate(
    cases,
    metrics=[Asked()],
    async_config=AsyncConfig(run_async=True, max_concurrent=concurrency, throttle_value=0),
    display_config=DisplayConfig(show_indicator=False, print_results=False),
    cache_config=CacheConfig(write_cache=False),
)
