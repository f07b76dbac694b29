"""The end, in one budget: cut off what runs, commit and drain memory, close the store, say what is owed."""

import asyncio
from collections.abc import Sequence

from holdfast.host.contract import HostParts
from holdfast.host.conversation import Conversation
from holdfast.process import ShutdownBudget, off_loop

LEAST_SECONDS = 0.5
"""What letting go of processes and connections gets even when the budget is spent."""
ENDING = "the program is ending"


async def shut_down(
    parts: HostParts, conversations: Sequence[Conversation], budget: ShutdownBudget
) -> list[str]:
    """Go through the stages; each gets what the ones before left of the budget."""
    owed: list[str] = []
    with budget.stage("running turns"):
        stopping = [asyncio.create_task(each.close(ENDING)) for each in conversations]
        if stopping:
            _, stuck = await asyncio.wait(stopping, timeout=budget.remaining())
            if stuck:
                owed.append(f"{len(stuck)} turns did not stop in time; they are on record as far as they got")
    with budget.stage("memory commits"):
        left = await off_loop(parts.pools.work, parts.lifecycle.drain_all_on_shutdown, budget.remaining())
        if left:
            owed.append(f"{len(left)} sessions are not committed to memory; that is done at the next start")
    with budget.stage("memory deliveries"):
        owed += await off_loop(parts.pools.work, parts.memory.shutdown_all, budget)
    with budget.stage("tools and the model"):
        releasing = asyncio.ensure_future(parts.release())
        await asyncio.wait([releasing], timeout=max(LEAST_SECONDS, budget.remaining()))
    with budget.stage("the store"):
        await off_loop(parts.pools.work, parts.db.close)
    parts.pools.close(0)
    return owed
