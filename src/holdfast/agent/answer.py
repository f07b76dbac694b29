"""`Answer`: a model's streamed pieces, put together into one assistant message.

At any moment it holds what has come so far, so an answer that is cut off is kept as far as it got. Models are
not trusted: `open_stream` and `Answer` take whatever a model does wrong.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from holdfast.agent.message_repair import as_arguments
from holdfast.core.contract import Message, ToolCall
from holdfast.core.errors import StreamBroken
from holdfast.core.ids import new_id
from holdfast.core.messages import HOLDFAST_KEY, storable
from holdfast.models.contract import (
    Finished,
    Model,
    ModelPiece,
    ModelRequest,
    ReasoningPiece,
    Retrying,
    TextPiece,
    ToolCallPiece,
)
from holdfast.process.cancellation import is_cancelled


@asynccontextmanager
async def open_stream(
    model: Model, request: ModelRequest
) -> AsyncGenerator[AsyncGenerator[ModelPiece, None], None]:
    """The model's answer as it streams, closed at the end; a model that cancels itself has failed."""
    try:
        async with aclosing(model.stream(request)) as pieces:
            yield pieces
    except asyncio.CancelledError as cancelled:
        if is_cancelled():
            raise
        raise StreamBroken(model.traits.name, "it cancelled itself") from cancelled


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Answer:
    """One answer of a model, complete or cut off."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _Call] = {}
        self.finished: Finished | None = None

    def add_text(self, text: str) -> None:
        self._text.append(text)

    def add_reasoning(self, text: str) -> None:
        self._reasoning.append(text)

    def add(self, piece: TextPiece | ReasoningPiece | ToolCallPiece | Finished) -> None:
        """Take in a piece of any kind; one that holds no text where text belongs is left out."""
        match piece:
            case TextPiece(text=str(text)):
                self.add_text(text)
            case ReasoningPiece(text=str(text)):
                self.add_reasoning(text)
            case ToolCallPiece():
                call = self._calls.setdefault(piece.index, _Call())
                call.id = call.id or storable(str(piece.id or ""))
                call.name = call.name or storable(str(piece.name or ""))
                call.arguments.append(str(piece.arguments or ""))
            case Finished():
                self.finished = piece

    @property
    def text(self) -> str:
        return storable("".join(self._text))

    @property
    def has_text(self) -> bool:
        """Whether any text has come, even an empty piece."""
        return bool(self._text)

    @property
    def is_empty(self) -> bool:
        return not self._calls and not self.text.strip()

    def message(self) -> Message:
        """The whole answer as it is stored."""
        kept = self.finished.keep if self.finished else None
        message = self._message(self.text, {"keep": dict(kept)} if kept else {})
        if calls := self._tool_calls():
            message["tool_calls"] = calls
        return message

    def cut_off(self, why: str) -> Message:
        """What had come when the answer was cut off, without calls that were never made."""
        note = f"[cut off here: {why}]"
        return self._message(f"{self.text}\n\n{note}" if self.text else note, {"cut_off": why})

    def superseded(self, why: str) -> Message:
        """What had come before the model was asked again: on record for people, not for the model."""
        return self._message(self.text, {"superseded": why})

    def _message(self, content: str, facts: dict[str, Any]) -> Message:
        """The message with what is kept beside its content: the reasoning, and these facts."""
        if self._reasoning:
            facts = {"reasoning": storable("".join(self._reasoning)), **facts}
        kept = {HOLDFAST_KEY: facts} if facts else {}
        return cast("Message", {"role": "assistant", "content": content, **kept})

    def _tool_calls(self) -> list[ToolCall]:
        calls: list[ToolCall] = []
        taken: set[str] = set()
        for index in sorted(self._calls):
            call = self._calls[index]
            # A result is matched to its call by the id, so no two calls may share one.
            call_id = call.id if call.id and call.id not in taken else f"call_{new_id()}"
            taken.add(call_id)
            function = {"name": call.name, "arguments": as_arguments("".join(call.arguments))}
            calls.append(cast("ToolCall", {"id": call_id, "type": "function", "function": function}))
        return calls


async def whole_answer(model: Model, request: ModelRequest) -> Answer:
    """The model's answer once it has ended; what came before a retry is dropped."""
    answer = Answer()
    async with open_stream(model, request) as pieces:
        async for piece in pieces:
            if isinstance(piece, Retrying):
                answer = Answer()
            else:
                answer.add(piece)
    return answer
