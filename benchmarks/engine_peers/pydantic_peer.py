"""pydantic-evals: a dataset of cases and an async task."""

import asyncio
import os
import sys

from openai import AsyncOpenAI
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected


async def main(items: int, concurrency: int) -> None:
    client = AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="sk-test")

    async def ask(question: str) -> str:
        reply = await client.chat.completions.create(
            model="test-model", messages=[{"role": "user", "content": question}], temperature=0
        )
        return reply.choices[0].message.content or ""

    cases = [
        Case(name=f"sum{i}", inputs=f"What is {i} + {i}?", expected_output=f"ANSWER: {2 * i}") for i in range(items)
    ]
    dataset = Dataset(name="sums", cases=cases, evaluators=[EqualsExpected()])
    report = await dataset.evaluate(ask, max_concurrency=concurrency, progress=False)
    print(len(report.cases))


asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
