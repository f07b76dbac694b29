"""`RunningTurn`: a turn as a task of its own, which any thread can interrupt. `events_of`: its events, read.

An interrupt cancels this very task and nothing else: it can't leak into a later turn. A queue stands between
the turn and a reader, so a slow reader never slows the turn.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from holdfast.agent.turn import Turn
from holdfast.agent.turn_store import TurnStore
from holdfast.core.events import Emit, Event

LEFT = "the reader left"


@dataclass(frozen=True, slots=True)
class PendingInterrupt:
    """An interrupt that met no running turn; its message, if it had one, waits in the inbox."""

    reason: str
    inbox_id: int


class RunningTurn:
    """A turn that runs in the background of its loop."""

    def __init__(self, turn: Turn, store: TurnStore, work: Coroutine[Any, Any, None]) -> None:
        """`work` is the turn's own `run` or `resume`."""
        self.turn = turn
        self.store = store
        self._loop = asyncio.get_running_loop()
        self._interrupted = False
        # Its first step is scheduled here, before anybody can have this object to interrupt it: the turn is
        # opened, and its message stored, in any case.
        self._task = asyncio.create_task(work, name=f"turn {store.turn_id}")
        self._task.add_done_callback(self._ended)

    def interrupt(self, reason: str) -> None:
        """Stop this turn, from any thread. Does nothing once it has ended."""
        with suppress(RuntimeError):  # the loop is closed: so is the turn
            self._loop.call_soon_threadsafe(self._interrupt, reason)

    def suspend(self) -> None:
        """Cut the turn off and leave its record open: another process, or a later one, resumes it."""
        self.turn.ending.is_suspended = True
        self._loop.call_soon(self._cancel, LEFT)  # after its first step, which opens the turn

    def suspend_after_calls(self, seconds: float) -> None:
        """The same, but tool calls that run may take so long: the turn stops when they have results."""
        self.turn.ending.is_suspended = True
        self._loop.call_later(seconds, self._cancel, LEFT)

    async def finish(self) -> None:
        """Wait for the turn's end; raises what failed before it was opened. Cancelled, it stops the turn."""
        try:
            await asyncio.wait([self._task])
        finally:
            self._cancel(LEFT)
            while not self._task.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([self._task])
        self._task.result()

    async def ended(self) -> None:
        """Wait for the turn's end, whatever it is."""
        await asyncio.wait([self._task])

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            task.exception()  # seen, so asyncio does not warn of it when nobody waits for the turn
        self.store.retry.notify = lambda _: None

    def _interrupt(self, reason: str) -> None:
        self.turn.ending.is_suspended = False  # who says stop does not want it to go on elsewhere
        self._cancel(reason)

    def _cancel(self, reason: str) -> None:
        if self._task.done():
            return
        if not self._interrupted:
            self._interrupted = True
            self.turn.ending.interrupt_reason = reason
        # Again each time: whatever swallowed the first cancellation gets another.
        self._task.cancel()


class EventQueue:
    """Events from one producer to one reader, without a bound: the producer never waits."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._arrived = asyncio.Event()
        self._closed = False

    def put(self, event: Event) -> None:
        if not self._events:
            self._arrived.set()
        self._events.append(event)

    def close(self, _: object = None) -> None:
        """Nothing more will come."""
        self._closed = True
        self._arrived.set()

    async def take(self) -> list[Event]:
        """All events that have come since the last call, once there are any; empty after the end."""
        if not self._events and not self._closed:
            self._arrived.clear()
            await self._arrived.wait()
        taken, self._events = self._events, []
        return taken


async def events_of(work: Callable[[Emit], Coroutine[Any, Any, object]]) -> AsyncGenerator[Event, None]:
    """Run `work` and yield what it emits; raises what it raises. A reader that leaves cancels it."""
    queue = EventQueue()
    task = asyncio.create_task(work(queue.put), name="events")
    task.add_done_callback(queue.close)
    try:
        while events := await queue.take():
            for event in events:
                yield event
    finally:
        task.cancel()
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # seen, so asyncio does not warn of it when the reader has left
    task.result()
