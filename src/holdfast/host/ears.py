"""`Ears`: what other processes say to the turns that run here: interrupts, and answers to what they ask.

Both come through the store. One look is for all turns of this process, so a turn more costs next to nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from holdfast.core.errors import OutcomeUnknown, Retryable, StoreClosed, StoreFault
from holdfast.host.stopping import asked_to_stop
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Ask
from holdfast.tools.asking import OpenQuestions

logger = logging.getLogger(__name__)

PASSING = (Retryable, OutcomeUnknown, StoreFault)
"""Troubles after which one looks again."""


@dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """One conversation whose turn runs here."""

    turn: Callable[[], str | None]
    """The turn that runs now."""
    stop: Callable[[str], object]
    questions: OpenQuestions


class Ears:
    """Listens while somebody has a turn running. Everything on the host's loop."""

    def __init__(self, db: SessionDB, pool: DaemonPool, poll_seconds: float) -> None:
        self._db = db
        self._pool = pool
        self._poll_seconds = poll_seconds
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def open_to(self, listener: Listener) -> Iterator[None]:
        """While inside, what is said to this one's turn reaches it."""
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="ears")
        try:
            yield
        finally:
            self._listeners.discard(listener)
            if not self._listeners and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._poll_seconds)
            running = {turn: each for each in self._listeners if (turn := each.turn()) is not None}
            asking = [turn for turn, each in running.items() if each.questions.open()]
            try:
                stopped, answered = await off_loop(self._pool, self._heard, list(running), asking)
            except PASSING:
                logger.warning("host.others_not_heard", exc_info=True)
                continue
            except StoreClosed:
                return
            for turn in stopped:
                if running[turn] in self._listeners:  # else its turn has ended meanwhile
                    running[turn].stop(turn)
            for ask in answered:
                running[ask.turn_id].questions.answer(ask.id, ask.answer or "")

    def _heard(self, running: Collection[str], asking: Collection[str]) -> tuple[set[str], list[Ask]]:
        asks = (ask for turn in asking for ask in self._db.asks.of_turn(turn))
        return asked_to_stop(self._db, running), [ask for ask in asks if ask.state == "answered"]
