"""`Host`: runs sessions for every surface. A surface makes one call here and renders the events.

Everything that can go wrong around a turn is solved below this line, once: queueing, interrupting, storing,
taking over from a dead process, remembering, recovering, stopping.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

from holdfast.agent import Agent, Unfinished
from holdfast.agent.turn_store import settled
from holdfast.core.contract import Message
from holdfast.core.errors import (
    HoldfastError,
    InvalidInput,
    SessionNotFound,
)
from holdfast.core.events import Event
from holdfast.core.ids import new_id
from holdfast.host.asks import answer_ask
from holdfast.host.contract import (
    Accepted,
    Beginning,
    HostParts,
    HostStatus,
    ModelList,
    Numbered,
)
from holdfast.host.conversation import INTERRUPTED, Conversation
from holdfast.host.looks import Held, keep, take_hold
from holdfast.host.memory_desk import MemoryDesk
from holdfast.host.overview import Overview
from holdfast.host.recovery import Recovery, cut_off
from holdfast.host.shutdown import shut_down
from holdfast.host.stopping import ask_to_stop
from holdfast.host.talking import accepted, batches_of, persons, put
from holdfast.models.contract import ModelTraits
from holdfast.process import ShutdownBudget
from holdfast.sessions import InboxMessage
from holdfast.sessions.contract import Mode, NewSession
from holdfast.sessions.leases import session_lease
from holdfast.tools.asking import approval_word

logger = logging.getLogger(__name__)

PLAINLY = Beginning()


class Host(Overview):
    """The sessions of one process. An async context manager; every method on its loop."""

    def __init__(self, parts: HostParts) -> None:
        super().__init__(parts)
        self._background: set[asyncio.Task[Any]] = set()
        self._ending: asyncio.Task[list[str]] | None = None
        conversations = self._conversations
        self._recovery = Recovery(
            parts, conversations.open, conversations.commit, conversations.agents.__contains__
        )
        self.memory = MemoryDesk(parts, self._call)

    async def __aenter__(self) -> Self:
        self._in_background(self._recovery.run())
        self._in_background(self._conversations.sweep())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._ending is None:
            for line in await self.close():
                logger.warning("host.owed", extra={"owed": line})
        else:
            await self.close()

    # talking

    async def send(
        self,
        session_id: str,
        text: str | Message,
        mode: Mode = "queue",
        *,
        key: str | None = None,
        create: bool = True,
    ) -> Accepted:
        """Store a message, then let it wait, steer the running turn or interrupt it.

        Once this returns the message is not lost. A `key` makes the call idempotent. A session that is not
        there begins with this message or, without `create`, is refused (`SessionNotFound`).
        """
        message = persons(text)
        # What is stored here is run here, also when its sender has left meanwhile.
        return await settled(self._send(session_id, message, mode, key, create))

    async def _send(
        self, session_id: str, message: Message, mode: Mode, key: str | None, create: bool
    ) -> Accepted:
        conversation = await self._conversations.opened_or_open(session_id, create=create)
        # Taken down before it is stored: what runs later may be this very message's turn.
        running = conversation.running_turn
        try:
            stored = await self._call.visit(partial(put, self._db, conversation.root_id, message, mode, key))
        except SessionNotFound:
            # Deleted through another process.
            self._conversations.forget(conversation)
            conversation = await self._conversations.open(session_id, create=create)
            running = None
            stored = await self._call.visit(partial(put, self._db, conversation.root_id, message, mode, key))
        return accepted(conversation, stored, running)

    async def begin(
        self, session_id: str, text: str | Message, how: Beginning = PLAINLY
    ) -> tuple[Accepted, AsyncGenerator[list[Numbered], None]]:
        """Begin a session with a message, both or neither.

        Returns what follows as well, from the first event on, as `event_batches` does.
        """
        message, left = persons(text), how.prev_session_id
        before = await self._conversations.open(left) if left else None
        # What is stored here is run here, also when its sender has left meanwhile.
        return await settled(self._begin(session_id, message, how, before))

    async def _begin(
        self, session_id: str, message: Message, how: Beginning, before: Conversation | None
    ) -> tuple[Accepted, AsyncGenerator[list[Numbered], None]]:
        stored, held = await self._call.visit(
            partial(self._begun, session_id, message, how), lambda begun: keep(self._db, begun[1])
        )
        if stored.session_id != session_id:
            conversation = await self._conversations.open(stored.session_id)
        else:
            conversation = self._conversations.begun(session_id)
            if held[0] is not None:
                conversation.held(held)
            self._told(session_id)
            if before is not None:
                self._in_background(self._conversations.commit(before))
        return accepted(conversation, stored, None), batches_of(conversation, 0)

    async def events(self, session_id: str, *, after: int | None = None) -> AsyncGenerator[Numbered, None]:
        """The conversation's events after a number, then live; without one, a snapshot first."""
        async with aclosing(await self.event_batches(session_id, after=after)) as batches:
            async for batch in batches:
                for numbered in batch:
                    yield numbered

    async def event_batches(
        self, session_id: str, *, after: int | None = None, from_now: bool = False
    ) -> AsyncGenerator[list[Numbered], None]:
        """The same, all that is there at once, for a reader that would rather take much than often.

        A session that is not there is refused now, not at the first read. `from_now` is for who is about to
        send a message and wants what follows it.
        """
        if from_now:
            conversation = await self._conversations.opened_or_open(session_id)
            after = conversation.stream.number
        elif (here := self._conversations.opened.get(session_id)) is not None and here.is_wanted:
            conversation = here  # it is about to run here, or runs: so it is there
        else:
            conversation = await self._conversations.open(session_id)
        return batches_of(conversation, after)

    def watch(self, watcher: Callable[[Event], None]) -> None:
        """Let somebody hear every event of every conversation here; they must not wait."""
        self._conversations.changes.watch(watcher)

    async def interrupt(self, session_id: str, text: str = "") -> bool:
        """Stop the running turn, in whichever process; a text becomes the next one. False: nothing runs."""
        if text:
            return (await self.send(session_id, text, "interrupt")).interrupts is not None
        conversation = await self._conversations.open(session_id)
        if conversation.is_served:
            return conversation.interrupt(None, INTERRUPTED)
        return await self._call(ask_to_stop, self._db, conversation.root_id, self._conversations.holder)

    async def answer(self, session_id: str, ask_id: str, text: str) -> bool:
        """Answer the agent's question, or an approval with yes, no or always, in whichever process it asks.

        When that ask is closed already the text is not lost: it becomes the next message, unless it is
        only a yes or no to an approval. True when the answer counted.
        """
        conversation = await self._conversations.open(session_id)
        lease_name = session_lease(conversation.root_id)
        if await self._call(answer_ask, self._db, ask_id, text, lease_name):
            # Asked here, it is heard at once; a turn in another process looks at the store.
            conversation.questions.answer(ask_id, text)
            return True
        if approval_word(text) is None:
            await self.send(session_id, text)
        return False

    async def approve(self, session_id: str, ask_id: str, decision: str) -> bool:
        """Decide an approval: yes, no, or always (with a pattern). True when the decision counted."""
        return await self.answer(session_id, ask_id, decision)

    # sessions

    async def new_session(
        self, prev_session_id: str | None = None, *, session_id: str | None = None, title: str | None = None
    ) -> str:
        """Begin a session. The one before it reaches a boundary: its memory is committed, in background."""
        before = await self._conversations.open(prev_session_id) if prev_session_id else None
        fresh = session_id or new_id()
        await self._call.visit(partial(self._db.create_session, fresh, source=self.source, title=title))
        self._conversations.begun(fresh)
        self._told(fresh)
        if before is not None:
            self._in_background(self._conversations.commit(before))
        return fresh

    async def clear(self, session_id: str) -> str:
        """End a conversation and begin an empty one. What was said stays on record."""
        conversation = await self._conversations.open(session_id)

        async def end(agent: Agent) -> None:
            if await agent.unfinished() is not None:
                await conversation.showing.drop(agent)
            await self._call(self._db.end_session, agent.session_id, "cleared")

        await conversation.wish(end)
        self._told(conversation.root_id)
        fresh = await self.new_session()
        self._in_background(self._conversations.part_with(conversation))
        return fresh

    async def truncate(self, session_id: str, *, before: int) -> str:
        """Go on as if nothing from a message on had been said, in a branch; the original stays on record."""
        conversation = await self._conversations.idle(session_id)
        branch = await self.branch(session_id, before=before)
        self._in_background(self._conversations.commit(conversation))
        return branch

    async def retry(self, session_id: str) -> str:
        """Say the last message again, as if it had not been answered; returns the session it is in."""
        conversation = await self._conversations.idle(session_id)
        unfinished = await self.unfinished(session_id)
        if unfinished is not None:
            await conversation.wish(conversation.showing.drop)
            await self.send(session_id, unfinished.message)
            return conversation.session_id
        stored = await self.messages(session_id)
        last = next((each.turn_id for each in reversed(stored) if each.turn_id is not None), None)
        first = next((each for each in stored if each.turn_id == last and last is not None), None)
        if first is None or first.message["role"] != "user":
            raise InvalidInput("there is nothing to say again in this session")
        branch = await self.truncate(session_id, before=first.seq)
        await self.send(branch, first.message)
        return branch

    async def unfinished(self, session_id: str) -> Unfinished | None:
        """The turn that a crash cut off here, to be resumed, retried or dropped."""
        conversation = await self._conversations.open(session_id)
        if conversation.is_served:
            return None
        return await self._call(cut_off, self._db, conversation.root_id)

    async def resume(self, session_id: str) -> None:
        """Go on with the unfinished turn; ends when that turn has ended."""
        conversation = await self._conversations.open(session_id)
        await conversation.wish(conversation.showing.resume)

    async def drop(self, session_id: str) -> None:
        """End the unfinished turn; what it had produced stays on record."""
        conversation = await self._conversations.open(session_id)
        await conversation.wish(conversation.showing.drop)

    async def compact(self, session_id: str, focus: str = "") -> str:
        """Compact the conversation now; returns the session in which it goes on."""
        conversation = await self._conversations.open(session_id)
        await conversation.wish(
            lambda agent: conversation.showing.show(agent, agent.stream_compaction(focus))
        )
        return await self._call(self._db.live_end, session_id)

    async def run_waiting(self, session_id: str) -> None:
        """Run the messages that waited here when the host started."""
        (await self._conversations.open(session_id)).run_waiting()

    async def replace_waiting(
        self, inbox_id: int, text: str | Message, mode: Mode | None = None
    ) -> InboxMessage:
        """Change a message that still waits, and how it waits; `NotWaiting` once a turn has taken it."""
        message = persons(text)
        changed = await self._call(self._db.inbox.edit, inbox_id, message, mode=mode)
        conversation = await self._conversations.open(changed.session_id)
        if mode == "interrupt" and changed.addressed_to is not None:
            conversation.interrupt(changed.addressed_to, INTERRUPTED)
        conversation.poke()
        self._told(conversation.root_id)
        return changed

    async def delete(self, session_id: str, *, force: bool = False) -> None:
        """Delete the whole conversation, for good; branches that left it stay.

        Refused while a turn of it runs (`TurnAlreadyRunning`, `SessionElsewhere`) or a message waits in it
        (`SessionBusy`). What is owed to memory is waited for, for the host's patience, and then a reason to
        refuse (`StillOwed`). `force` deletes what waits and what is owed with the rest.
        """
        conversation = await self._conversations.idle(session_id)
        if not force:
            await self._delivered(conversation.root_id)
        await self._conversations.delete(conversation, force=force)

    # knowing

    async def models(self) -> ModelList:
        """The model that answers now, and those there are beside it."""
        where, names = await self._parts.models.names() if self._parts.models else ("", [])
        return ModelList(self.model, where, names)

    async def switch_model(self, name: str) -> ModelTraits:
        """Use another model, in this process, from each conversation's next turn on.

        `name` is NAME or PROVIDER:NAME. A turn that runs goes on as it began. When the model can't be opened,
        the error says why, and the one before stays.
        """
        if self._parts.models is None:
            raise InvalidInput("this host has one model; it can't be changed")
        self.model = await self._parts.models.switch(name)
        return self.model

    async def status(self) -> HostStatus:
        """How the whole stands."""
        return HostStatus(
            store=self._db.location,
            running=[each.session_id for each in self._conversations.opened.values() if each.running_turn],
            waiting=await self._call(self._db.inbox.sessions),
            unfinished=await self._call(self._cut_off),
            memory=await self._call(self._parts.memory.status),
            recovering=not self._recovery.done,
        )

    async def close(self, budget: ShutdownBudget | None = None) -> list[str]:
        """Stop within one budget; returns what is still owed, in plain words. Idempotent."""
        if self._ending is None:
            for task in self._background:
                task.cancel()
            spent = budget or ShutdownBudget(self._parts.options.shutdown_seconds, self._parts.clock)
            self._call.closed = True
            self._ending = asyncio.create_task(self._shut_down(spent))
        # Who is cancelled while waiting stops waiting; the end goes on.
        return await asyncio.shield(self._ending)

    async def _shut_down(self, budget: ShutdownBudget) -> list[str]:
        await self._conversations.changes.close()
        return await shut_down(self._parts, list(self._conversations.opened.values()), budget)

    # inside

    async def _delivered(self, root_id: str) -> None:
        """Give what is owed to memory a moment to be delivered."""
        options = self._parts.options
        with suppress(TimeoutError):
            async with asyncio.timeout(options.patience_seconds):
                while True:
                    if not await self._call(self._db.outbox.open_in, root_id):
                        return
                    await asyncio.sleep(options.poll_seconds)

    def _cut_off(self) -> list[str]:
        """The sessions whose turn lost its process."""
        sessions = [turn.session_id for turn in self._db.turns.unfinished()]
        return [each for each in sessions if cut_off(self._db, each) is not None]

    def _begun(self, session_id: str, message: Message, how: Beginning) -> tuple[InboxMessage, Held]:
        """The session, its message, and the lease under which this process goes on with it."""
        session = NewSession(session_id, how.source or self.source, how.title)
        stored = self._db.inbox.begin(session, message, history=how.history, key=how.key)
        held: Held = None, None
        if stored.session_id != session_id:
            return stored, held
        # Where each step is a transaction, the message is stored by now: the runner tries again.
        with suppress(HoldfastError):
            held = take_hold(self._db, session_id, self._conversations.holder)
        return stored, held

    def _in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("host.background_failed", exc_info=task.exception())
