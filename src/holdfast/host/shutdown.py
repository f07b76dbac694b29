"""The end, in one budget: cut off what runs, commit and drain memory, close the store, say what is owed."""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from holdfast.host.contract import HostParts
from holdfast.host.conversation import Conversation
from holdfast.process import DaemonPool, ShutdownBudget, off_loop

logger = logging.getLogger(__name__)

T = TypeVar("T")

ENDING = "the program is ending"
# A stage that is stuck leaves this share of the remaining time to the later ones.
SHARE = 0.5
LAST_MOMENT = 0.5
"""Seconds for closing the store, processes and connections when the budget is used up."""


async def shut_down(
    parts: HostParts, conversations: Sequence[Conversation], budget: ShutdownBudget
) -> list[str]:
    """Go through the stages; each gets what the ones before left of the budget."""
    # Its own threads: wedged tools may have taken all of the others.
    pool = DaemonPool("shutdown", workers=4, backlog=4)
    memory, lifecycle = parts.memory, parts.lifecycle
    with budget.stage("running turns"):
        owed = await _stop_turns(conversations, budget.remaining() * SHARE)
    with budget.stage("memory commits"):
        share = budget.remaining() * SHARE
        commits = off_loop(pool, lifecycle.drain_all_on_shutdown, share)
        left = await _in_time(commits, share + LAST_MOMENT)
        if left is None:
            owed.append("which sessions are not committed to memory is not known; the next start looks")
        elif left:
            owed.append(f"{_sessions(len(left))} not committed to memory; that is done at the next start")
    with budget.stage("memory deliveries"):
        deliveries = off_loop(pool, memory.shutdown_all, budget)
        lines = await _in_time(deliveries, budget.remaining() + LAST_MOMENT)
        owed += ["what is owed to memory could not be read; it is on record"] if lines is None else lines
    with budget.stage("tools and the model"):
        await _in_time(parts.release(), max(budget.remaining(), LAST_MOMENT))
    if parts.closes_store:
        with budget.stage("the store"):
            await _in_time(off_loop(pool, parts.db.close), max(budget.remaining(), LAST_MOMENT))
    parts.pools.close(0)
    pool.close(0)
    return owed


async def _stop_turns(conversations: Sequence[Conversation], seconds: float) -> list[str]:
    stopping = [asyncio.create_task(each.close(ENDING)) for each in conversations]
    if not stopping:
        return []
    _, stuck = await asyncio.wait(stopping, timeout=seconds)
    for task in stuck:
        task.cancel()  # its readers and the callers of commands are told
    await asyncio.wait(stopping)
    if not stuck:
        return []
    turns = "1 session did" if len(stuck) == 1 else f"{len(stuck)} sessions did"
    return [f"{turns} not stop in time; their turns are on record as far as they got"]


async def _in_time(work: Awaitable[T], seconds: float) -> T | None:
    """The result; None when it takes longer and is left behind on its daemon thread."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        logger.warning("host.shutdown_stuck")
        return None


def _sessions(count: int) -> str:
    return "1 session is" if count == 1 else f"{count} sessions are"
