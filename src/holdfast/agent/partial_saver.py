"""`PartialSaver`: saves an answer that still streams twice a second, also while the model pauses.

A crash then loses at most the last words, and readers in another process see the answer grow: at each save,
or faster where the store carries notes between processes. It is a task of its own, stopped before the answer
is stored: a partial answer is never saved after the whole one.
"""

import asyncio
import logging

from holdfast.agent.answer import Answer
from holdfast.agent.turn_store import TurnStore
from holdfast.core.errors import OutcomeUnknown, Retryable
from holdfast.process.cancellation import finish_despite_cancel

logger = logging.getLogger(__name__)

SAVE_SECONDS = 0.5
SENDS_PER_SAVE = 10
"""How often text is sent in that time while somebody reads in another process."""


class PartialSaver:
    """Saves one answer while it grows."""

    def __init__(self, store: TurnStore) -> None:
        self._store = store
        self._task: asyncio.Task[None] | None = None

    def start(self, answer: Answer) -> None:
        """Save this answer from now on. Raises what made saving stop before, such as a lost lease."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(answer), name="partial saver")
        elif self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """Save no more; returns when no save is under way."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        try:
            await finish_despite_cancel(asyncio.wait([task]))
        finally:
            if not task.cancelled():
                task.exception()  # the next step of the turn meets the same trouble

    async def _run(self, answer: Answer) -> None:
        saved = sent = 0
        await asyncio.sleep(SAVE_SECONDS / SENDS_PER_SAVE)  # many an answer is there by then
        while True:
            sent = await self._until_next_save(answer, sent)
            text = answer.text
            if len(text) > saved:
                try:
                    await self._store.save_partial(text)
                    saved = len(text)
                except (Retryable, OutcomeUnknown) as trouble:
                    # The answer continues, and its end waits for the store if it must. To save it twice is
                    # no harm.
                    logger.warning("turn.partial_not_saved", extra={"cause": repr(trouble)})

    async def _until_next_save(self, answer: Answer, sent: int) -> int:
        """Wait; meanwhile send readers elsewhere the text from here on. Returns how far that came."""
        if not self._store.is_read_elsewhere:
            await self._store.wait_for_readers(SAVE_SECONDS)
            return sent
        for _ in range(SENDS_PER_SAVE):
            text = answer.text
            self._store.send_live(sent, text[sent:])
            sent = len(text)
            await asyncio.sleep(SAVE_SECONDS / SENDS_PER_SAVE)
        return sent
