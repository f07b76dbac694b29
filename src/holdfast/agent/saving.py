"""`Saving`: an answer that still streams is saved twice a second, also while the model pauses.

For a crash, which loses at most the last words, and for readers in another process. It is a task of its own,
stopped before the answer is stored: a partial answer is never saved behind the whole one.
"""

import asyncio

from holdfast.agent.answer import Answer
from holdfast.agent.turn_store import TurnStore

SAVE_SECONDS = 0.5


class Saving:
    """Saves an answer while it grows."""

    def __init__(self, store: TurnStore) -> None:
        self._store = store
        self._task: asyncio.Task[None] | None = None

    def begin(self, answer: Answer) -> None:
        """It has text. Raises what kept it from being saved: the lease is lost, or the store fails."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(answer), name="saving")
        elif self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """Save no more; returns when nothing of it is under way."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        cancelled = None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as interrupt:
                cancelled = interrupt
        if not task.cancelled():
            task.exception()  # the next step of the turn meets the same trouble
        if cancelled is not None:
            raise cancelled

    async def _run(self, answer: Answer) -> None:
        saved = 0
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            text = answer.text
            if len(text) > saved:
                saved = len(text)
                await self._store.save_partial(text)
