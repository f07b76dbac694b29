"""`ModelCalls`: one turn's requests to the model. It builds each request, reads the stream, keeps the answer.

A conversation that is too long is compacted first, or when the model says so. When the model refuses a
request for its content, it is sent again without the likely causes (`refused_content.py`). A stream that
breaks is started over by the model's own retries (`models/retrying_model.py`); what had come stays on record.
"""

from collections.abc import Generator
from contextlib import contextmanager

from holdfast.agent.answer import Answer, open_stream
from holdfast.agent.context_use import beside_messages
from holdfast.agent.partial_saver import PartialSaver
from holdfast.agent.prompt import with_recalled
from holdfast.agent.refused_content import Refusals
from holdfast.agent.system_text import combined
from holdfast.agent.turn_context import TurnContext
from holdfast.agent.turn_store import TurnStore
from holdfast.core.contract import Message
from holdfast.core.errors import AnswerEmpty, ContentRejected, ContextTooLong, StreamBroken
from holdfast.core.events import (
    CompactionFinished,
    CompactionStarted,
    Emit,
    ModelRetrying,
    Notice,
    ReasoningDelta,
    SessionRotated,
    StepFinished,
    TextDelta,
)
from holdfast.core.messages import storable, text_of
from holdfast.models.contract import ModelRequest, ReasoningPiece, Retrying, TextPiece, Usage, dollars

MODEL_CHARACTERS = 200
"""Of the name that a server gives to the model that answered."""
NOTICES = {
    "length": "the answer was cut at the model's output limit",
    "refused": "the model refused to answer",
}


class ModelCalls:
    """The model's part of one turn. `answer` holds what has come of the answer that streams now."""

    def __init__(self, context: TurnContext, store: TurnStore, emit: Emit, emit_delta: Emit) -> None:
        """`emit_delta` is given the pieces of text and reasoning, `emit` every other event."""
        self._context = context
        self._store = store
        self._emit = emit
        self._emit_delta = emit_delta
        self._saver = PartialSaver(store)
        self._addition: tuple[int, str] | None = None
        """The index of a message, and the text before it in every request; it is never on record."""
        self.answer = Answer()
        self.steps = 0
        self.usage = Usage()

    def add_to_last_message(self, recalled: str) -> None:
        """Send what memory recalled with the message that the transcript ends with now."""
        if recalled:
            self._addition = (len(self._context.transcript.messages) - 1, recalled)

    async def keep_answer(self, message: Message) -> None:
        """Store what the model said."""
        with self.storing_answer():
            await self._store.keep(message)

    @contextmanager
    def storing_answer(self) -> Generator[None, None, None]:
        """Once the body has stored the answer, nothing of it is partial any more."""
        stored = self._store.stored
        try:
            yield
        finally:
            if self._store.stored > stored:
                self.answer = Answer()

    async def answer_next(self) -> Answer:
        """One whole answer of the model. Raises why the request was refused when nothing helps."""
        if self._context.compaction.is_due(self._context.transcript.tokens):
            await self._compact()
        refusals = Refusals(self._context.transcript)
        try:
            while (refused := await self._ask()) is not None:
                await self._change_request(refused, refusals)
        finally:
            refusals.restore()
        if (note := refusals.note()) is not None:
            await self._store.keep(note)
            self._emit(Notice(**self._store.ids, text=text_of(note).strip("[]")))
        return self.answer

    async def _change_request(self, refused: ContextTooLong | ContentRejected, refusals: Refusals) -> None:
        """Shorten the conversation, or leave out a likely cause; raises the refusal when neither works."""
        if isinstance(refused, ContextTooLong):
            refusals.restore()
            if await self._compact():
                refusals.forget()
                return
        if self.answer.has_text or not refusals.leave_out(refused):
            raise refusals.first or refused

    async def _ask(self) -> ContextTooLong | ContentRejected | None:
        """Send one request and read the answer; returns why the model does not take it."""
        self.answer = Answer()
        try:
            await self._read(self._request())
        except (ContextTooLong, ContentRejected) as refused:
            return refused
        finally:
            await self._saver.stop()
        self._finish_step()
        return None

    def _request(self) -> ModelRequest:
        context = self._context
        return ModelRequest(
            system=combined(context.system, context.transcript.system),
            messages=self._messages(),
            tools=context.schemas,
            conversation=self._store.session_id,
            max_output_tokens=context.client.max_tokens,
            options=context.model_options(first=self.steps == 0),
        )

    def _messages(self) -> list[Message]:
        messages = self._context.transcript.messages
        if self._addition is None:
            return messages
        index, text = self._addition
        return [*messages[:index], with_recalled(messages[index], text), *messages[index + 1 :]]

    async def _read(self, request: ModelRequest) -> None:
        """Take in the stream, piece by piece. Every word takes this path, so each step in it is cheap."""
        session_id, turn_id = self._store.session_id, self._store.turn_id
        answer, saver, emit = self.answer, self._saver, self._emit_delta
        async with open_stream(self._context.model, request) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextPiece) and isinstance(piece.text, str):
                    answer.add_text(piece.text)
                    saver.start(answer)
                    emit(TextDelta(session_id=session_id, turn_id=turn_id, text=piece.text))
                elif isinstance(piece, ReasoningPiece) and isinstance(piece.text, str):
                    answer.add_reasoning(piece.text)
                    emit(ReasoningDelta(session_id=session_id, turn_id=turn_id, text=piece.text))
                elif isinstance(piece, Retrying):
                    await self._start_over(piece)
                    answer = self.answer
                else:
                    answer.add(piece)

    async def _start_over(self, retry: Retrying) -> None:
        """The stream broke: what had come stays on record, and the answer begins anew."""
        await self._saver.stop()
        partial, self.answer = self.answer, Answer()
        if partial.text:
            await self._store.keep(partial.superseded(retry.problem))
        self._emit(
            ModelRetrying(
                **self._store.ids,
                attempt=retry.attempt,
                delay=retry.delay,
                problem=retry.problem,
                partial=bool(partial.text),
            )
        )

    def _finish_step(self) -> None:
        """The answer is whole: count it, and tell what a person should know about it."""
        transcript, traits = self._context.transcript, self._context.model.traits
        end = self.answer.finished
        if end is None:
            raise StreamBroken(traits.name, "the answer stopped before its end")
        if self.answer.is_empty and end.stop_reason != "refused":
            raise AnswerEmpty(traits.name, "the answer was empty")
        self.steps += 1
        used = end.usage or Usage()
        self.usage += used
        cost = self._context.meter.add(traits, end.usage)
        if end.usage is not None:
            transcript.counted(end.usage)
        beside = beside_messages(self._context.system, self._context.schemas)
        self._emit(
            StepFinished(
                **self._store.ids,
                step=self.steps,
                input_tokens=used.input,
                output_tokens=used.output,
                cached_tokens=used.cached,
                cost=dollars(cost),
                context=transcript.counted_tokens or transcript.tokens + beside,
                window=traits.context_window,
                stop_reason=end.stop_reason,
                model=traits.name,
                provider=traits.provider,
                response_model=storable(str(end.model))[:MODEL_CHARACTERS],
            )
        )
        if end.stop_reason in NOTICES:
            self._emit(Notice(**self._store.ids, text=NOTICES[end.stop_reason]))

    async def _compact(self) -> bool:
        """Compact the conversation; returns whether it continues in a child session."""
        before, parent = self._context.transcript.tokens, self._store.ids
        self._emit(CompactionStarted(**parent, tokens=before))
        outcome = await self._context.compaction.compress(
            self._store.session_id, tokens=before, lease=self._store.lease
        )
        moved = outcome.session_id != self._store.session_id
        if moved:
            self._store.moved(outcome.session_id, outcome.messages)
            self._addition = None  # its message is another one now
            self._emit(SessionRotated(**parent, child_id=outcome.session_id))
        self._emit(
            CompactionFinished(
                **self._store.ids,
                outcome=outcome.said,
                tokens_before=before,
                tokens_after=self._context.transcript.tokens,
            )
        )
        return moved
