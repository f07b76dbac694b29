"""`Showing`: a conversation's turns as readers see them: each event published, each end said once.

It also knows which turn is not closed on record, closes it, and marks completed turns for memory.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from holdfast.agent import Agent
from holdfast.core.errors import LeaseLost
from holdfast.core.events import (
    Event,
    MessageAccepted,
    SessionRotated,
    TurnCompleted,
    TurnEvent,
    TurnFailed,
    TurnInterrupted,
)
from holdfast.host.asks import AskRecord
from holdfast.host.contract import HostParts
from holdfast.host.ears import Ears, Listener
from holdfast.host.endings import end_on_record
from holdfast.host.streams import ENDS, EventStream
from holdfast.process import off_loop

TAKEN_OVER = "its process ended in mid-turn"


class Showing:
    """One conversation's turns. Everything but `mark` on the host's loop."""

    def __init__(
        self, parts: HostParts, stream: EventStream, asks: AskRecord, ears: Ears, listener: Listener
    ) -> None:
        self._parts = parts
        self._stream = stream
        self._asks = asks
        self._ears = ears
        self._listener = listener
        self._review = parts.make_review() if parts.make_review else None
        self._unmarked: list[tuple[str, Agent]] = []
        self.over = ""
        """The last turn whose end was shown: from then on the session is idle."""
        self.unended = ""
        """A turn of this process that is not known to be closed on record."""

    async def show(self, agent: Agent, events: AsyncGenerator[Event, None]) -> None:
        """Publish what happens, and heed what is said to the turn meanwhile."""
        with self._ears.open_to(self._listener):
            async with aclosing(events) as happening:
                async for event in happening:
                    self._note(event, agent)
                    self._stream.publish(event)
                    if isinstance(event, SessionRotated):
                        self._parts.lifecycle.register_agent(event.child_id, agent)
                    self._completed(event, agent)
        if self._asks.unsettled and not self.unended:
            # At once, also when the program ends now.
            await self.settle_asks(*self._asks.unsettled)

    async def resume(self, agent: Agent) -> None:
        """Go on with a turn that a dead process left open; what that one had asked is over."""
        unfinished = await agent.unfinished()
        if unfinished is not None:
            await self.settle_asks(unfinished.turn_id)
        await self.show(agent, agent.stream_resumed())

    async def drop(self, agent: Agent) -> None:
        """Close a turn that a dead process left open; the transcript says how far it got."""
        unfinished = await agent.unfinished()
        await agent.drop()  # refuses when there is none
        if unfinished is not None:
            await self.settle_asks(unfinished.turn_id)
            self._stream.publish(
                TurnInterrupted(
                    session_id=unfinished.session_id, turn_id=unfinished.turn_id, reason=TAKEN_OVER
                )
            )

    async def close_record(self, agent: Agent) -> None:
        """The store failed at a turn's end, or the lease was lost: close that turn, and show how it ended."""
        unfinished = await agent.unfinished()  # closes what this very agent left open
        if unfinished is not None and unfinished.turn_id == self.unended:
            await agent.drop()
        turn_id, self.unended = self.unended, ""
        end = await off_loop(self._parts.pools.store, end_on_record, self._parts.db, turn_id)
        if end is not None and turn_id != self.over:
            self.over = turn_id
            self._stream.publish(end)
            self._completed(end, agent)

    async def settle_asks(self, *turn_ids: str) -> None:
        """Answers that these turns never took in become the next messages."""
        for turn_id in turn_ids:
            for message in await self._asks.settle(turn_id):
                self._stream.publish(
                    MessageAccepted(session_id=message.session_id, inbox_id=message.id, mode=message.mode)
                )

    def mark(self) -> None:
        """Mark for memory what was completed since the last time; on a thread.

        Until then the store alone knows of it, and a boundary asks the store.
        """
        while self._unmarked:
            self._parts.lifecycle.mark_turn_completed(*self._unmarked[0])
            del self._unmarked[0]

    async def close(self, seconds: float) -> None:
        """Cut off a review that runs."""
        if self._review is not None:
            await self._review.close(seconds)

    def _note(self, event: Event, agent: Agent) -> None:
        if isinstance(event, ENDS):
            self.over = event.turn_id
            lost = isinstance(event, TurnFailed) and event.failure == LeaseLost.__name__
            self.unended = event.turn_id if lost else ""
        elif isinstance(event, TurnEvent) and event.turn_id == agent.running_turn:
            self.unended = event.turn_id

    def _completed(self, event: Event, agent: Agent) -> None:
        """A completed turn is to be marked, and may start a review, for which nobody waits."""
        if isinstance(event, TurnCompleted):
            self._unmarked.append((event.session_id, agent))
            if self._review is not None and self._review.turn_completed():
                self._review.start(agent.messages)
