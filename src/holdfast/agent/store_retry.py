"""`StoreRetry`: while the store can't be written, a turn waits and tries again instead of failing.

Another program may hold the file, the server may restart, the disk may be full. The wait has a limit, and an
interrupt ends it. `trouble` says what the turn waits for now.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast.core.errors import Retryable, StoreFailure
from holdfast.process.cancellation import finish_despite_cancel, is_cancelled

T = TypeVar("T")

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0


class StoreRetry:
    """The retries of one agent, which stores one step at a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._gave_up = False
        self.trouble = ""
        self.notify: Callable[[str], object] = lambda _: None
        """Called once for each wait, with a text for people."""

    async def until_stored(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Take the step; try again until it is stored, the time is up, or an interrupt comes.

        Once a wait has failed, later steps do not wait, until one of them is stored.
        """
        loop = asyncio.get_running_loop()
        deadline, pause = 0.0, FIRST_PAUSE
        try:
            while True:
                try:
                    result = await finish_despite_cancel(step())
                except StoreFailure as trouble:
                    deadline = deadline or loop.time() + self._seconds
                    self._gave_up = self._gave_up or loop.time() >= deadline
                    if not isinstance(trouble, Retryable) or is_cancelled() or self._gave_up:
                        raise
                    self._note(trouble)
                else:
                    self._gave_up = False
                    return result
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        finally:
            self.trouble = ""

    def _note(self, trouble: StoreFailure) -> None:
        if not self.trouble:
            logger.warning("turn.waits_for_store", extra={"cause": repr(trouble)})
            self.notify(f"{trouble} This turn waits, and goes on by itself.")
        self.trouble = str(trouble)
