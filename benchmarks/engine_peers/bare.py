"""A bare loop over ``AsyncOpenAI`` with a semaphore: the floor of what asking costs."""

import asyncio
import os
import sys

from openai import AsyncOpenAI


async def main(items: int, concurrency: int) -> None:
    gate = asyncio.Semaphore(concurrency)
    right = 0

    async def ask(client: AsyncOpenAI, i: int) -> bool:
        async with gate:
            reply = await client.chat.completions.create(
                model="test-model", messages=[{"role": "user", "content": f"What is {i} + {i}?"}], temperature=0
            )
        return reply.choices[0].message.content == f"ANSWER: {2 * i}"

    async with AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="sk-test", max_retries=4) as client:
        right = sum(await asyncio.gather(*(ask(client, i) for i in range(items))))
    print(right)


asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
