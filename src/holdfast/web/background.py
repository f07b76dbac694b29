"""Work that outlives its request: a refusal reaches the client, the session's events show the rest."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)

REFUSED_WITHIN = 2.5
"""Seconds to wait for a refusal: a little longer than the host waits for another process."""


class BackgroundTasks:
    """The tasks that go on after their response."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start the work and raise its early errors; later errors are logged."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        done, _ = await asyncio.wait([task], timeout=REFUSED_WITHIN)
        if done:
            task.result()
        else:
            task.add_done_callback(_note)


def _note(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and (failure := task.exception()) is not None:
        logger.warning("web.background_failed", exc_info=failure)
