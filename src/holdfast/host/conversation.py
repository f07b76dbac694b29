"""`Conversation`: one conversation's runner: at most one turn at a time, under the conversation's lease.

Its task lives while there is something to do: a message waits, something was wished for, or another
process runs the conversation and a reader here follows it. Messages are taken from the inbox in order, so
whatever enters there (a person's word, a background process's end) can't run beside a turn.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import ParamSpec, TypeVar

from holdfast.agent import Agent
from holdfast.core.errors import HoldfastError, Retryable, StoreClosed
from holdfast.core.events import (
    Event,
    SessionMoved,
    SessionRotated,
    SessionTrouble,
    TurnCompleted,
    TurnInterrupted,
)
from holdfast.host.agents import AgentCache
from holdfast.host.contract import HostParts
from holdfast.host.following import Follower
from holdfast.host.streams import EventStream
from holdfast.process import off_loop
from holdfast.sessions.contract import InboxMessage, Lease
from holdfast.tools.asking import OpenQuestions

logger = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")

Wish = Callable[[Agent], Awaitable[None]]
"""Something to do with the agent while no turn runs: resume a turn, compact."""

LONGEST_PAUSE = 5.0
REVIEW_SECONDS = 0.5
"""How long a review that is cut off at the end may take to stop."""
TAKEN_OVER = "its process ended in mid-turn"


class Conversation:
    """One conversation as this process knows it."""

    def __init__(self, root_id: str, parts: HostParts, agents: AgentCache, holder: str) -> None:
        self.root_id = root_id
        self.questions = OpenQuestions(parts.ask_seconds)
        self.stream = EventStream(root_id, parts.options.replay)
        self._parts = parts
        self._agents = agents
        self._holder = holder
        self._follower = Follower(parts, self.stream)
        self._review = parts.make_review() if parts.make_review else None
        self._wishes: deque[tuple[Wish, asyncio.Future[None]]] = deque()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._running: Agent | None = None
        self._closing = False
        self.elsewhere = False

    @property
    def session_id(self) -> str:
        """The session in which the conversation goes on, as far as this process has heard."""
        return self.stream.session_id

    @property
    def running_turn(self) -> str | None:
        return self._running.running_turn if self._running else None

    @property
    def is_busy(self) -> bool:
        return self._task is not None

    def poke(self) -> None:
        """There may be something to do."""
        self._woken.set()
        if self._task is None and not self._closing:
            self._task = asyncio.create_task(self._run(), name=f"conversation {self.root_id}")
            self._task.add_done_callback(self._ended)

    async def wish(self, wish: Wish) -> None:
        """Do this before the next turn, under the lease; returns when it is done."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wishes.append((wish, done))
        self.poke()
        await done

    def interrupt(self, turn_id: str | None, reason: str) -> bool:
        """Stop the turn if it is the one that runs here; False when it is not."""
        agent = self._running
        if agent is None or agent.running_turn is None or turn_id not in (None, agent.running_turn):
            return False
        agent.interrupt(reason=reason)
        return True

    async def close(self, reason: str) -> None:
        """Begin nothing more, cut off what runs, and wait for its record."""
        self._closing = True
        self._woken.set()
        self.interrupt(None, reason)
        while self._task is not None:
            await asyncio.wait([self._task])
        for _, done in self._wishes:
            done.cancel()
        if self._review is not None:
            await self._review.close(REVIEW_SECONDS)
        self.stream.close()

    # the runner

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if not task.cancelled() and task.exception() is not None:
            logger.error("host.runner_failed", exc_info=task.exception(), extra={"session": self.root_id})
            self.stream.publish(SessionTrouble(session_id=self.session_id, error=str(task.exception())))
        elif self._woken.is_set():
            self.poke()  # a message came between the last look and the end

    async def _run(self) -> None:
        pause = self._parts.options.poll_seconds
        while not self._closing:
            self._woken.clear()
            try:
                if not await self._go_on():
                    return
                pause = self._parts.options.poll_seconds
            except StoreClosed:
                return
            except HoldfastError as trouble:
                self.stream.publish(SessionTrouble(session_id=self.session_id, error=str(trouble)))
                if not isinstance(trouble, Retryable):
                    return
                await self._rest(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _go_on(self) -> bool:
        """One look at the conversation; False when there is nothing to do and nobody to do it for."""
        if self._wishes or await self._oldest() is not None:
            lease = await self._call(self._parts.db.hold_session, self.root_id, self._holder)
            if lease is not None:
                await self._serve(lease)
                return True
        elif not self.stream.readers:
            return False
        # Another process runs it, or a reader here wants to know when one does.
        await self._look_elsewhere()
        await self._rest(self._parts.options.poll_seconds)
        return True

    async def _look_elsewhere(self) -> None:
        held = await self._call(self._parts.db.session_holder, self.root_id) is not None
        if held != self.elsewhere:
            self.elsewhere = held
            self.stream.publish(SessionMoved(session_id=self.session_id, elsewhere=held))
        await self._follower.look(self.root_id)

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    async def _serve(self, lease: Lease) -> None:
        """Run what waits, while this process holds the conversation."""
        self.elsewhere = False
        agent = self._agents.take(
            self.root_id, lambda: self._parts.make_agent(self.session_id, self.questions)
        )
        agent.lease = lease
        self._running = agent
        self._parts.lifecycle.register_agent(agent.session_id, agent)
        try:
            await self._until_idle(agent)
        finally:
            self._running = None
            self._agents.give_back(self.root_id)
            await self._follower.skip(self.root_id)
            await self._call(self._parts.db.let_go_of_session, self.root_id, self._holder)

    async def _until_idle(self, agent: Agent) -> None:
        while not self._closing:
            if self._wishes:
                await self._grant(agent)
                continue
            if await self._oldest() is None:
                return
            await self._close_unfinished(agent)
            await self.show(agent, agent.stream())

    async def _grant(self, agent: Agent) -> None:
        wish, done = self._wishes.popleft()
        if done.done():
            return  # who wished for it has gone
        try:
            await wish(agent)
        except HoldfastError as refusal:
            done.set_exception(refusal)
        else:
            done.set_result(None)

    async def _close_unfinished(self, agent: Agent) -> None:
        """Close a turn that a dead process left open; the transcript says how far it got."""
        unfinished = await agent.unfinished()
        if unfinished is not None:
            await agent.drop()
            self.stream.publish(
                TurnInterrupted(
                    session_id=unfinished.session_id, turn_id=unfinished.turn_id, reason=TAKEN_OVER
                )
            )

    async def show(self, agent: Agent, events: AsyncGenerator[Event, None]) -> None:
        """Publish what happens, and mark a completed turn for memory."""
        listening = asyncio.create_task(self._listen(agent), name=f"interrupts {self.root_id}")
        try:
            async with aclosing(events) as happening:
                async for event in happening:
                    self.stream.publish(event)
                    if isinstance(event, SessionRotated):
                        self._parts.lifecycle.register_agent(event.child_id, agent)
                    if isinstance(event, TurnCompleted):
                        await self._call(self._parts.lifecycle.mark_turn_completed, event.session_id, agent)
                        self._look_back(agent)
        finally:
            listening.cancel()
            await asyncio.wait([listening])

    def _look_back(self, agent: Agent) -> None:
        """Start a review if one is due; nobody waits for it."""
        if self._review is not None and self._review.turn_completed():
            self._review.start(agent.messages)

    async def _listen(self, agent: Agent) -> None:
        """Heed interrupts that reach the inbox through another process."""
        while True:
            await asyncio.sleep(self._parts.options.poll_seconds)
            turn_id = agent.running_turn
            if turn_id is None:
                continue
            with suppress(Retryable):
                waiting = await self._call(self._parts.db.inbox.waiting, agent.session_id)
                if any(each.mode == "interrupt" and each.addressed_to == turn_id for each in waiting):
                    self.interrupt(turn_id, "the person interrupted")

    async def _oldest(self) -> InboxMessage | None:
        live = await self._call(self._parts.db.live_end, self.root_id)
        waiting = await self._call(self._parts.db.inbox.waiting, live)
        self.stream.session_id = live
        self.stream.waiting = len(waiting)
        return waiting[0] if waiting else None

    async def _call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await off_loop(self._parts.pools.store, fn, *args, **kwargs)
