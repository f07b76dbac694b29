"""A clock for code on an event loop: it moves only when a test says so, and wakes what sleeps on it."""

import asyncio
import heapq
from itertools import count

from holdfast.testing.clock import FakeClock

STEPS = 50
"""How many rounds of the event loop follow each wake-up, so that everything it leads to has happened."""


class AsyncFakeClock(FakeClock):
    """A `FakeClock` with `sleep`, for what takes a function like `asyncio.sleep`. One event loop uses it."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        super().__init__(start)
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now() + seconds, next(self._order), woken))
        await woken

    @property
    def sleeping(self) -> int:
        """How many tasks sleep on this clock."""
        return sum(not each.done() for _, _, each in self._sleepers)

    async def settle(self) -> None:
        """Let everything happen that needs no time."""
        for _ in range(STEPS):
            await asyncio.sleep(0)

    async def let_pass(self, seconds: float) -> None:
        """Let time pass: each sleeper wakes at its own moment, and does what it does then."""
        end = self.now() + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():  # a sleeper may have been cancelled
                self._move_to(due)
                woken.set_result(None)
                await self.settle()
        self._move_to(end)
        await self.settle()

    def _move_to(self, moment: float) -> None:
        with self._moved:
            self._now = max(self._now, moment)
            self._moved.notify_all()
