"""A batch that survives `kill -9`: run it again, and it goes on; nothing is asked twice.

Each item has a key. An answer that is on record is not asked for again, and a question that was stored before
the crash is answered first.
"""

import asyncio
from pathlib import Path

from holdfast import Host

ITEMS = [f"Review {number}: the boat is number {number} of all." for number in range(1, 11)]
RESULTS = Path("results.txt")


async def main() -> None:
    async with Host(model="openai:gpt-5-mini", store="sqlite:///batch.db", after_crash="resume") as host:
        answers = []
        for number, item in enumerate(ITEMS, 1):
            answer = await host.ask(f"item-{number}", f"Summarise: {item}", key=f"item-{number}")
            answers.append(answer.final_response)
            print(f"{number} of {len(ITEMS)}", flush=True)
    RESULTS.write_text("\n".join(answers) + "\n")


asyncio.run(main())
