"""The heart: one turn, from a person's message to its end.

The loop asks the model, runs the tools it calls, lets waiting messages join, and goes on until the model
has nothing more to do. Every step is on disk before the next begins (`turn_store.py`), and everything that
happens is an event that any surface can show. An interrupt is the cancellation of the task that reads
these events: it takes effect at any await, keeps what was produced, and can't touch another turn.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TypedDict

from holdfast.agent.account import SECOND, Account
from holdfast.agent.answer import Answer, pieces_of
from holdfast.agent.batch import tool_message
from holdfast.agent.compaction import Compaction
from holdfast.agent.contract import Limits
from holdfast.agent.hands import Hands
from holdfast.agent.presentable import storable
from holdfast.agent.prompt import with_recalled
from holdfast.agent.recollection import Recollection
from holdfast.agent.saving import Saving
from holdfast.agent.transcript import Transcript, text_of
from holdfast.agent.turn_store import TurnStore
from holdfast.core.contract import Clock, Message, ToolCall
from holdfast.core.errors import AnswerEmpty, ContextTooLong, HoldfastError, LeaseLost, StreamBroken
from holdfast.core.events import (
    CompactionFinished,
    CompactionStarted,
    Event,
    MessageJoined,
    ModelRetrying,
    Notice,
    ReasoningDelta,
    Recalled,
    SessionRotated,
    StepFinished,
    TextDelta,
    ToolFinished,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.memory.manager import together
from holdfast.models.contract import Model, ModelRequest, ReasoningPiece, Retrying, TextPiece, Usage
from holdfast.sessions.contract import InboxMessage

logger = logging.getLogger(__name__)

NOTICES = {
    "length": "the answer was cut at the model's output limit",
    "refused": "the model refused to answer",
}
INTERRUPTED_CALL = (
    "Interrupted before it finished. It may have taken effect in part; look before repeating it."
)


@dataclass(frozen=True, slots=True)
class Mind:
    """What a turn thinks with."""

    model: Model
    system: str
    transcript: Transcript
    compaction: Compaction
    recollection: Recollection
    limits: Limits
    clock: Clock


class Turn:
    """One turn of one session."""

    def __init__(self, mind: Mind, hands: Hands, store: TurnStore) -> None:
        self._mind = mind
        self._hands = hands
        self._store = store
        self._answer = Answer()
        self._saving = Saving(store)
        self._began = mind.clock.monotonic()
        self._done: list[str] = []
        self._ended: tuple[str, str] | None = None
        self.interrupt_reason = "the person interrupted"
        self.steps = 0
        self.usage = Usage()
        self.final_response = ""
        self.failure: Exception | None = None
        self.account = Account(mind.clock, mind.model.traits.name)

    async def events(self, session_id: str, first: Message | int) -> AsyncGenerator[Event, None]:
        """Run the turn that begins with a message, or with one that waits in the inbox."""
        async for event in self._to_an_end(self._opened(session_id, first)):
            yield event

    async def resumed(self) -> AsyncGenerator[Event, None]:
        """Go on with a turn that a crash cut off; its finished steps are in the transcript."""
        self.account.resume(self._mind.clock.now() - self._store.started / SECOND)
        async for event in self._to_an_end(self._loop()):
            yield event

    # the way of the turn

    async def _opened(self, session_id: str, first: Message | int) -> AsyncGenerator[Event, None]:
        message = await self._store.open(session_id, first)
        yield TurnStarted(
            **self._here(), inbox_id=first if isinstance(first, int) else 0, text=text_of(message)
        )
        asked = self._mind.clock.monotonic()
        found = await self._mind.recollection.recall(text_of(message), self._store.session_id)
        if found:
            seconds = self._mind.clock.monotonic() - asked
            yield Recalled(**self._here(), seconds=seconds, providers=found)
        with self._mind.transcript.told(lambda said: with_recalled(said, together(found))):
            async for event in self._loop():
                yield event

    async def _loop(self) -> AsyncGenerator[Event, None]:
        """Ask the model, act, listen; go on until there is nothing more to do."""
        while (limit := self._limit_reached()) is None:
            async for event in self._think():
                yield event
            message = self._answer.message()
            calls = message.get("tool_calls", [])
            steers = [] if calls else await self._complete(message, unless_steered=True)
            if not calls and not steers:
                break
            await self._keep(message)
            if calls:
                async for event in self._act(calls):
                    yield event
                steers = await self._store.steers()
            for steer in steers:
                if (joined := await self._store.join(steer)) is not None:
                    yield MessageJoined(**self._here(), inbox_id=steer.id, text=text_of(joined))
        if limit is not None:
            await self._complete(self._explanation(limit), unless_steered=False)
        yield self._completed()

    async def _complete(self, final: Message, *, unless_steered: bool) -> list[InboxMessage]:
        """End the turn with this message, unless somebody wants to join it: then these are returned."""
        memory = self._mind.recollection
        self.final_response = text_of(final)
        return await self._store.complete(
            final,
            memory.providers,
            ephemeral=memory.ephemeral,
            account=self.account.to_json(completed=True),
            unless_steered=unless_steered,
        )

    async def _think(self) -> AsyncGenerator[Event, None]:
        """One answer of the model, after a compaction if the conversation has grown too long."""
        if self._mind.compaction.is_due(self._mind.transcript.tokens):
            async for event in self._compact():
                yield event
        while True:
            try:
                async for event in self._ask():
                    yield event
            except ContextTooLong:
                shrank = False
                async for event in self._compact():
                    shrank = shrank or isinstance(event, SessionRotated)
                    yield event
                if not shrank:
                    raise
            else:
                return

    async def _ask(self) -> AsyncGenerator[Event, None]:
        mind = self._mind
        self._answer = Answer()
        request = ModelRequest(
            system=mind.system,
            messages=mind.transcript.messages,
            tools=self._hands.schemas if mind.model.traits.calls_tools else (),
            conversation=self._store.session_id,
        )
        try:
            async with aclosing(pieces_of(mind.model, request)) as pieces:
                async for piece in pieces:
                    match piece:
                        case Retrying():
                            yield await self._start_over(piece)
                            continue
                        case TextPiece():
                            yield TextDelta(**self._here(), text=piece.text)
                            self._saving.begin(self._answer)
                        case ReasoningPiece():
                            yield ReasoningDelta(**self._here(), text=piece.text)
                    self._answer.add(piece)
        finally:
            await self._saving.stop()
        async for event in self._answered():
            yield event

    async def _start_over(self, retry: Retrying) -> Event:
        """The stream broke: what had come stays on record, and the answer begins anew."""
        await self._saving.stop()
        partial, self._answer = self._answer, Answer()
        if partial.text:
            await self._store.keep(partial.void(retry.problem))
        return ModelRetrying(
            **self._here(),
            attempt=retry.attempt,
            delay=retry.delay,
            problem=retry.problem,
            partial=bool(partial.text),
        )

    async def _answered(self) -> AsyncGenerator[Event, None]:
        """The answer is whole: count it, and say what a person should know of it."""
        name, end = self._mind.model.traits.name, self._answer.finished
        if end is None:
            raise StreamBroken(name, "the answer stopped before its end")
        if self._answer.is_empty and end.stop_reason != "refused":
            raise AnswerEmpty(name, "the answer was empty")
        self.steps += 1
        used = end.usage or Usage()
        self.usage = Usage(
            self.usage.input + used.input,
            self.usage.output + used.output,
            self.usage.cached + used.cached,
        )
        if end.usage is not None:
            self._mind.transcript.counted(end.usage)
        yield StepFinished(
            **self._here(),
            step=self.steps,
            input_tokens=used.input,
            output_tokens=used.output,
            cached_tokens=used.cached,
            context=self._mind.transcript.tokens,
            window=self._mind.model.traits.context_window,
        )
        if end.stop_reason in NOTICES:
            yield Notice(**self._here(), text=NOTICES[end.stop_reason])

    async def _keep(self, message: Message) -> None:
        """Store the answer; from here on it is no longer partial."""
        whole, self._answer = self._answer, Answer()
        try:
            await self._store.keep(message)
        except Exception:
            self._answer = whole
            raise

    async def _act(self, calls: Sequence[ToolCall]) -> AsyncGenerator[Event, None]:
        async with aclosing(self._hands.batch(calls, self._store).run()) as events:
            async for event in events:
                if isinstance(event, ToolFinished):
                    self._done.append(f"{event.name}: {'done' if event.ok else 'failed'}")
                yield event

    async def _compact(self) -> AsyncGenerator[Event, None]:
        before = self._mind.transcript.tokens
        yield CompactionStarted(**self._here(), tokens=before)
        outcome = await self._mind.compaction.compress(self._store.session_id, tokens=before)
        rotated = SessionRotated(**self._here(), child_id=outcome.session_id)
        if outcome.session_id != self._store.session_id:
            self._store.moved(outcome.session_id, outcome.messages)
            yield rotated
        yield CompactionFinished(
            **self._here(),
            outcome=outcome.said,
            tokens_before=before,
            tokens_after=self._mind.transcript.tokens,
        )

    # how a turn ends before its answer

    async def _to_an_end(self, way: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """Walk the way; whatever stops it, what was produced is kept and the end is said."""
        last: list[Event] = []
        try:
            async with aclosing(way) as events:
                async for event in events:
                    self.account.note(event)
                    yield event
        except asyncio.CancelledError:
            if self._store.state == "completed":
                # The interrupt came too late for this turn; its message becomes the next one.
                last = [self._completed()]
            elif self._store.state == "running":
                moved = await self._end("interrupted", self.interrupt_reason)
                last = [*moved, TurnInterrupted(**self._here(), reason=self.interrupt_reason)]
            else:
                raise  # nothing was begun
        except LeaseLost as lost:
            # Another process runs this session now; not a word more may be written here.
            self.failure = lost
            if self._store.state == "unopened":
                raise
            self._ended = "failed", storable(str(lost))
            last = [self._failed(lost)]
        except Exception as failure:
            self.failure = failure
            if self._store.state != "running":
                raise
            last = await self._fail(failure)
        for event in last:
            yield event

    async def close_record(self) -> None:
        """Close the record of a turn that has ended, when the store failed then or the lease was lost."""
        if self._ended is not None and self._store.state == "running":
            await self._end(*self._ended)

    async def _fail(self, failure: Exception) -> list[Event]:
        if not isinstance(failure, HoldfastError):
            logger.error("turn.failed", exc_info=failure, extra={"turn": self._store.turn_id})
        moved = await self._end("failed", str(failure) or repr(failure))
        return [*moved, self._failed(failure)]

    def _failed(self, failure: Exception) -> Event:
        return TurnFailed(**self._here(), error=str(failure) or repr(failure), failure=type(failure).__name__)

    async def _end(self, state: str, why: str) -> list[Event]:
        """Close the record, so that the next turn can follow; returns a rotation that is not shown yet."""
        self._ended = state, storable(why)
        self.final_response = ""  # what the last step said is on record, and no answer
        before = self._here()
        # An interrupt that comes now is too late for this turn.
        with suppress(asyncio.CancelledError):
            await self._store.end(
                *self._ended, self._rest(storable(why)), account=self.account.to_json(completed=False)
            )
        child_id = self._store.session_id
        # Cut off in the very moment of its commit, a rotation is heard of only here.
        return [] if child_id == before["session_id"] else [SessionRotated(**before, child_id=child_id)]

    def _completed(self) -> Event:
        self._mind.recollection.completed(self._store.session_id)
        return TurnCompleted(**self._here(), final_response=self.final_response)

    def _rest(self, why: str) -> list[Message]:
        """What a turn that was cut off still lacks: results for its open calls, and a last word."""
        open_calls = self._mind.transcript.unanswered
        results = [tool_message(call, INTERRUPTED_CALL, ok=False) for call in open_calls]
        return [*results, self._answer.cut_off(why)]

    def _limit_reached(self) -> str | None:
        limits = self._mind.limits
        if self.steps >= limits.max_steps:
            return f"the limit of {limits.max_steps} steps for one turn was reached"
        if self._mind.clock.monotonic() - self._began >= limits.max_seconds:
            return f"the limit of {limits.max_seconds:g} s for one turn was reached"
        cost = self.cost
        if limits.max_cost is not None and cost is not None and cost >= limits.max_cost:
            return f"the limit of ${limits.max_cost:g} for one turn was reached"
        return None

    def _explanation(self, limit: str) -> Message:
        done = "\n".join(f"- {each}" for each in self._done) or "- nothing that used a tool"
        return {
            "role": "assistant",
            "content": f"I stopped here: {limit}.\n\nDone so far in this turn:\n{done}\n\n"
            'Say "go on" and I continue from here.',
        }

    @property
    def cost(self) -> float | None:
        """Dollars spent so far; None when the model's prices aren't known."""
        return self._mind.model.traits.prices.cost(self.usage)

    def _here(self) -> "Here":
        return {"session_id": self._store.session_id, "turn_id": self._store.turn_id}


class Here(TypedDict):
    session_id: str
    turn_id: str
