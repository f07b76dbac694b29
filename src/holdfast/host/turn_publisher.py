"""`TurnPublisher`: a conversation's turns as readers see them: each event published, each end said once.

It also knows which turn is not closed on record, closes it, and marks completed turns for memory.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from holdfast.agent import SessionAgent
from holdfast.core.errors import LeaseLost
from holdfast.core.events import (
    TURN_ENDS,
    Emit,
    Event,
    MessageAccepted,
    SessionRotated,
    TurnCompleted,
    TurnEvent,
    TurnFailed,
    TurnInterrupted,
    TurnResumed,
)
from holdfast.host.after_crash import ENDED, undecided_calls
from holdfast.host.ask_records import AskRecord
from holdfast.host.contract import HostParts
from holdfast.host.conversation_title import ConversationTitle
from holdfast.host.event_stream import EventStream
from holdfast.host.session_commands import SessionCommands
from holdfast.host.store_watcher import StoreWatcher, WatchedTurn
from holdfast.host.turn_end import end_event_on_record
from holdfast.process import off_loop
from holdfast.sessions import Session

CALLS_SECONDS = 1.0
"""How long tool calls that run may take to end when their turn is handed over."""


class TurnPublisher:
    """One conversation's turns. Everything on the host's loop."""

    def __init__(
        self,
        parts: HostParts,
        stream: EventStream,
        asks: AskRecord,
        watcher: StoreWatcher,
        running: WatchedTurn,
        renamed: Callable[[], None],
    ) -> None:
        """`renamed` is called when the conversation got its title."""
        self._parts = parts
        self._stream = stream
        self._asks = asks
        self._watcher = watcher
        self._running = running
        self._review = parts.make_review() if parts.make_review else None
        self._title = (
            ConversationTitle(parts.titles, parts.db, parts.pools.store, renamed) if parts.titles else None
        )
        self._unmarked: list[tuple[str, SessionAgent]] = []
        self.commands = SessionCommands()
        self.last_ended = ""
        """The last turn whose end was shown: from then on the session is idle."""
        self.unclosed = ""
        """A turn of this process that is not known to be closed on record."""
        self._is_suspended = False

    async def show(self, agent: SessionAgent, work: Callable[[Emit], Awaitable[None]]) -> None:
        """Publish what `work` emits; meanwhile what other processes say to the turn reaches it."""
        with self._watcher.watch_turn(self._running):
            await work(partial(self._publish, agent))
        if self._asks.unsettled and not self.unclosed and not self._is_suspended:
            # At once, also when the program ends now.
            await self.settle_asks(*self._asks.unsettled)

    async def resume(self, agent: SessionAgent) -> None:
        """Go on with a turn that another process left open; what that one had asked is asked again."""
        unfinished, undecided = await agent.unfinished(), set[str]()
        turn_id = "" if unfinished is None else unfinished.turn_id
        if unfinished is not None:
            undecided = undecided_calls(await self._asks.of_turn(turn_id))
            self.last_ended = ""  # it may have been shown as lost
            self._stream.publish(
                TurnResumed(session_id=unfinished.session_id, turn_id=turn_id, text=unfinished.said)
            )
        # What fails before the turn goes on is tried again, and needs its asks on record.
        resumed = partial(self.settle_asks, turn_id)
        await self.show(agent, partial(agent.resume_turn, undecided=undecided, resumed=resumed))

    async def hand_over(self, agent: SessionAgent) -> bool:
        """Leave the running turn to another process, or to the next one; False where it is to be stopped.

        A turn that only waits for a person is left by every host that recovers by itself; one at work is left
        where turns are resumed.
        """
        turn_id, options = agent.running_turn, self._parts.options
        if turn_id in self._asks.unsettled and options.recovers:
            self._is_suspended = agent.suspend(undecided_calls(await self._asks.withhold(turn_id)))
        if self._is_suspended or options.after_crash != "resume":
            return self._is_suspended
        agent.hand_over(CALLS_SECONDS)
        return agent.running_turn is not None

    async def drop(self, agent: SessionAgent, why: str = ENDED) -> None:
        """Close a turn that a dead process left open; the transcript says how far it got, and why it ends."""
        unfinished = await agent.unfinished()
        await agent.drop(why)  # refuses when there is none
        if unfinished is not None:
            await self.settle_asks(unfinished.turn_id)
            self._stream.publish(
                TurnInterrupted(session_id=unfinished.session_id, turn_id=unfinished.turn_id, reason=why)
            )

    async def close_record(self, agent: SessionAgent) -> None:
        """The store failed at a turn's end, or the lease was lost: close that turn, and show how it ended.

        Where the host recovers by itself, a turn that is still open then is handled as after a crash.
        """
        unfinished = await agent.unfinished()  # closes what this very agent left open
        is_open = unfinished is not None and unfinished.turn_id == self.unclosed
        if is_open and not self._parts.options.recovers:
            await agent.drop(ENDED)
        elif is_open:
            self._asks.leave(self.unclosed)
        turn_id, self.unclosed = self.unclosed, ""
        end = await off_loop(self._parts.pools.store, end_event_on_record, self._parts.db, turn_id)
        if end is None:
            return
        completed_here = isinstance(end, TurnCompleted) and await self._ran_it_last(agent, turn_id)
        # A turn that was shown as lost may end with its whole answer, when nobody else has touched it.
        if completed_here or turn_id != self.last_ended:
            self.last_ended = turn_id
            self._stream.publish(end)
        if completed_here and isinstance(end, TurnCompleted):
            self._completed(end, agent)

    async def _ran_it_last(self, agent: SessionAgent, turn_id: str) -> bool:
        """Whether no other process has resumed the turn: that one shows its end, and marks it."""
        holder = await off_loop(self._parts.pools.store, self._parts.db.turns.holder, turn_id)
        return agent.lease is not None and holder == agent.lease.holder

    async def settle_asks(self, *turn_ids: str) -> None:
        """Answers that these turns never took in become the next messages."""
        for turn_id in turn_ids:
            for message in await self._asks.settle(turn_id):
                self._stream.publish(
                    MessageAccepted(session_id=message.session_id, inbox_id=message.id, mode=message.mode)
                )

    @property
    def unmarked(self) -> tuple[str, ...]:
        """The sessions with completed turns that are not marked for memory yet; a boundary asks the store."""
        return tuple(dict.fromkeys(session_id for session_id, _ in self._unmarked))

    def mark(self, sessions: Sequence[Session]) -> None:
        """Mark for memory what was completed in the unmarked sessions, as they were just read."""
        found = {session.id: session for session in sessions}
        unmarked, self._unmarked = self._unmarked, []
        for session_id, agent in unmarked:
            if session_id in found:
                self._parts.lifecycle.mark_stored_turn(found[session_id], agent)

    async def close(self, seconds: float) -> None:
        """Cut off what runs in the background: a review, the making of a title."""
        if self._title is not None:
            await self._title.close(seconds)
        if self._review is not None:
            await self._review.close(seconds)

    def _publish(self, agent: SessionAgent, event: Event) -> None:
        """Give an event of the turn to every reader; the agent calls this as its `emit`."""
        self._note(event, agent)
        self._stream.publish(event)
        if isinstance(event, SessionRotated):
            self._parts.lifecycle.register_agent(event.child_id, agent)
        elif isinstance(event, TurnCompleted):
            self._completed(event, agent)

    def _note(self, event: Event, agent: SessionAgent) -> None:
        if isinstance(event, TURN_ENDS):
            self.last_ended = event.turn_id
            lost = isinstance(event, TurnFailed) and event.failure == LeaseLost.__name__
            self.unclosed = event.turn_id if lost else ""
        elif isinstance(event, TurnEvent) and event.turn_id == agent.running_turn:
            if self.unclosed != event.turn_id:
                self.commands.turn_began(event.session_id, event.turn_id)
                if self._title is not None:
                    self._title.turn_began()
            self.unclosed = event.turn_id

    def _completed(self, event: TurnCompleted, agent: SessionAgent) -> None:
        """A completed turn is to be marked, and may start a review or a title, for which nobody waits."""
        self._unmarked.append((event.session_id, agent))
        if self._title is not None and agent.scope.is_owner:
            self._title.turn_completed(event.session_id, agent.messages)
        reviewed = agent.scope.is_owner and agent.is_remembered
        if self._review is not None and reviewed and self._review.turn_completed():
            self._review.start(agent.messages, event.session_id)
