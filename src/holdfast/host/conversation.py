"""`Conversation`: one conversation's runner: at most one turn at a time, under the conversation's lease.

Its task lives while there is something to do: a message waits, something was wished for, or another
process runs the conversation and a reader here follows it. Messages are taken from the inbox in order, so
whatever enters there (a person's word, a background process's end) can't run beside a turn.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import ParamSpec, TypeVar

from holdfast.agent import Agent
from holdfast.core.errors import (
    HoldfastError,
    HostClosed,
    LeaseLost,
    NothingWaits,
    NotWaiting,
    OutcomeUnknown,
    Retryable,
    SessionElsewhere,
    SessionNotFound,
    StoreClosed,
    StoreFault,
)
from holdfast.core.events import (
    Event,
    MessageAccepted,
    SessionMoved,
    SessionRotated,
    SessionTrouble,
    TurnCompleted,
    TurnEvent,
    TurnFailed,
    TurnInterrupted,
)
from holdfast.host.agents import AgentCache
from holdfast.host.asks import AskRecord
from holdfast.host.changes import Changes
from holdfast.host.contract import HostParts
from holdfast.host.endings import end_on_record
from holdfast.host.following import Follower, end_of_conversation
from holdfast.host.holders import living_holder
from holdfast.host.stopping import is_asked_to_stop
from holdfast.host.streams import ENDS, EventStream
from holdfast.host.wishes import Wish, Wishes
from holdfast.process import off_loop
from holdfast.sessions.contract import InboxMessage, Lease
from holdfast.tools.asking import OpenQuestions

logger = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")

PASSING = (Retryable, OutcomeUnknown, StoreFault)
"""Troubles after which the runner looks again by itself."""
LONGEST_PAUSE = 5.0
LONGEST_REST = 15.0
"""How long a conversation that nothing happens to is left alone, even if no pulse wakes it."""
REVIEW_SECONDS = 0.5
"""How long a review that is cut off at the end may take to stop."""
INTERRUPTED = "the person interrupted"
HEAD_START = 1.0
"""How long a message accepted by another process is left to it before this one runs it, in seconds."""
_Look = tuple[str, list[InboxMessage]]
TAKEN_OVER = "its process ended in mid-turn"


class Conversation:
    """One conversation as this process knows it."""

    def __init__(
        self, root_id: str, parts: HostParts, agents: AgentCache, holder: str, changes: Changes
    ) -> None:
        self.root_id = root_id
        self._asks = AskRecord(parts.db, parts.pools.store)
        self.questions = OpenQuestions(parts.ask_seconds, self._asks)
        # Numbers go on from the time, so that none of an earlier life of the stream fits this one.
        self.stream = EventStream(
            root_id,
            parts.options.replay,
            first=int(parts.clock.now() * 1_000_000),
            clock=parts.clock,
            heard=partial(changes.heard, root_id),
        )
        self._spoken_here = False
        self._heard = (0, 0.0)  # a message accepted elsewhere, and when it was first seen here
        self._parked = 0  # messages up to this inbox id wait for a person's word
        self._parts = parts
        self._agents = agents
        self._holder = holder
        self._follower = Follower(parts, self.stream)
        self._pulse = changes.pulse
        self._review = parts.make_review() if parts.make_review else None
        self._wishes = Wishes()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._running: Agent | None = None
        self._over = ""  # the last turn whose end was shown: from then on the session is idle
        self._unended = ""  # a turn of this process that is not known to be closed on record
        self._closing = False
        self._deleted = False
        self._elsewhere = False
        self._looked: _Look | None = None  # what the look at the inbox found that came with the lease
        self._token = -1  # of the last lease here: the next one follows it when nobody had it in between
        self.used = parts.clock.monotonic()

    @property
    def session_id(self) -> str:
        """The session in which the conversation goes on, as far as this process has heard."""
        return self.stream.session_id

    @property
    def running_turn(self) -> str | None:
        turn_id = self._running.running_turn if self._running else None
        return turn_id if turn_id != self._over else None

    @property
    def is_served(self) -> bool:
        """Whether this process holds the conversation now."""
        return self._running is not None

    @property
    def is_unused(self) -> bool:
        """Whether nothing runs, nothing is asked and nobody reads here."""
        return self._task is None and not self._wishes and not self.stream.readers

    def poke(self) -> None:
        """There may be something to do."""
        self.used = self._parts.clock.monotonic()
        self._woken.set()
        if self._task is None and not self._closing:
            self._task = asyncio.create_task(self._run(), name=f"conversation {self.root_id}")
            self._task.add_done_callback(self._ended)

    def park(self, inbox_id: int) -> None:
        """Messages up to this one were left behind: they wait until a person speaks here."""
        self._parked = inbox_id

    def run_waiting(self) -> None:
        """A person has spoken here: everything that waits may run, in order."""
        self._parked = 0
        self._spoken_here = True
        self.poke()

    async def wish(self, wish: Wish) -> None:
        """Do this before the next turn, under the lease; returns when it is done.

        Raises `SessionElsewhere` when another process holds the conversation longer than this one's patience.
        """
        if self._closing:
            raise HostClosed
        answer = self._wishes.add(wish)
        self.poke()
        await answer

    def interrupt(self, turn_id: str | None, reason: str) -> bool:
        """Stop the turn if it is the one that runs here, or with None what runs; False when it doesn't."""
        running = self.running_turn
        if self._running is None or running is None:
            return turn_id is None and self._wishes.interrupt()
        if turn_id not in (None, running):
            return False
        self._running.interrupt(reason=reason)
        return True

    def retire(self) -> None:
        """The conversation is deleted: its lease is gone with it, and nothing more comes."""
        self._closing = self._deleted = True
        self._wishes.refuse(SessionNotFound(self.root_id))
        self.stream.close()

    async def close(self, reason: str) -> None:
        """Begin nothing more, cut off what runs, and wait for its record."""
        self._closing = True
        self._woken.set()
        self.interrupt(None, reason)
        try:
            while self._task is not None:
                await asyncio.wait([self._task])
        finally:
            self._wishes.refuse(HostClosed())
            self.stream.close()
        if self._review is not None:
            await self._review.close(REVIEW_SECONDS)

    # the runner

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        self.used = self._parts.clock.monotonic()
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            logger.error("host.runner_failed", exc_info=failure, extra={"session": self.root_id})
            self._trouble(failure)
        elif self._woken.is_set():
            self.poke()  # a message came between the last look and the end

    def _trouble(self, problem: BaseException, *, patience: float = 0.0) -> None:
        self.stream.publish(SessionTrouble(session_id=self.session_id, error=str(problem) or repr(problem)))
        self._wishes.refuse(problem, older_than=patience)

    async def _run(self) -> None:
        options = self._parts.options
        pause = options.poll_seconds
        while not self._closing:
            self._woken.clear()
            try:
                if not await self._go_on():
                    return
                pause = options.poll_seconds
            except StoreClosed as closed:
                self._wishes.refuse(closed)
                return
            except LeaseLost:
                # Another process goes on, or this one stood still for too long: look who it is.
                await self._rest(options.poll_seconds)
            except PASSING as trouble:
                self._trouble(trouble, patience=options.patience_seconds)
                await self._rest(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            except HoldfastError as trouble:
                self._trouble(trouble)
                return

    async def _go_on(self) -> bool:
        """One look at the conversation; False when there is nothing to do and nobody to do it for."""
        message = await self._next()
        if message is None:
            self._spoken_here = False
        if self._unended or self._wishes or (message is not None and self._may_take(message)):
            lease, self._looked = await self._call(self._hold)
            if lease is not None:
                await self._serve(lease)
                if self.stream.readers:
                    await self._rest(self._parts.options.poll_seconds)  # nobody else has done anything yet
                return True
        elif message is None and not self.stream.readers:
            return False
        # Another process runs it, or a reader here wants to know when one does.
        await self._look_elsewhere()
        if message is None and not self._elsewhere and not self._wishes and not self._unended:
            async with self._pulse.resting(self.root_id, self._woken):
                await self._rest(LONGEST_REST)
        else:
            await self._rest(self._parts.options.poll_seconds)
        return True

    def _hold(self) -> "tuple[Lease | None, _Look | None]":
        lease = self._parts.db.hold_session(self.root_id, self._holder)
        return lease, None if lease is None else self._look_at_inbox()

    def _may_take(self, message: InboxMessage) -> bool:
        """Whoever accepted a message runs it; a process that only reads here lets that one go first."""
        if self._spoken_here:
            return True
        now = self._parts.clock.monotonic()
        if self._heard[0] != message.id:
            self._heard = (message.id, now)
        return now - self._heard[1] >= HEAD_START

    async def _look_elsewhere(self) -> None:
        holder = await self._call(living_holder, self._parts.db, self.root_id)
        self._moved(elsewhere=self._elsewhere or holder is not None)
        await self._follower.look(self.root_id)
        self._moved(elsewhere=holder is not None)
        self._wishes.refuse(
            SessionElsewhere(self.session_id, holder or "another process"),
            older_than=self._parts.options.patience_seconds,
        )

    def _moved(self, *, elsewhere: bool) -> None:
        if elsewhere != self._elsewhere:
            self._elsewhere = elsewhere
            self.stream.publish(SessionMoved(session_id=self.session_id, elsewhere=elsewhere))

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    async def _serve(self, lease: Lease) -> None:
        """Run what waits, while this process holds the conversation."""
        try:
            if self._follower.is_following and lease.token != self._token + 1:
                # What another process stored up to now is shown before anything of this one.
                await self._follower.look(self.root_id)
            self._token = lease.token
            self._moved(elsewhere=False)
            agent = self._agents.take(
                self.root_id, lambda: self._parts.make_agent(self.session_id, self.questions)
            )
            agent.lease = self._asks.lease = lease
            self._running = agent
            self._parts.lifecycle.register_agent(agent.session_id, agent)
            await self._until_idle(agent)
        finally:
            self._running = self._asks.lease = None
            self._agents.give_back(self.root_id)
            await self._let_go()

    async def _let_go(self) -> None:
        if self._deleted:
            return
        try:
            self._follower.skip(await self._call(self._leave))
        finally:
            self._looked = None

    def _leave(self) -> tuple[str, int]:
        """Let the lease go; returns up to where this process has shown the conversation."""
        try:
            return end_of_conversation(self._parts.db, self.root_id)
        finally:
            # A lease that is kept would be renewed for ever, and nobody could go on.
            self._parts.db.let_go_of_session(self.root_id, self._holder)

    async def _until_idle(self, agent: Agent) -> None:
        while not self._closing:
            if self._unended:
                await self._close_record(agent)
            elif self._asks.unsettled:
                await self.settle_asks(*self._asks.unsettled)
            elif self._wishes:
                self._looked = None
                await self._wishes.grant(agent)
            elif await self._next() is None:
                return
            else:
                if await agent.unfinished() is not None:
                    await self.drop(agent)
                with suppress(NotWaiting, NothingWaits):  # withdrawn between the look and the taking
                    await self.show(agent, agent.stream())

    async def _close_record(self, agent: Agent) -> None:
        """The store failed at a turn's end, or the lease was lost: close that turn, and show how it ended."""
        unfinished = await agent.unfinished()  # closes what this very agent left open
        if unfinished is not None and unfinished.turn_id == self._unended:
            await agent.drop()
        turn_id, self._unended = self._unended, ""
        end = await self._call(end_on_record, self._parts.db, turn_id)
        if end is not None and turn_id != self._over:
            self._over = turn_id
            self.stream.publish(end)
            await self._mark(end, agent)

    async def drop(self, agent: Agent) -> None:
        """Close a turn that a dead process left open; the transcript says how far it got."""
        unfinished = await agent.unfinished()
        await agent.drop()  # refuses when there is none
        if unfinished is not None:
            await self.settle_asks(unfinished.turn_id)
            self.stream.publish(
                TurnInterrupted(
                    session_id=unfinished.session_id, turn_id=unfinished.turn_id, reason=TAKEN_OVER
                )
            )

    async def resume(self, agent: Agent) -> None:
        """Go on with a turn that a dead process left open; what that one had asked is over."""
        unfinished = await agent.unfinished()
        if unfinished is not None:
            await self.settle_asks(unfinished.turn_id)
        await self.show(agent, agent.stream_resumed())

    async def settle_asks(self, *turn_ids: str) -> None:
        """Answers that these turns never took in become the next messages."""
        for turn_id in turn_ids:
            for message in await self._asks.settle(turn_id):
                self.stream.publish(
                    MessageAccepted(session_id=message.session_id, inbox_id=message.id, mode=message.mode)
                )

    async def show(self, agent: Agent, events: AsyncGenerator[Event, None]) -> None:
        """Publish what happens, and mark a completed turn for memory."""
        listening = asyncio.create_task(self._listen(agent), name=f"interrupts {self.root_id}")
        try:
            async with aclosing(events) as happening:
                async for event in happening:
                    self._note(event, agent)
                    self.stream.publish(event)
                    if isinstance(event, SessionRotated):
                        self._parts.lifecycle.register_agent(event.child_id, agent)
                    await self._mark(event, agent)
        finally:
            listening.cancel()
            await asyncio.wait([listening])
        if self._asks.unsettled and not self._unended:
            # At once, also when the program ends now.
            await self.settle_asks(*self._asks.unsettled)

    def _note(self, event: Event, agent: Agent) -> None:
        if isinstance(event, ENDS):
            self._over = event.turn_id
            lost = isinstance(event, TurnFailed) and event.failure == LeaseLost.__name__
            self._unended = event.turn_id if lost else ""
        elif isinstance(event, TurnEvent) and event.turn_id == agent.running_turn:
            self._unended = event.turn_id

    async def _mark(self, event: Event, agent: Agent) -> None:
        """A completed turn is marked for memory, and may start a review, for which nobody waits."""
        if isinstance(event, TurnCompleted):
            await self._call(self._parts.lifecycle.mark_turn_completed, event.session_id, agent)
            if self._review is not None and self._review.turn_completed():
                self._review.start(agent.messages)

    async def _listen(self, agent: Agent) -> None:
        """Heed interrupts and answers that come through another process."""
        while True:
            await asyncio.sleep(self._parts.options.poll_seconds)
            turn_id = agent.running_turn
            if turn_id is None:
                continue
            try:
                if await self._call(is_asked_to_stop, self._parts.db, agent.session_id, turn_id):
                    self.interrupt(turn_id, INTERRUPTED)
                for ask in await self._asks.answered(turn_id) if self.questions.open() else ():
                    self.questions.answer(ask.id, ask.answer or "")
            except PASSING:
                logger.warning("host.others_not_heard", exc_info=True, extra={"session": self.root_id})
            except StoreClosed:
                return

    async def _next(self) -> InboxMessage | None:
        """The message whose turn it is."""
        looked, self._looked = self._looked, None
        live, waiting = await self._call(self._look_at_inbox) if looked is None else looked
        self.stream.session_id = live
        self.stream.waiting = len(waiting)
        return waiting[0] if waiting and waiting[0].id > self._parked else None

    def _look_at_inbox(self) -> _Look:
        live = self._parts.db.live_end(self.root_id)
        return live, self._parts.db.inbox.waiting(live)

    async def _call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await off_loop(self._parts.pools.store, fn, *args, **kwargs)
