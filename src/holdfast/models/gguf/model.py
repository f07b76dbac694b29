"""`GgufModel`: a GGUF file on this machine as a `Model`. Read `models/contract.py` first.

`transcript.py` and `tool_prompt.py` say what goes in, `answer_json.py` reads what comes out with tools, and
`runtime.py` runs it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.errors import (
    AnswerEmpty,
    ContextTooLong,
    ModelBusy,
    ModelFileInvalid,
    ModelUnreachable,
    RequestRejected,
    StreamBroken,
)
from holdfast.models.contract import (
    Finished,
    ModelPiece,
    ModelRequest,
    ModelTraits,
    ReasoningPiece,
    TextPiece,
    ToolCallPiece,
    Usage,
)
from holdfast.models.gguf.answer_json import AnswerReader, NotTheAnswer
from holdfast.models.gguf.runtime import (
    Chunk,
    Closed,
    Ended,
    Event,
    Full,
    LoadFailed,
    RequestRefused,
    Runtime,
    WorkerLost,
)
from holdfast.models.gguf.tool_prompt import answer_schema, tool_prompt
from holdfast.models.gguf.transcript import chat, clean
from holdfast.models.gguf.worker_handle import RuntimeSpec

CLOSE_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Style:
    """How a model wants to be spoken to."""

    own_system: str = "You are a helpful assistant."
    """Sent when the request has no system text, or one that is too long."""
    longest_system: int | None = None
    """Characters of a system text that the model can follow; None for any length."""
    longest_answer: int | None = None
    """Tokens of an answer when the request doesn't say; None for as many as fit."""
    sampling: Mapping[str, Any] = field(default_factory=dict)

    def system(self, given: str) -> str:
        too_long = self.longest_system is not None and len(given) > self.longest_system
        return self.own_system if too_long or not given.strip() else given


class GgufModel:
    """One GGUF file. It is loaded with the first request, or by `warm_up`."""

    def __init__(
        self, spec: RuntimeSpec, traits: ModelTraits, style: Style, *, clock: Clock | None = None
    ) -> None:
        self._spec = spec
        self._traits = traits
        self._style = style
        self._runtime = Runtime(spec, clock or SystemClock())

    @property
    def traits(self) -> ModelTraits:
        return self._traits

    async def warm_up(self) -> None:
        """Load the file now, so that the first answer doesn't wait for it; raises a `ModelFailure`."""
        async for _ in self._chunks(None):
            pass

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """The answer, piece by piece. Requests are answered one at a time, in the order they came."""
        body = self._body(request)
        answer = _Answer(self._traits.name, as_json="response_format" in body)
        try:
            async with aclosing(self._pieces(body, answer)) as pieces:
                async for piece in pieces:
                    yield piece
        except RequestRejected:
            if answer.began or "response_format" not in body:
                raise
            # The grammar compiler doesn't take every schema; the agent checks the arguments anyway.
            async with aclosing(self._pieces(self._body(request, loose=True), answer)) as pieces:
                async for piece in pieces:
                    yield piece
        yield answer.finished()

    async def close(self) -> None:
        """End the runtime and give its memory back, even in the middle of an answer."""
        loop = asyncio.get_running_loop()
        closed = loop.create_future()
        self._runtime.close(_resolver(loop, closed))
        # The runtime is killed, so only a machine in trouble takes longer.
        await asyncio.wait([closed], timeout=CLOSE_PATIENCE)

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
            # Progress is heard while the prompt is read, so that a cancellation is too.
            "return_progress": True,
        }
        longest = request.max_output_tokens or self._style.longest_answer
        if longest is not None:
            body["max_tokens"] = longest
        if tools:
            schema = answer_schema(tools, loose=loose)
            body["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
        return body

    async def _pieces(self, body: Mapping[str, Any], answer: "_Answer") -> AsyncGenerator[ModelPiece, None]:
        async with aclosing(self._chunks(body, answer)) as chunks:
            async for chunk in chunks:
                if "error" in chunk:
                    self._raise_refused(chunk["error"])
                for piece in answer.pieces(chunk):
                    yield piece

    async def _chunks(
        self, body: Mapping[str, Any] | None, answer: "_Answer | None" = None
    ) -> AsyncGenerator[Mapping[str, Any], None]:
        # Bounded by the tokens of one answer.
        arrived: asyncio.Queue[Event] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        job = self._runtime.submit(body, _deliverer(loop, arrived))
        try:
            while not isinstance(event := await arrived.get(), Ended):
                if isinstance(event, Chunk):
                    yield event.data
                else:
                    self._raise_named(event, began=answer is not None and answer.began)
        finally:
            self._runtime.cancel(job)

    def _raise_named(self, event: Event, *, began: bool) -> NoReturn:
        name = self._traits.name
        match event:
            case LoadFailed(problem):
                raise ModelFileInvalid(str(self._spec.file), problem)
            case RequestRefused(problem):
                raise RequestRejected(name, problem)
            case WorkerLost(problem):
                raise (StreamBroken if began else ModelUnreachable)(name, problem)
            case Full():
                raise ModelBusy(name, "too many requests wait for it")
            case Closed() | _:
                raise RequestRejected(name, "it is closed")

    def _raise_refused(self, error: Mapping[str, Any]) -> NoReturn:
        if error.get("type") == "exceed_context_size_error":
            raise ContextTooLong(
                self._traits.name,
                f"{error.get('n_prompt_tokens')} tokens, and its window holds {error.get('n_ctx')}",
            )
        raise RequestRejected(self._traits.name, str(error.get("message", error)))


class _Answer:
    """One answer as it comes in."""

    def __init__(self, model: str, *, as_json: bool) -> None:
        self._model = model
        self._reader = AnswerReader() if as_json else None
        self._reason = ""
        self._usage: Usage | None = None
        self._said = False
        self.began = False

    def pieces(self, chunk: Mapping[str, Any]) -> list[ModelPiece]:
        if usage := chunk.get("usage"):
            self._usage = Usage(
                input=usage.get("prompt_tokens", 0),
                output=usage.get("completion_tokens", 0),
                cached=(usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
            )
        pieces: list[ModelPiece] = []
        for choice in chunk.get("choices", ()):
            pieces += self._delta(choice.get("delta") or {})
            self._reason = choice.get("finish_reason") or self._reason
        self.began = self.began or bool(pieces)
        return pieces

    def finished(self) -> Finished:
        """The end of the answer; raises `StreamBroken` or `AnswerEmpty` when it isn't whole."""
        if self._reason == "length":
            return Finished("length", self._usage)
        if not self._reason or (self._reader is not None and not self._reader.whole):
            raise StreamBroken(self._model, "the answer stopped before its end")
        if not self._said:
            raise AnswerEmpty(self._model, "the answer was empty")
        return Finished("tool_calls" if self._reader and self._reader.calls else "stop", self._usage)

    def _delta(self, delta: Mapping[str, Any]) -> list[ModelPiece]:
        pieces: list[ModelPiece] = []
        if reasoning := delta.get("reasoning_content"):
            pieces.append(ReasoningPiece(reasoning))
        if text := delta.get("content"):
            pieces += self._content(text)
        self._said = self._said or any(
            isinstance(piece, ToolCallPiece) or (isinstance(piece, TextPiece) and piece.text.strip())
            for piece in pieces
        )
        return pieces

    def _content(self, text: str) -> list[ModelPiece]:
        if self._reader is None:
            return [TextPiece(text)]
        try:
            return self._reader.pieces(text)
        except NotTheAnswer as cause:
            raise StreamBroken(
                self._model, f"the answer is not the JSON that was asked for: {cause}"
            ) from cause


def _deliverer(loop: asyncio.AbstractEventLoop, arrived: "asyncio.Queue[Event]") -> Callable[[Event], None]:
    def deliver(event: Event) -> None:
        loop.call_soon_threadsafe(arrived.put_nowait, event)

    return deliver


def _resolver(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[None]") -> Callable[[], None]:
    def set_result() -> None:
        if not future.done():
            future.set_result(None)

    def resolve() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(set_result)

    return resolve
