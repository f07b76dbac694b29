"""`GgufModel`: a GGUF file on this machine as a `Model`. Read `models/contract.py` first.

`transcript.py` and `tool_prompt.py` make the prompt, `runtime.py` runs the model, and `answer_json.py` reads
answers with tool calls.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
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
from holdfast.models.gguf.answer_json import AnswerReader, UnexpectedJson
from holdfast.models.gguf.runtime import (
    AnswerEnded,
    Chunk,
    LoadFailed,
    QueueFull,
    RequestRefused,
    Runtime,
    RuntimeClosed,
    RuntimeEvent,
    WorkerLost,
)
from holdfast.models.gguf.tool_prompt import answer_schema, tool_prompt
from holdfast.models.gguf.transcript import chat, clean
from holdfast.models.gguf.worker_handle import RuntimeSpec

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
        self._runtime = Runtime(spec, clock or SystemClock())

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
        while True:
            try:
                with self._asked(body) as arrived:
                    while (chunk := await self._next_chunk(arrived, began=answer.began)) is not None:
                        for piece in answer.pieces(chunk):
                            yield piece
                break
            except RequestRejected:
                if answer.began or loose or "response_format" not in body:
                    raise
                # The grammar compiler doesn't accept every schema; the agent checks the arguments anyway.
                body, loose = self._body(request, loose=True), True
        yield answer.finished()

    async def close(self) -> None:
        """End the runtime and free its memory, even in the middle of an answer."""
        loop = asyncio.get_running_loop()
        closed = loop.create_future()
        self._runtime.close(_resolver(loop, closed))
        # The runtime is killed, which takes longer only on a machine with problems.
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
        job = self._runtime.submit(body, _deliverer(loop, arrived))
        try:
            yield arrived
        finally:
            self._runtime.cancel(job)

    async def _next_chunk(
        self, arrived: "asyncio.Queue[RuntimeEvent]", *, began: bool
    ) -> Mapping[str, Any] | None:
        """The next part of the answer; None at its end. Raises the named error when the runtime failed."""
        event = await arrived.get()
        if isinstance(event, AnswerEnded):
            return None
        if not isinstance(event, Chunk):
            self._raise_named(event, began=began)
        if "error" in event.data:
            self._raise_refused(event.data["error"])
        return event.data

    def _raise_named(self, event: RuntimeEvent, *, began: bool) -> NoReturn:
        name = self._traits.name
        match event:
            case LoadFailed(problem):
                raise ModelFileInvalid(str(self._spec.file), problem)
            case RequestRefused(problem):
                raise RequestRejected(name, problem)
            case WorkerLost(problem):
                raise (StreamBroken if began else ModelUnreachable)(name, problem)
            case QueueFull():
                raise ModelBusy(name, "too many requests wait for it")
            case RuntimeClosed() | _:
                raise RequestRejected(name, "it is closed")

    def _raise_refused(self, error: Mapping[str, Any]) -> NoReturn:
        if error.get("type") == "exceed_context_size_error":
            raise ContextTooLong(
                self._traits.name,
                f"{error.get('n_prompt_tokens')} tokens, and its window holds {error.get('n_ctx')}",
            )
        raise RequestRejected(self._traits.name, str(error.get("message", error)))


class _AnswerBuilder:
    """One answer while it arrives."""

    def __init__(self, model: str, *, as_json: bool) -> None:
        self._model = model
        self._reader = AnswerReader() if as_json else None
        self._reason = ""
        self._usage: Usage | None = None
        self._has_content = False
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
        """The end of the answer; raises `StreamBroken` or `AnswerEmpty` when it is not complete."""
        if self._reason == "length":
            return Finished("length", self._usage)
        if not self._reason or (self._reader is not None and not self._reader.whole):
            raise StreamBroken(self._model, "the answer stopped before its end")
        if not self._has_content:
            raise AnswerEmpty(self._model, "the answer was empty")
        return Finished("tool_calls" if self._reader and self._reader.calls else "stop", self._usage)

    def _delta(self, delta: Mapping[str, Any]) -> list[ModelPiece]:
        pieces: list[ModelPiece] = []
        if reasoning := delta.get("reasoning_content"):
            pieces.append(ReasoningPiece(reasoning))
        if text := delta.get("content"):
            pieces += self._content(text)
        self._has_content = self._has_content or any(
            isinstance(piece, ToolCallPiece) or (isinstance(piece, TextPiece) and piece.text.strip())
            for piece in pieces
        )
        return pieces

    def _content(self, text: str) -> list[ModelPiece]:
        if self._reader is None:
            return [TextPiece(text)]
        try:
            return self._reader.pieces(text)
        except UnexpectedJson as cause:
            raise StreamBroken(
                self._model, f"the answer is not the JSON that was asked for: {cause}"
            ) from cause


def _deliverer(
    loop: asyncio.AbstractEventLoop, arrived: "asyncio.Queue[RuntimeEvent]"
) -> Callable[[RuntimeEvent], None]:
    def deliver(event: RuntimeEvent) -> None:
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
