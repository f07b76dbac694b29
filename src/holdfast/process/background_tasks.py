"""`BackgroundTasks`: tasks that nobody awaits. An event loop alone would let them be collected half done."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class BackgroundTasks:
    """The tasks of one owner, each kept until it has ended. Everything on the event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start the work; its error is logged."""
        self.keep(work).add_done_callback(log_failure)

    def keep(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Start the work, and leave its error to the caller."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self) -> None:
        """Cancel all that have not ended."""
        for task in self._tasks:
            task.cancel()


def log_failure(task: "asyncio.Task[Any]") -> None:
    """For a task whose error nobody raises."""
    if not task.cancelled() and (failure := task.exception()) is not None:
        logger.error("process.background_failed", exc_info=failure)
