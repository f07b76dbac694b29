"""`Agent`: one session's agent, usable as a library. The host runs many of them.

`run` gives a turn's result, `stream` its events. `interrupt` may come from any thread and is addressed to
the turn that runs at that moment; its message is stored first and becomes the next turn, whether the
interrupt was in time or not.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import Any, ParamSpec, TypeVar

from holdfast.agent.assembly import Assembly
from holdfast.agent.boundary import Boundary
from holdfast.agent.compaction import Compacted, Compaction
from holdfast.agent.context import ContextUse, weighed
from holdfast.agent.contract import AgentOptions, Compressor, Pools, TurnResult
from holdfast.agent.known_session import KnownSession
from holdfast.agent.prompt import persons_message
from holdfast.agent.recollection import Recollection
from holdfast.agent.recovery import CRASHED, Unfinished, closing, describe, going_on
from holdfast.agent.running import RunningTurn, Stop
from holdfast.agent.summary import compressor_for
from holdfast.agent.transcript import Transcript
from holdfast.agent.turn import Turn
from holdfast.agent.turn_store import TurnStore, is_cancelled
from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput, NothingWaits, TurnAlreadyRunning
from holdfast.core.events import CompactionFinished, CompactionStarted, Event, SessionRotated
from holdfast.core.ids import new_id
from holdfast.memory import MemoryManager
from holdfast.memory.manager import together
from holdfast.models.contract import Model
from holdfast.process import off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Lease, Look
from holdfast.tools.contract import Tool

T = TypeVar("T")
P = ParamSpec("P")

MEMORY = ":memory:"
INTERRUPTED = "the person interrupted"


class Agent:
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
        self._session = KnownSession(
            self._db, self._pools.store, session_id or new_id(), self._options.source
        )
        self._boundary = Boundary(self._db, memory)
        self._recollection = Recollection(
            memory,
            self._pools.work,
            seconds=self._options.recall_seconds,
            ephemeral=self._options.ephemeral,
        )
        self._compaction = Compaction(
            self._db,
            self._pools.store,
            self._recollection,
            compressor_for(self._options.summary_model or model),
            threshold=int(model.traits.context_window * self._options.compact_at),
        )
        self._assembly = Assembly(
            model, tools, self._recollection, self._compaction, self._pools, self._options
        )
        self._running: RunningTurn | None = None
        self._compacting: asyncio.Task[Compacted] | None = None  # between turns
        self._busy = False
        self._stops: list[Stop] = []  # interrupts that came while the next turn begins
        self.lease: Lease | None = None
        """The session's lease, when a host holds one: each step is refused once it is lost."""

    @property
    def session_id(self) -> str:
        """The session this agent is in; a compaction of its own moves it to the child."""
        running = self._running
        return running.store.session_id or self._session.id if running else self._session.id

    @property
    def compressor(self) -> Compressor:
        """What shrinks the conversation; replaceable."""
        return self._compaction.compressor

    @compressor.setter
    def compressor(self, compressor: Compressor) -> None:
        self._compaction.compressor = compressor

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

    async def context(self) -> ContextUse:
        """How much of the model's window is in use, and by what; may come while a turn runs."""
        hands, system = await self._assembly.hands(), await self._assembly.system()
        traits, running = self._model.traits, self._running
        messages: Sequence[Message] = self._session.transcript.messages
        if not self._session.is_read and running is None:
            messages = Transcript(await self._call(self._session.messages)).messages
        recalled = together(running.turn.account.recalled) if running else ""
        parts = weighed(system, hands.schemas if traits.calls_tools else (), messages, recalled)
        counted = self._session.transcript.counted_tokens
        return ContextUse(traits.context_window, counted or sum(each.tokens for each in parts), parts)

    @property
    def account(self) -> dict[str, Any] | None:
        """The way of the turn that runs now, so far."""
        running = self._running
        return running.turn.account.so_far() if running else None

    # turns

    async def run(self, text: str | Message | None = None) -> TurnResult:
        """Run a turn and give its result; with no text, the oldest waiting message's.

        Messages that wait from before come first, each as a turn of its own. Raises the error that made
        the turn fail; what it had produced is on record.
        """
        with self._alone():
            wanted, first = await self._accept(text)
            while True:
                result = await self._drain(await self._begin(first))
                if first == wanted or wanted is None:
                    return result
                first = self._waiting(await self._session.look(self.lease))

    async def stream(
        self, text: str | Message | None = None, *, seen: Look | None = None
    ) -> AsyncGenerator[Event, None]:
        """Run one turn and yield what happens in it; older waiting messages go first, one a call.

        `seen` is what a host that holds the session's lease has just seen there, so that it need not be
        looked at again.
        """
        with self._alone():
            _, first = await self._accept(text, seen)
            running = await self._begin(first)
            async with aclosing(self._events(running)) as events:
                async for event in events:
                    yield event

    def interrupt(self, message: str = "", *, reason: str = INTERRUPTED) -> None:
        """Stop the running turn, from any thread; the message becomes the next turn in any case."""
        running, stops = self._running, self._stops
        inbox_id = 0
        try:
            if message:
                inbox_id = self._put_interrupt(message, running)
        finally:
            if running is None:
                # The turn that begins now reads this, unless it has begun since.
                stops.append(Stop(reason, inbox_id))
                running = self._running
                if (compacting := self._compacting) is not None:
                    with suppress(RuntimeError):  # its loop is closed: so is the compaction
                        compacting.get_loop().call_soon_threadsafe(compacting.cancel)
            if running is not None:
                running.interrupt(reason)

    def _put_interrupt(self, message: str, running: RunningTurn | None) -> int:
        self._session.ensure()
        addressed = running.store.turn_id if running and running.store.state == "running" else None
        said: Message = {"role": "user", "content": message}
        return self._db.inbox.put(self.session_id, said, mode="interrupt", addressed_to=addressed).id

    # after a crash

    async def unfinished(self) -> Unfinished | None:
        """The turn that a crash cut off in this session, as it is on record; None when there is none."""
        if self._session.has_left_open and not self._busy:
            with self._alone():
                await self._session.look(self.lease)
        return await self._call(self._open_turn, self.session_id, self.running_turn)

    def _open_turn(self, session_id: str, running: str | None) -> Unfinished | None:
        self._session.ensure()
        turn = self._db.turns.running(self._db.live_end(session_id))
        return None if turn is None or turn.id == running else describe(self._db.turns, turn)

    async def resume(self) -> TurnResult:
        """Go on with the unfinished turn where it stopped. No call is run again: the model is told."""
        with self._alone():
            return await self._drain(await self._begin_again())

    async def stream_resumed(self) -> AsyncGenerator[Event, None]:
        """Like `resume`, and yield what happens."""
        with self._alone():
            async with aclosing(self._events(await self._begin_again())) as events:
                async for event in events:
                    yield event

    async def _begin_again(self) -> RunningTurn:
        store = await self._adopt()
        partial = await self._call(self._db.turns.partial, store.turn_id)
        await store.keep(*going_on(self._session.transcript, partial))
        mind, hands = await self._assembly.assembled(self._session.transcript)
        turn = Turn(mind, hands, store)
        return self._runs(RunningTurn(turn, store, turn.resumed()))

    async def drop(self) -> None:
        """End the unfinished turn; what it had produced stays on record."""
        with self._alone():
            store = await self._adopt()
            partial = await self._call(self._db.turns.partial, store.turn_id)
            await store.end("interrupted", CRASHED, closing(self._session.transcript, partial))
            self._session.stored(store.stored)

    async def retry(self) -> TurnResult:
        """End the unfinished turn and run its message again, as a turn of its own."""
        turn = await self.unfinished()
        await self.drop()
        return await self.run(turn.message if turn else None)

    async def _adopt(self) -> TurnStore:
        await self._session.look(self.lease)
        turn = await self._call(self._db.turns.running, self._session.id)
        if turn is None:
            raise InvalidInput("no turn is unfinished in this session")
        store = TurnStore(self._db, self._pools.store, self._session.transcript, turn.id, self.lease)
        store.adopt(turn)
        return store

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
        await self._call(self._session.ensure)
        outcome = await self._compaction.compress(
            self._session.id, messages, tokens=approx_tokens, focus=focus
        )
        self._session.move(outcome.session_id)
        return outcome.messages, system

    async def stream_compaction(self, focus: str = "") -> AsyncGenerator[Event, None]:
        """Compact the conversation as stored, between turns, and yield what happens; can be interrupted."""
        with self._alone():
            await self._session.look(self.lease)
            parent, before = self._session.id, self._session.transcript.tokens
            yield CompactionStarted(session_id=parent, turn_id="", tokens=before)
            self._compacting = asyncio.create_task(
                self._compaction.compress(parent, tokens=before, focus=focus), name=f"compaction {parent}"
            )
            try:
                said = (await self._compacting).said
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                said = INTERRUPTED
            finally:
                self._compacting = None
            await self._session.look(self.lease)
            if self._session.id != parent:
                yield SessionRotated(session_id=parent, turn_id="", child_id=self._session.id)
            yield CompactionFinished(
                session_id=self._session.id,
                turn_id="",
                outcome=said,
                tokens_before=before,
                tokens_after=self._session.transcript.tokens,
            )

    def commit_memory_session(self) -> None:
        """Hand the providers what was said in the turns that no commit has covered; raises when one failed.

        What `SessionLifecycle` calls at a boundary, on a thread of its own.
        """
        self._boundary.commit(self._session.id)

    async def close(self) -> None:
        """Interrupt what runs and let go of what this agent made for itself."""
        running = self._running
        if running is not None:
            running.interrupt("the program is ending")
            await running.ended()
        if self._own_pools:
            self._pools.close(0)
        if self._own_db:
            self._db.close()

    # inside

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thing at a time, from its first look at the store to its end."""
        if self._busy:
            raise TurnAlreadyRunning(self.session_id, self.running_turn or "that begins now")
        self._busy, self._stops = True, []
        try:
            yield
        finally:
            self._busy = False

    async def _accept(
        self, text: str | Message | None, seen: Look | None = None
    ) -> tuple[Message | int | None, Message | int]:
        """What to run in the end, and what comes first: an inbox id when others wait before it."""
        message = None if text is None else persons_message(text)
        oldest = await self._session.look(self.lease, seen)
        if message is None:
            return None, self._waiting(oldest)
        if oldest is None:
            return message, message
        return (await self._call(self._db.inbox.put, self._session.id, message)).id, oldest

    def _waiting(self, oldest: int | None) -> int:
        if oldest is None:
            raise NothingWaits(self._session.id)
        return oldest

    async def _drain(self, running: RunningTurn) -> TurnResult:
        async with aclosing(self._events(running)) as events:
            async for _ in events:
                pass
        return await self._result(running)

    async def _begin(self, first: Message | int) -> RunningTurn:
        mind, hands = await self._assembly.assembled(self._session.transcript)
        store = TurnStore(self._db, self._pools.store, self._session.transcript, new_id(), self.lease)
        turn = Turn(mind, hands, store)
        return self._runs(RunningTurn(turn, store, turn.events(self._session.id, first)), first)

    def _runs(self, running: RunningTurn, first: Message | int = 0) -> RunningTurn:
        """From now on interrupts go to this turn; those that came while it began reach it here."""
        stops, self._stops = self._stops, []
        self._running = running
        for stop in stops:
            if stop.inbox_id == 0 or stop.inbox_id != first:  # no message stops its own turn
                running.interrupt(stop.reason)
        return running

    async def _events(self, running: RunningTurn) -> AsyncGenerator[Event, None]:
        try:
            async with aclosing(running.events()) as events:
                async for event in events:
                    yield event
        finally:
            self._session.ended(running)
            self._running = None

    async def _result(self, running: RunningTurn) -> TurnResult:
        turn, store = running.turn, running.store
        if turn.failure is not None:
            raise turn.failure
        waiting = await self._call(self._db.inbox.waiting, self._session.id)
        return TurnResult(
            turn_id=store.turn_id,
            session_id=self._session.id,
            state=store.state,
            final_response=turn.final_response,
            messages=list(self._session.transcript.messages),
            steps=turn.steps,
            usage=turn.usage,
            cost=turn.cost,
            waiting=len(waiting),
        )

    async def _call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await off_loop(self._pools.store, fn, *args, **kwargs)
