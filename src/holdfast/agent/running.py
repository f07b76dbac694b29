"""`RunningTurn`: one turn as a task of its own, whose events anybody can read and any thread can interrupt.

An interrupt cancels this very task and nothing else: it can't leak into a later turn. Reading is decoupled
by a queue, so a slow reader never slows the turn.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass

from holdfast.agent.turn import Turn
from holdfast.agent.turn_store import TurnStore
from holdfast.core.events import Event

LEFT = "the reader left"


@dataclass(frozen=True, slots=True)
class Stop:
    """An interrupt that met no running turn; its message, if it had one, waits in the inbox."""

    reason: str
    inbox_id: int


class RunningTurn:
    """A turn that runs in the background of its loop."""

    def __init__(self, turn: Turn, store: TurnStore, events: AsyncGenerator[Event, None]) -> None:
        self.turn = turn
        self.store = store
        self._loop = asyncio.get_running_loop()
        self._shown: asyncio.Queue[Event | None] = asyncio.Queue()
        self._interrupted = False
        # Its first step is scheduled here, before anybody can have this object to interrupt it: the turn is
        # opened, and its message stored, in any case.
        self._task = asyncio.create_task(self._pump(events), name=f"turn {store.turn_id}")
        self._task.add_done_callback(self._end_of_events)

    async def events(self) -> AsyncGenerator[Event, None]:
        """What happens, until the turn ends; raises what failed before it was opened."""
        try:
            while (event := await self._shown.get()) is not None:
                yield event
        finally:
            # The reader is gone before the end: the turn is stopped, and keeps what it has.
            self._cancel(LEFT)
            while not self._task.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([self._task])
        self._task.result()

    def interrupt(self, reason: str) -> None:
        """Stop this turn, from any thread. Does nothing once it has ended."""
        with suppress(RuntimeError):  # the loop is closed: so is the turn
            self._loop.call_soon_threadsafe(self._cancel, reason)

    async def ended(self) -> None:
        """Wait for the turn's end, whatever it is."""
        await asyncio.wait([self._task])

    def _end_of_events(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            task.exception()  # seen, so asyncio does not warn of it when the reader has left
        self._shown.put_nowait(None)

    def _cancel(self, reason: str) -> None:
        if self._task.done():
            return
        if not self._interrupted:
            self._interrupted = True
            self.turn.interrupt_reason = reason
        # Again each time: whatever swallowed the first cancellation gets another.
        self._task.cancel()

    async def _pump(self, events: AsyncGenerator[Event, None]) -> None:
        async with aclosing(events) as all_events:
            async for event in all_events:
                self._shown.put_nowait(event)
