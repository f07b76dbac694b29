"""`GgufModel`: a GGUF file on this machine as a `Model`. Read `models/contract.py` first.

`transcript.py` and `tool_prompt.py` make the prompt, `runtime.py` runs the model, and `answer_json.py` reads
answers with tool calls.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.errors import (
    ContextTooLong,
    ModelFailure,
    ModelUnreachable,
    RequestRejected,
    StreamBroken,
)
from holdfast.models.completeness import Completeness
from holdfast.models.contract import Finished, ModelPiece, ModelRequest, ModelTraits, TextPiece
from holdfast.models.gguf.answer_json import AnswerReader, UnexpectedJson
from holdfast.models.gguf.repetition import RepetitionGuard
from holdfast.models.gguf.runtime import Runtime, RuntimeEvent, WorkerLost
from holdfast.models.gguf.tool_prompt import answer_schema, tool_prompt
from holdfast.models.gguf.transcript import chat, clean
from holdfast.models.gguf.worker_handle import RuntimeSpec
from holdfast.models.openai_chunks import ChunkReader

CLOSE_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """How to prompt a model, and how to sample its answers."""

    own_system: str = "You are a helpful assistant."
    """Sent when the request has no system text, or one that is too long."""
    longest_system: int | None = None
    """Characters of a system text that the model can follow; None for any length."""
    longest_answer: int | None = None
    """Tokens of an answer when the request sets no limit; None for as many as fit."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    most_sentences: int | None = None
    """The answer ends after so many, and when it begins to repeat itself; None: neither."""

    def system(self, given: str) -> str:
        too_long = self.longest_system is not None and len(given) > self.longest_system
        return self.own_system if too_long or not given.strip() else given


class GgufModel:
    """One GGUF file. The first request loads it, or `warm_up` does."""

    def __init__(
        self, spec: RuntimeSpec, traits: ModelTraits, style: PromptStyle, *, clock: Clock | None = None
    ) -> None:
        self._spec = spec
        self._traits = traits
        self._style = style
        self._runtime = Runtime(spec, traits.name, clock or SystemClock())

    @property
    def traits(self) -> ModelTraits:
        return self._traits

    async def warm_up(self) -> None:
        """Load the file now, so that the first answer doesn't wait for it; raises a `ModelFailure`."""
        with self._asked(None) as arrived:
            while await self._next_chunk(arrived, began=False) is not None:
                pass

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """The answer, piece by piece. Requests are answered one at a time, in their order."""
        body, loose = self._body(request), False
        answer = _AnswerBuilder(self._traits.name, as_json="response_format" in body)
        if self._style.most_sentences is not None:
            answer.guard = RepetitionGuard(self._style.most_sentences)
        while True:
            try:
                with self._asked(body) as arrived:
                    while (chunk := await self._next_chunk(arrived, began=answer.began)) is not None:
                        for piece in answer.pieces(chunk):
                            yield piece
                        if answer.guard is not None and answer.guard.ended:
                            yield Finished("stop")
                            return  # what the model would still say is not waited for
                break
            except RequestRejected:
                if answer.began or loose or "response_format" not in body:
                    raise
                # The grammar compiler doesn't accept every schema; the agent checks the arguments anyway.
                body, loose = self._body(request, loose=True), True
        if answer.guard is not None and (rest := answer.guard.rest()):
            yield TextPiece(rest)
        yield answer.finished()

    async def close(self) -> None:
        """End the runtime and free its memory, even in the middle of an answer."""
        loop = asyncio.get_running_loop()
        closed = asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(closed.set)

        self._runtime.close(wake)
        # The runtime is killed, which takes longer only on a machine with problems.
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_PATIENCE):
                await closed.wait()

    def _body(self, request: ModelRequest, *, loose: bool = False) -> dict[str, Any]:
        tools = request.tools if self._traits.calls_tools else ()
        system = self._style.system(request.system)
        if tools:
            system = f"{system}\n\n{tool_prompt(tools)}"
        body: dict[str, Any] = {
            **self._style.sampling,
            "messages": chat(clean(system), request.messages, as_json=bool(tools)),
            "stream": True,
            "stream_options": {"include_usage": True},
            # The runtime reports progress while it reads the prompt, so that it also notices a cancellation.
            "return_progress": True,
        }
        longest = request.max_output_tokens or self._style.longest_answer
        if longest is not None:
            body["max_tokens"] = longest
        if tools:
            schema = answer_schema(tools, loose=loose)
            body["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
        return body

    @contextmanager
    def _asked(self, body: Mapping[str, Any] | None) -> "Iterator[asyncio.Queue[RuntimeEvent]]":
        """What the runtime answers to a request, as long as somebody reads it; None only loads the file."""
        # Bounded by the tokens of one answer.
        arrived: asyncio.Queue[RuntimeEvent] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def deliver(event: RuntimeEvent) -> None:
            loop.call_soon_threadsafe(arrived.put_nowait, event)

        job = self._runtime.submit(body, deliver)
        try:
            yield arrived
        finally:
            self._runtime.cancel(job)

    async def _next_chunk(
        self, arrived: "asyncio.Queue[RuntimeEvent]", *, began: bool
    ) -> Mapping[str, Any] | None:
        """The next part of the answer; None at its end. Raises the named error when the runtime failed."""
        name, event = self._traits.name, await arrived.get()
        if isinstance(event, WorkerLost):
            raise (StreamBroken if began else ModelUnreachable)(name, event.problem)
        if isinstance(event, ModelFailure):
            raise event
        if event is None or "error" not in event:
            return event
        error = event["error"]
        if error.get("type") == "exceed_context_size_error":
            sizes = f"{error.get('n_prompt_tokens')} tokens, and its window holds {error.get('n_ctx')}"
            raise ContextTooLong(name, sizes)
        raise RequestRejected(name, str(error.get("message", error)))


class _AnswerBuilder:
    """One answer while it arrives."""

    def __init__(self, model: str, *, as_json: bool) -> None:
        self._model = model
        self._chunks = ChunkReader(model)
        self._reader = AnswerReader() if as_json else None
        self._completeness = Completeness(model)
        self.guard: RepetitionGuard | None = None
        self.began = False

    def pieces(self, chunk: Mapping[str, Any]) -> list[ModelPiece]:
        pieces: list[ModelPiece] = []
        for piece in self._chunks.pieces([chunk]):
            if self._reader is not None and isinstance(piece, TextPiece):
                pieces += self._from_json(self._reader, piece.text)
            elif self.guard is not None and isinstance(piece, TextPiece):
                if said := self.guard.take(piece.text):
                    pieces.append(TextPiece(said))
            else:
                pieces.append(piece)
        self.began = self.began or bool(pieces)
        return [self._completeness.check(piece) for piece in pieces]

    def finished(self) -> Finished:
        """The end of the answer; raises `StreamBroken` or `AnswerEmpty` when it is not complete."""
        end = self._chunks.finished()
        if self._reader is not None and end.stop_reason != "length":
            if not self._reader.whole:
                raise StreamBroken(self._model, "the answer stopped before its end")
            end = replace(end, stop_reason="tool_calls" if self._reader.calls else "stop")
        self._completeness.check(end)
        return end

    def _from_json(self, reader: AnswerReader, text: str) -> list[ModelPiece]:
        try:
            return reader.pieces(text)
        except UnexpectedJson as cause:
            raise StreamBroken(
                self._model, f"the answer is not the JSON that was asked for: {cause}"
            ) from cause
