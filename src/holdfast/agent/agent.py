"""`SessionAgent`: one session's agent, usable as a library. The host runs many of them.

`run` gives a turn's result, `stream` its events, `run_turn` emits them. `interrupt` may come from any thread
and is addressed to the turn that runs at that moment; its message is stored first and becomes the next turn,
whether the interrupt was in time or not.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from holdfast.agent.agent_memory import AgentMemory
from holdfast.agent.boundary import Boundary
from holdfast.agent.cached_session import CachedSession
from holdfast.agent.compaction import Compaction
from holdfast.agent.context_use import ContextUse
from holdfast.agent.contract import AgentOptions, Compressor, Pools, TurnResult
from holdfast.agent.daily_budget import DailyBudget
from holdfast.agent.prompt import checked_user_message
from holdfast.agent.recovery import CRASHED, CutOffTurn, Unfinished, describe
from holdfast.agent.requested_compaction import RequestedCompaction
from holdfast.agent.result_form import ResultForm
from holdfast.agent.running_turn import PendingInterrupt, RunningTurn, events_of
from holdfast.agent.scope_policy import AgentScope
from holdfast.agent.store_retry import StoreRetry
from holdfast.agent.summary import SummaryCompressor
from holdfast.agent.tool_profile import ToolProfile
from holdfast.agent.transcript import Transcript
from holdfast.agent.turn import Turn
from holdfast.agent.turn_context import TurnContext, TurnContextBuilder
from holdfast.agent.turn_lease import MEMORY, TurnLease
from holdfast.agent.turn_store import TurnStore
from holdfast.agent.usage_meter import UsageMeter
from holdfast.core.content import Checked, check_fits, is_large
from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput, NothingWaits, TurnAlreadyRunning
from holdfast.core.events import (
    INTERRUPTED,
    Emit,
    Event,
    join_recalled,
)
from holdfast.core.ids import new_id
from holdfast.memory import MemoryManager
from holdfast.models.contract import Model
from holdfast.process import off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import ConversationState
from holdfast.sessions.held_lease import HeldLease
from holdfast.tools.contract import Tool


class SessionAgent:
    """An agent in one session. One turn at a time; every method but `interrupt` on one event loop."""

    def __init__(
        self,
        model: Model,
        session_db: SessionDB | None = None,
        session_id: str | None = None,
        memory: MemoryManager | None = None,
        tools: Iterable[Tool] = (),
        options: AgentOptions | None = None,
    ) -> None:
        self._options = options or AgentOptions()
        self._own_db = session_db is None
        self._db = session_db if session_db is not None else SessionDB(MEMORY, clock=self._options.clock)
        self._own_pools = self._options.pools is None
        self._pools = self._options.pools or Pools()
        self._model = model
        self._session = CachedSession(
            self._db,
            self._pools.store,
            session_id or new_id(),
            source=self._options.source,
            scope=self.scope.name,
        )
        self._turn_lease = TurnLease(self._db, self._pools.store, self._session)
        self._boundary = Boundary(self._db, memory)
        self._memory = AgentMemory(
            memory,
            self._pools.work,
            seconds=self._options.recall_seconds,
            ephemeral=self._options.ephemeral or not self.scope.policy.remembers,
            scope=self.scope.name,
            tokens=self._options.recall_tokens,
        )
        self._meter = UsageMeter(self._options.source)
        self._store_retry = StoreRetry(self._options.store_seconds)
        self._compaction = Compaction(
            self._db,
            self._pools.store,
            self._memory,
            SummaryCompressor(model, self._meter),
            threshold=int(model.traits.context_window * self._options.compact_at),
            retry=self._store_retry,
        )
        self._requested_compaction = RequestedCompaction(
            self._db, self._pools.store, self._session, self._compaction, self._meter
        )
        self._budget = DailyBudget(self._db, self._pools.store, self.scope)
        self._context_builder = TurnContextBuilder(
            model, tools, self._memory, self._compaction, self._pools, self._options
        )
        self._running: RunningTurn | None = None
        self._busy = False
        self._pending: list[PendingInterrupt] = []  # interrupts that came while the next turn begins
        self._hands_over: float | None = None  # for good: the seconds that tool calls have
        self.lease: HeldLease | None = None
        """The session's lease: a host's, or this agent's own for the time of a turn.

        Each step is refused once another took it.
        """

    @property
    def session_id(self) -> str:
        """The session this agent is in; a compaction of its own moves it to the child."""
        running = self._running
        return running.store.session_id or self._session.id if running else self._session.id

    @property
    def scope(self) -> AgentScope:
        """For whom it works."""
        return self._options.scope

    @property
    def compressor(self) -> Compressor:
        """What shrinks the conversation; replaceable."""
        return self._compaction.compressor

    @compressor.setter
    def compressor(self, compressor: Compressor) -> None:
        self._compaction.compressor = compressor

    async def tool_profile(self) -> ToolProfile:
        """Which tools the model is told of in this conversation, and why."""
        wanted = await off_loop(self._pools.store, self._db.conversations.tool_profile, self.session_id)
        return self._context_builder.profile(wanted)

    async def set_tool_profile(self, name: str) -> ToolProfile:
        """Choose a tool profile for this conversation, from its next turn on and for good; "": by the model.

        Raises `InvalidInput` when there is none of this name.
        """
        name = self._options.tool_profiles.checked(name)
        await off_loop(self._pools.store, self._session.ensure)
        await off_loop(self._pools.store, self._db.conversations.set_tool_profile, self.session_id, name)
        return self._context_builder.profile(name)

    @property
    def messages(self) -> Sequence[Message]:
        """The conversation as the model sees it."""
        return self._session.transcript.messages

    @property
    def context_tokens(self) -> int:
        """About how much of the model's window the conversation takes."""
        return self._session.transcript.tokens

    @property
    def running_turn(self) -> str | None:
        """The id of the turn that runs now."""
        running = self._running
        return running.store.turn_id if running else None

    @property
    def is_remembered(self) -> bool:
        """Whether memory is told of the turn that runs now."""
        return self._running is None or self._running.turn.is_remembered

    @property
    def store_trouble(self) -> str:
        """What keeps the store from being written while a turn waits for it; empty when nothing does."""
        return self._store_retry.trouble

    async def context(self) -> ContextUse:
        """How much of the model's window is in use, and by what; may come while a turn runs."""
        running, transcript = self._running, self._session.transcript
        if not self._session.is_read and running is None:
            # What was counted belongs to a session that this one follows.
            transcript = Transcript(await off_loop(self._pools.store, self._session.messages))
        recalled = join_recalled(running.turn.timeline.recalled) if running else ""
        return await self._context_builder.use(transcript, self._session.tool_profile, recalled)

    @property
    def timeline(self) -> dict[str, Any] | None:
        """The spans of the turn that runs now, so far."""
        running = self._running
        return running.turn.timeline.so_far() if running else None

    # turns

    async def run(self, text: str | Message | None = None, *, result_type: object = None) -> TurnResult:
        """Run a turn and give its result; with no text, the oldest waiting message's.

        Messages that wait from before come first, each as a turn of its own. Raises the error that made
        the turn fail; what it had produced is on record. With `result_type`, a pydantic model or a JSON
        schema, `output` of the result is the answer in this form; `ResultDoesNotFit` when the model does not
        manage it.
        """
        form = None if result_type is None else ResultForm(result_type)
        async with self._exclusive():
            wanted, first = await self._accept(text)
            while True:
                asked = form if first == wanted or wanted is None else None
                result = await self._result(await self._finish(await self._begin(first, _ignore, asked)))
                if first == wanted or wanted is None:
                    return result
                first = self._waiting(await self._session.refresh(self.lease))

    def stream(self, text: str | Message | None = None) -> AsyncGenerator[Event, None]:
        """Run one turn and yield its events; older waiting messages go first, one a call.

        A reader that leaves before the end stops the turn; what it had produced is kept.
        """
        return events_of(partial(self.run_turn, text=text))

    async def run_turn(
        self, emit: Emit, text: str | Message | None = None, *, seen: ConversationState | None = None
    ) -> None:
        """Run the next turn and give each event to `emit`, which must not wait. Cancelling stops the turn.

        `seen` is what a host that holds the session's lease has just read there: it is not read again.
        """
        async with self._exclusive():
            _, first = await self._accept(text, seen)
            await self._finish(await self._begin(first, emit))

    def interrupt(self, message: str = "", *, reason: str = INTERRUPTED) -> None:
        """Stop the running turn, from any thread; the message becomes the next turn in any case."""
        running, pending = self._running, self._pending
        inbox_id = 0
        try:
            if message:
                inbox_id = self._put_interrupt(message, running)
        finally:
            if running is None:
                # The turn that begins now reads this, unless it has begun since.
                pending.append(PendingInterrupt(reason, inbox_id))
                running = self._running
                self._requested_compaction.interrupt()
            if running is not None:
                running.interrupt(reason)

    def suspend(self, undecided: Collection[str]) -> bool:
        """Leave the running turn open on record, to be resumed later; on the agent's loop.

        Only when all that it does is to wait for a person, in the calls with these ids; else False.
        """
        open_calls = {call["id"] for call in self._session.transcript.unanswered}
        if self._running is None or not open_calls or not open_calls <= set(undecided):
            return False
        self._running.suspend()
        return True

    def hand_over(self, seconds: float) -> None:
        """Leave the running turn open on record for another process; on the agent's loop.

        At once while the model answers: its answer is asked for anew. Tool calls that run may take so many
        seconds to end, so that nothing is done twice and nothing is left in the dark. A turn that begins now
        is left as soon as it is on record.
        """
        self._hands_over = seconds
        if self._running is not None and self._session.transcript.unanswered:
            self._running.suspend_after_calls(seconds)
        elif self._running is not None:
            self._running.suspend()

    def _put_interrupt(self, message: str, running: RunningTurn | None) -> int:
        self._session.ensure()
        addressed = running.store.turn_id if running and running.store.state == "running" else None
        said = checked_user_message(message)
        return self._db.inbox.put(self.session_id, said, mode="interrupt", addressed_to=addressed).id

    # after a crash

    async def unfinished(self) -> Unfinished | None:
        """The turn that a crash cut off in this session, as it is on record; None when there is none."""
        if self._session.has_unclosed_turn and not self._busy:
            async with self._exclusive():
                await self._acquire_lease(new_turn=False)
                await self._session.refresh(self.lease)
        found = await off_loop(self._pools.store, self._open_turn, self.session_id, self.running_turn)
        if found is None or not found.open_calls:
            return found
        tools = await self._context_builder.tools()
        calls = zip(found.call_ids, found.open_calls, strict=True)
        return replace(found, changing_calls=tuple(call for call in calls if tools.changes(call[1])))

    def _open_turn(self, session_id: str, running: str | None) -> Unfinished | None:
        self._session.ensure()
        turn = self._db.turns.running(self._db.sessions.live_end(session_id))
        return None if turn is None or turn.id == running else describe(self._db.turns, turn)

    async def resume(self) -> TurnResult:
        """Continue the unfinished turn where it stopped. No call is run again: the model is told."""
        async with self._exclusive():
            return await self._result(await self._finish(await self._begin_again(_ignore)))

    async def resume_turn(
        self,
        emit: Emit,
        undecided: Collection[str] = (),
        resumed: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Like `resume`, and give each event to `emit`.

        The calls with the ids of `undecided` only waited for a person: they run, and ask again. `resumed` is
        called when it is on record that the turn goes on, before it does.
        """
        async with self._exclusive():
            await self._finish(await self._begin_again(emit, undecided, resumed))

    async def _begin_again(
        self,
        emit: Emit,
        undecided: Collection[str] = (),
        resumed: Callable[[], Awaitable[None]] | None = None,
    ) -> RunningTurn:
        store = await self._adopt()
        # What fails before the turn goes on does not count as a resumption.
        context = await self._context(is_open=True)
        await store.resume()
        if resumed is not None:
            await resumed()
        first, calls = await self._cut_off(store).go_on(undecided)
        turn = Turn(context, store, emit)
        return self._started(RunningTurn(turn, store, turn.resume(first, calls)))

    async def drop(self, why: str = CRASHED) -> None:
        """End the unfinished turn; what it had produced stays on record, and so does why it ended."""
        async with self._exclusive():
            store = await self._adopt()
            await self._cut_off(store).close(why)
            self._session.messages_stored(store.stored)

    async def retry(self) -> TurnResult:
        """End the unfinished turn and run its message again, as a turn of its own."""
        turn = await self.unfinished()
        await self.drop()
        return await self.run(turn.message if turn else None)

    async def _adopt(self) -> TurnStore:
        await self._acquire_lease(new_turn=False)
        if self.lease is not None:
            # A turn that another process has taken over runs there.
            await off_loop(self._pools.store, self._db.leases.keep, self.lease)
        await self._session.refresh(self.lease)
        turn = await off_loop(self._pools.store, self._db.turns.running, self._session.id)
        if turn is None:
            raise InvalidInput("no turn is unfinished in this session")
        store = self._turn_store(turn.id)
        store.adopt(turn)
        return store

    def _cut_off(self, store: TurnStore) -> CutOffTurn:
        return CutOffTurn(store, self._session.transcript, self._db.turns, self._pools.store)

    # compaction and memory

    async def compress_context(
        self,
        messages: Sequence[Message],
        system: str,
        *,
        approx_tokens: int | None = None,
        focus: str = "",
    ) -> tuple[list[Message], str]:
        """Compact the conversation now. Gives the messages to go on with, and the system text.

        When another compaction of this session runs or has won, they come back as they were.
        """
        await off_loop(self._pools.store, self._session.ensure)
        outcome = await self._compaction.compress(
            self._session.id, messages, tokens=approx_tokens, focus=focus, lease=self.lease
        )
        self._session.move(outcome.session_id)
        return outcome.messages, system

    async def compact(self, emit: Emit, focus: str = "") -> None:
        """Compact the conversation as stored, between turns, and emit what happens; can be interrupted."""
        async with self._exclusive():
            await self._acquire_lease(new_turn=True)
            await self._requested_compaction.run(emit, focus, self.lease)

    def commit_memory_session(self) -> bool:
        """Hand the providers what was said in the turns that no commit has covered; raises when one failed.

        What `SessionLifecycle` calls at a boundary, on a thread of its own. False while another process does
        the same.
        """
        return self._boundary.commit(self._session.id)

    async def close(self) -> None:
        """Interrupt what runs and let go of what this agent made for itself."""
        running = self._running
        if running is not None:
            running.interrupt("the program is ending")
            await running.ended()
        await self._release_lease()
        if self._own_pools:
            self._pools.close(0)
        if self._own_db:
            self._db.close()

    # inside

    @asynccontextmanager
    async def _exclusive(self) -> AsyncGenerator[None, None]:
        """One thing at a time, from its first read of the store to its end."""
        if self._busy:
            raise TurnAlreadyRunning(self.session_id, self.running_turn or "that begins now")
        self._busy, self._pending = True, []
        try:
            yield
        finally:
            try:
                await self._release_lease()
            finally:
                self._busy = False

    async def _acquire_lease(self, *, new_turn: bool) -> None:
        """Take the session's lease until this is over, unless a host has given one."""
        if self.lease is None:
            self.lease = await self._turn_lease.take(new_turn=new_turn)

    async def _release_lease(self) -> None:
        if self._turn_lease.is_held:
            self.lease = None
            await self._turn_lease.release()

    async def _accept(
        self, text: str | Message | None, seen: ConversationState | None = None
    ) -> tuple[Message | int | None, Message | int]:
        """Return the caller's message, and what to run now.

        When other messages wait, the own one is put into the inbox: both are inbox ids then, and the second
        is that of the oldest message.
        """
        said = None if text is None else await self._checked_user_message(text)
        await self._acquire_lease(new_turn=True)
        oldest = await self._session.refresh(self.lease, seen)
        if said is None:
            return None, self._waiting(oldest)
        if oldest is None:
            return said.message, said.message
        return (await off_loop(self._pools.store, self._db.inbox.put, self._session.id, said)).id, oldest

    async def _checked_user_message(self, text: str | Message) -> Checked:
        asked = {"content": text} if isinstance(text, str) else text
        if is_large(asked):
            checked = await off_loop(self._pools.store, checked_user_message, text)
        else:
            checked = checked_user_message(text)
        check_fits(checked.message, self._model.traits.name, self._model.traits.context_window)
        return checked

    def _waiting(self, oldest: int | None) -> int:
        if oldest is None:
            raise NothingWaits(self._session.id)
        return oldest

    async def _begin(self, first: Message | int, emit: Emit, form: ResultForm | None = None) -> RunningTurn:
        context = await self._context(form)
        store = self._turn_store(new_id())
        turn = Turn(context, store, emit)
        return self._started(RunningTurn(turn, store, turn.run(self._session.id, first)), first)

    async def _context(self, form: ResultForm | None = None, *, is_open: bool = False) -> TurnContext:
        """What the turn works with, and what it may use; `is_open`: it is on record already."""
        session = self._session
        context = await self._context_builder.build(session.transcript, form, session.tool_profile)
        return replace(
            context,
            meter=self._meter,
            refusal=await self._budget.refusal(),
            tokens_left=await self._budget.tokens_left(is_open=is_open),
        )

    def _turn_store(self, turn_id: str) -> TurnStore:
        return TurnStore(
            self._db, self._pools.store, self._session.transcript, turn_id, self.lease, self._store_retry
        )

    def _started(self, running: RunningTurn, first: Message | int = 0) -> RunningTurn:
        """From now on interrupts go to this turn; those that came while it began reach it here."""
        pending, self._pending = self._pending, []
        self._running = running
        for stop in pending:
            if stop.inbox_id == 0 or stop.inbox_id != first:  # a message does not stop its own turn
                running.interrupt(stop.reason)
        if self._hands_over is not None:
            self.hand_over(self._hands_over)
        return running

    async def _finish(self, running: RunningTurn) -> RunningTurn:
        """Wait until the turn has ended."""
        try:
            await running.finish()
        finally:
            self._session.turn_ended(running)
            self._running = None
        return running

    async def _result(self, running: RunningTurn) -> TurnResult:
        turn, store, form = running.turn, running.store, running.turn.form
        if turn.ending.failure is not None:
            raise turn.ending.failure
        if form is not None and store.state == "completed":
            form.require_value(turn.ending.final_response)
        waiting = await off_loop(self._pools.store, self._db.inbox.waiting, self._session.id)
        return TurnResult(
            turn_id=store.turn_id,
            session_id=self._session.id,
            state=store.state,
            final_response=turn.ending.final_response,
            messages=list(self._session.transcript.messages),
            steps=turn.steps,
            usage=turn.usage,
            cost=turn.cost,
            waiting=len(waiting),
            output=None if form is None or store.state != "completed" else form.value,
        )


def _ignore(_: Event) -> None:
    """For callers that want only the result."""
