"""`Wishes`: what was asked of a conversation between its turns, such as a compaction. Each is answered.

A wish is granted under the conversation's lease, or refused with a reason; whoever made it never waits for
something that can't happen any more.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.agent import Agent
from holdfast.core.errors import WishInterrupted

logger = logging.getLogger(__name__)

Wish = Callable[[Agent], Awaitable[None]]
"""Something to do with the agent while no turn runs: resume a turn, compact."""


@dataclass(frozen=True, slots=True)
class _Asked:
    wish: Wish
    since: float
    answer: "asyncio.Future[None]"


class Wishes:
    """The wishes of one conversation, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[_Asked] = deque()
        self._granted: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, wish: Wish) -> "asyncio.Future[None]":
        """Ask for something; the future tells when it is done, or why it isn't."""
        loop = asyncio.get_running_loop()
        asked = _Asked(wish, loop.time(), loop.create_future())
        self._waiting.append(asked)
        return asked.answer

    async def grant(self, agent: Agent) -> None:
        """Do the oldest, and tell who asked what became of it."""
        asked = self._waiting.popleft()
        if asked.answer.done():
            return  # who asked has gone
        task = self._granted = asyncio.create_task(_done(asked.wish, agent), name="wish")
        try:
            await asyncio.wait([task])
        finally:
            self._granted = None
            task.cancel()
            _tell(asked.answer, task)

    def interrupt(self) -> bool:
        """Stop the one that is being granted; False when there is none."""
        return self._granted is not None and self._granted.cancel()

    def refuse(self, why: BaseException, *, older_than: float = 0.0) -> None:
        """Tell those who have waited so many seconds that it will not be done."""
        now = asyncio.get_running_loop().time()
        while self._waiting and now - self._waiting[0].since >= older_than:
            asked = self._waiting.popleft()
            if not asked.answer.done():
                asked.answer.set_exception(why)


async def _done(wish: Wish, agent: Agent) -> None:
    await wish(agent)


def _tell(answer: "asyncio.Future[None]", task: "asyncio.Task[None]") -> None:
    failure = WishInterrupted() if task.cancelled() or not task.done() else task.exception()
    if answer.done():
        if failure is not None:
            logger.warning("host.wish_failed", exc_info=failure)
    elif failure is None:
        answer.set_result(None)
    else:
        answer.set_exception(failure)
