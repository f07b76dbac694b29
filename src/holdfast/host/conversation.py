"""`Conversation`: one conversation's runner: at most one turn at a time, under the conversation's lease.

Its task lives while there is something to do: a message waits, something was wished for, or another
process runs the conversation and a reader here follows it. Messages are taken from the inbox in order, so
whatever enters there (a person's word, a background process's end) can't run beside a turn.
"""

import asyncio
import logging
import weakref
from contextlib import suppress
from functools import partial

from holdfast.agent import Agent
from holdfast.core.errors import (
    HoldfastError,
    HostClosed,
    LeaseLost,
    NothingWaits,
    NotWaiting,
    SessionElsewhere,
    SessionNotFound,
    StoreClosed,
)
from holdfast.core.events import SessionMoved, SessionTrouble
from holdfast.host.agents import AgentCache
from holdfast.host.asks import AskRecord
from holdfast.host.changes import Changes
from holdfast.host.contract import HostParts
from holdfast.host.ears import PASSING, Ears, Listener
from holdfast.host.following import Follower
from holdfast.host.looks import Held, Looks
from holdfast.host.showing import Showing
from holdfast.host.streams import EventStream
from holdfast.host.wishes import Wish, Wishes
from holdfast.sessions.contract import InboxMessage, Lease, Look
from holdfast.tools.asking import OpenQuestions

logger = logging.getLogger(__name__)

LONGEST_PAUSE = 5.0
LONGEST_REST = 15.0
"""How long a conversation that nothing happens to is left alone, even if no pulse wakes it."""
REVIEW_SECONDS = 0.5
"""How long a review that is cut off at the end may take to stop."""
INTERRUPTED = "the person interrupted"
HEAD_START = 1.0
"""How long a message accepted by another process is left to it before this one runs it, in seconds."""


class Conversation:
    """One conversation as this process knows it."""

    def __init__(
        self,
        root_id: str,
        parts: HostParts,
        agents: AgentCache,
        holder: str,
        changes: Changes,
        ears: Ears,
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
        self._follower = Follower(parts, self.stream)
        self._pulse = changes.pulse
        # By a weak reference: a conversation that is let go is gone at once, and with it all that was said.
        here = weakref.proxy(self)
        listener = Listener(
            lambda: here._running.running_turn if here._running else None,  # noqa: SLF001 - itself
            lambda turn_id: here.interrupt(turn_id, INTERRUPTED),
            self.questions,
        )
        self.showing = Showing(parts, self.stream, self._asks, ears, listener)
        self._looks = Looks(root_id, parts.db, parts.pools.store, holder, self._follower, self.showing.mark)
        self._wishes = Wishes()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._running: Agent | None = None
        self._closing = False
        self._deleted = False
        self._elsewhere = False
        self._held: Held | None = None  # taken when the conversation began, until the runner goes on from it
        self._looked: Look | None = None  # what the look found that came with the lease
        self._end: Look | None = None  # where it was left, when the last look has left it
        self._left = False  # since it was left with nothing to do, nobody has come here
        self._token = -1  # of the last lease here: the next one follows it when nobody had it in between
        self.used = parts.clock.monotonic()

    @property
    def session_id(self) -> str:
        """The session in which the conversation goes on, as far as this process has heard."""
        return self.stream.session_id

    @property
    def running_turn(self) -> str | None:
        turn_id = self._running.running_turn if self._running else None
        return turn_id if turn_id != self.showing.over else None

    @property
    def is_served(self) -> bool:
        """Whether this process holds the conversation now."""
        return self._running is not None

    @property
    def is_wanted(self) -> bool:
        """Whether this process holds it, or is about to: somebody has spoken here."""
        return self.is_served or self._spoken_here

    @property
    def is_unused(self) -> bool:
        """Whether nothing runs, nothing is asked and nobody reads here."""
        return self._task is None and not self._wishes and not self.stream.readers

    def poke(self) -> None:
        """There may be something to do."""
        self.used = self._parts.clock.monotonic()
        self._left = False
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

    def held(self, held: Held) -> None:
        """The lease was taken when the conversation began: the runner goes on from there."""
        self._held = held

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
            if self._held is not None:
                self._held = None
                await self._looks.leave()
        finally:
            self._wishes.refuse(HostClosed())
            self.stream.close()
        await self.showing.close(REVIEW_SECONDS)

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
            except SessionNotFound as gone:
                # Deleted by another process: nothing here is left to be closed or run.
                self._spoken_here, self.showing.unended = False, ""
                self._trouble(gone)
                return
            except HoldfastError as trouble:
                self._trouble(trouble)
                if not self.showing.unended:
                    return
                # A turn here is not known to be closed: whoever waits for its end must hear of it.
                await self._rest(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _go_on(self) -> bool:
        """One look at the conversation; False when there is nothing to do and nobody to do it for."""
        wanted = bool(self.showing.unended or self._wishes or self._spoken_here)
        if wanted and await self._serve_if_free():
            return True
        if self._left and not wanted and not self.stream.readers:
            return False
        # Another process runs it, or a reader here wants to know when one does.
        message = await self._look_elsewhere()
        if not wanted:
            if message is None and not self.stream.readers:
                return False
            if message is not None and self._may_take(message) and await self._serve_if_free():
                return True
        if message is None and not self._elsewhere and not wanted:
            async with self._pulse.resting(self.root_id, self._woken):
                await self._rest(LONGEST_REST)
        else:
            await self._rest(self._parts.options.poll_seconds)
        return True

    async def _serve_if_free(self) -> bool:
        """Serve the conversation under its lease, unless another process holds that."""
        # Cleared before the look: what is said from now on is not in it.
        spoken, self._spoken_here = self._spoken_here, False
        served = False
        try:
            held, self._held = self._held, None
            lease, self._looked = held or await self._looks.hold()
            if lease is not None:
                await self._serve(lease)
                served = True
        finally:
            self._spoken_here = self._spoken_here or (spoken and not served)
        if served and self.stream.readers:
            await self._rest(self._parts.options.poll_seconds)  # nobody else has done anything yet
        return served

    def _may_take(self, message: InboxMessage) -> bool:
        """Whoever accepted a message runs it; a process that only reads here lets that one go first."""
        now = self._parts.clock.monotonic()
        if self._heard[0] != message.id:
            self._heard = (message.id, now)
        return now - self._heard[1] >= HEAD_START

    async def _look_elsewhere(self) -> InboxMessage | None:
        """See and show what other processes do here; returns the message whose turn it is."""
        look, holder, news = await self._looks.around(follow=bool(self.stream.readers or self._wishes))
        message = self._heard_of(look)
        if news is not None:
            self._moved(elsewhere=self._elsewhere or holder is not None)
            self._follower.show(news)
            self._moved(elsewhere=holder is not None)
        self._wishes.refuse(
            SessionElsewhere(self.session_id, holder or "another process"),
            older_than=self._parts.options.patience_seconds,
        )
        return message

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
        self._looked = None
        if self._deleted:
            return
        end, self._end = self._end, None
        self._left = self._left and end is not None
        self._follower.skip(end or await self._looks.leave())

    async def _until_idle(self, agent: Agent) -> None:
        while not self._closing:
            if self.showing.unended:
                await self.showing.close_record(agent)
            elif self._asks.unsettled:
                await self.showing.settle_asks(*self._asks.unsettled)
            elif self._wishes:
                self._looked = None
                await self._wishes.grant(agent)
            else:
                look = await self._next_look()
                if self._heard_of(look) is None or self._end is not None:
                    return
                if look.open_turn and await agent.unfinished() is not None:
                    await self.showing.drop(agent)
                with suppress(NotWaiting, NothingWaits):  # withdrawn between the look and the taking
                    await self.showing.show(agent, agent.stream(seen=look))

    async def _next_look(self) -> Look:
        """The look that came with the lease, else a fresh one, with which the lease may go."""
        looked, self._looked = self._looked, None
        if looked is not None:
            return looked
        self._spoken_here = False
        self._left = True
        look, left = await self._looks.look_or_leave(self._parked)
        self._end = look if left else None
        return look

    def _heard_of(self, look: Look) -> InboxMessage | None:
        """Take down what a look has found; returns the message whose turn it is."""
        self.stream.session_id = look.live
        self.stream.waiting = len(look.waiting)
        return look.first(self._parked)
