"""Wishes that take their time: who asked is told at once what is refused, and the events tell the rest."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)

REFUSED_WITHIN = 2.5
"""A refusal comes sooner than this: it is a little more than the host's patience with another process."""


class Background:
    """Work that goes on behind an answer."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Begin it, and raise what it raises soon; what it raises later is logged."""
        task = self._begin(work)
        done, _ = await asyncio.wait([task], timeout=REFUSED_WITHIN)
        if done:
            task.result()
        else:
            task.add_done_callback(_note)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Begin it; nobody waits for it, and what it raises is logged."""
        self._begin(work).add_done_callback(_note)

    def _begin(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _note(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled() and (failure := task.exception()) is not None:
        logger.warning("web.background_failed", exc_info=failure)
