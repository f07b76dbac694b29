"""`Pulse`: one look at the store for all conversations that only have readers here.

Each of them would otherwise look by itself, several times a second, for what another process does. One that
the look finds busy or changed is woken, and then looks closer.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from holdfast.core.errors import HostClosed, StoreClosed
from holdfast.sessions import News

logger = logging.getLogger(__name__)


class Pulse:
    """Wakes those who rest here. Everything on the host's loop."""

    def __init__(self, look: Callable[[int | None], Awaitable[News]], poll_seconds: float) -> None:
        self._look = look
        self._poll_seconds = poll_seconds
        self._resting: dict[str, asyncio.Event] = {}
        self._seen: int | None = None
        self._busy: frozenset[str] = frozenset()
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def resting(self, root_id: str, woken: asyncio.Event) -> AsyncIterator[None]:
        """While inside, `woken` is set when something happens to this conversation."""
        self._resting[root_id] = woken
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="pulse")
        try:
            yield
        finally:
            self._resting.pop(root_id, None)

    async def _run(self) -> None:
        try:
            while self._resting:
                try:
                    for root_id in await self._happened():
                        if root_id in self._resting:
                            self._resting[root_id].set()
                except (HostClosed, StoreClosed):
                    return
                except Exception:
                    logger.exception("host.pulse_failed")
                await asyncio.sleep(self._poll_seconds)
        finally:
            self._task = None
            # What happens from now on is found by those who rest here next, who look before they do.
            self._seen, self._busy = None, frozenset()

    async def _happened(self) -> frozenset[str]:
        news = await self._look(self._seen)
        before, self._busy, self._seen = self._busy, news.busy, news.now
        return news.busy | before | news.changed
