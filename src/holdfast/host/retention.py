"""`Retention`: deletes what clients of `/v1` left, once it is unused for the time of `host.api_days`.

Only conversations of the API's own: a client began them without a name. A person keeps one by pinning it. A
call that was handed to a client waits as long as its conversation is kept.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.core.errors import HoldfastError, StoreClosed
from holdfast.host.store_calls import StoreCalls
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import API_SOURCE

logger = logging.getLogger(__name__)

FIRST_SECONDS, EVERY_SECONDS = 60.0, 3600.0
AT_ONCE = 500
DAY_SECONDS = 86_400.0


class Retention:
    """The look for what is to be deleted. On the host's loop."""

    def __init__(
        self, call: StoreCalls, db: SessionDB, delete: Callable[[str], Awaitable[None]], days: float
    ) -> None:
        self._call = call
        self._db = db
        self._delete = delete
        self._seconds = days * DAY_SECONDS

    async def run(self) -> None:
        """Look now and again, unless all is kept; a program that ends soon has not looked."""
        pause = FIRST_SECONDS
        while self._seconds > 0:
            await asyncio.sleep(pause)
            try:
                pause = EVERY_SECONDS if await self.run_once() < AT_ONCE else 0.0
            except StoreClosed:
                return
            except Exception:
                logger.exception("host.retention_failed")
                pause = EVERY_SECONDS

    async def run_once(self) -> int:
        """Delete what is due; returns how many conversations were deleted."""
        deleted = 0
        unused = self._db.conversations.unused
        for session_id in await self._call(unused, API_SOURCE, self._seconds, AT_ONCE):
            try:
                await self._delete(session_id)
            except StoreClosed:
                raise
            except HoldfastError as refused:
                # It is in use after all, or owed to memory: a later look finds it again.
                logger.info("host.kept_for_now", extra={"session": session_id, "cause": str(refused)})
            else:
                deleted += 1
        return deleted
