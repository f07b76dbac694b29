"""Turns the chunks of one streamed chat completion into pieces of the contract.

Servers do not always follow the protocol: any field may be missing or have another type, so every field is
checked before it is used.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.core.errors import StreamBroken
from holdfast.models.call_pieces import CallPieces
from holdfast.models.contract import (
    Finished,
    ModelPiece,
    ReasoningPiece,
    StopReason,
    TextPiece,
    ToolCallPiece,
    Usage,
)
from holdfast.models.event_data import EventData

DONE = "[DONE]"
# The server gave up, not the model.
ABORT_REASONS = frozenset({"error", "abort"})
CUT_OFF_REASONS: dict[str, StopReason] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refused",
}
Texts = type[TextPiece | ReasoningPiece]
# Servers send a model's reasoning under one of these names, and some servers use both.
KINDS: tuple[tuple[tuple[str, ...], Texts], ...] = (
    (("reasoning_content", "reasoning"), ReasoningPiece),
    (("content",), TextPiece),
    (("refusal",), TextPiece),
)


class ErrorInStream(Exception):
    """A server reported an error inside its answer."""

    def __init__(self, body: object) -> None:
        super().__init__("the server reported an error within its answer")
        self.body = body


class ChunkReader:
    """One answer while it arrives."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._events = EventData()
        self._calls = CallPieces()
        self._usage: Usage | None = None
        self._reason = ""
        self._answers = ""
        self._refused = False
        self.began = False
        """Whether any piece of the answer has arrived."""
        self.closed = False
        """Whether the answer has no more data."""
        self.failure: Exception | None = None
        """The failure that ended the answer after the pieces that were read."""

    @property
    def ended(self) -> bool:
        """Whether the server has sent the reason for the end."""
        return bool(self._reason)

    def feed(self, content: bytes) -> list[ModelPiece]:
        """The pieces that these bytes add to the answer; empty bytes mean its end."""
        self.closed = not content
        try:
            return self._arrived(self._events.feed(content) if content else self._events.end())
        except ValueError as cause:
            self.failure = cause
            return []

    def pieces(self, chunks: Iterable[object]) -> list[ModelPiece]:
        """The pieces of chunks that arrived together; adjacent texts of one kind become one piece."""
        found = _Found()
        for chunk in chunks:
            if gave_up := self._read(chunk, found):
                self.failure = StreamBroken(self._model, f"the server ended the answer with {gave_up!r}")
                break
        pieces = found.pieces()
        self.began = self.began or bool(pieces)
        return pieces

    def finished(self) -> Finished:
        """The end of the answer; raises `StreamBroken` when the server did not send it."""
        if not self.ended:
            raise StreamBroken(self._model, "the answer stopped before its end")
        return Finished(self._stop_reason(), self._usage, model=self._answers)

    def _stop_reason(self) -> StopReason:
        if self._refused:
            return "refused"
        if self._reason in CUT_OFF_REASONS:
            return CUT_OFF_REASONS[self._reason]
        # Some servers say "stop" after a tool call, so the calls themselves decide.
        return "tool_calls" if self._calls else "stop"

    def _arrived(self, events: Sequence[str]) -> list[ModelPiece]:
        chunks, failure = _chunks([data for data in events if not data.startswith(DONE)])
        pieces = self.pieces(chunks)
        self.failure = self.failure or failure
        return pieces

    def _read(self, chunk: object, found: "_Found") -> str:
        """Read one chunk. Returns the server's reason when it aborted the answer."""
        if not isinstance(chunk, dict):
            return ""
        if (usage := chunk.get("usage")) is not None:
            self._usage = _usage(usage)
        self._answers = self._answers or _text(chunk, "model")
        for choice in _list(chunk, "choices"):
            if not isinstance(choice, dict):
                continue
            delta = choice.get("delta")
            if isinstance(delta, dict):
                self._delta(delta, found)
            reason = choice.get("finish_reason")
            if reason and isinstance(reason, str):
                if reason in ABORT_REASONS:
                    return reason
                self._reason = reason
        return ""

    def _delta(self, delta: dict[str, Any], found: "_Found") -> None:
        for names, kind in KINDS:
            for name in names:
                text = delta.get(name)
                if text and isinstance(text, str):
                    found.text(kind, text)
                    break
        if _text(delta, "refusal"):
            self._refused = True
        for call in _list(delta, "tool_calls"):
            function = _part(call, "function")
            index = _part(call, "index")
            for piece in self._calls.add(
                index if isinstance(index, int) else None,
                _text(call, "id"),
                _text(function, "name"),
                _text(function, "arguments"),
            ):
                found.call(piece)


class _Found:
    """Pieces in their order. Texts are joined once, when a piece of another kind follows."""

    def __init__(self) -> None:
        self._pieces: list[ModelPiece] = []
        self._kind: Texts = TextPiece
        self._texts: list[str] = []

    def text(self, kind: Texts, text: str) -> None:
        if kind is not self._kind:
            self._close()
            self._kind = kind
        self._texts.append(text)

    def call(self, piece: ToolCallPiece) -> None:
        self._close()
        self._pieces.append(piece)

    def pieces(self) -> list[ModelPiece]:
        self._close()
        return self._pieces

    def _close(self) -> None:
        if self._texts:
            self._pieces.append(self._kind("".join(self._texts)))
            self._texts.clear()


def _chunks(events: Iterable[str]) -> tuple[list[object], Exception | None]:
    """The valid chunks before the first bad one, and the failure of that one."""
    chunks: list[object] = []
    for data in events:
        try:
            chunk = json.loads(data)
        except ValueError as cause:
            return chunks, cause
        if isinstance(chunk, dict) and chunk.get("error"):
            return chunks, ErrorInStream(chunk["error"])
        chunks.append(chunk)
    return chunks, None


def _part(holder: object, name: str) -> Any:  # noqa: ANN401 - whatever a server sent
    return holder.get(name) if isinstance(holder, dict) else None


def _text(holder: object, name: str) -> str:
    value = _part(holder, name)
    return value if isinstance(value, str) else ""


def _list(holder: object, name: str) -> list[object]:
    value = _part(holder, name)
    return value if isinstance(value, list) else []


def _count(holder: object, name: str) -> int:
    value = _part(holder, name)
    return value if isinstance(value, int) and value > 0 else 0


def _usage(usage: object) -> Usage:
    details = _part(usage, "prompt_tokens_details")
    sent = _count(usage, "prompt_tokens")
    cached = _count(details, "cached_tokens") or _count(usage, "prompt_cache_hit_tokens")
    return Usage(sent, _count(usage, "completion_tokens"), min(cached, sent))
