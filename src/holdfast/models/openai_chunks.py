"""Reads the chunks of one streamed chat completion, plain JSON, into pieces of the contract.

Servers promise more than they keep: any field may be missing or of another kind, so everything is looked at
before it is used.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.core.errors import StreamBroken
from holdfast.models.call_pieces import CallPieces
from holdfast.models.contract import Finished, ModelPiece, ReasoningPiece, StopReason, TextPiece, Usage

# The server gave up, not the model.
GAVE_UP = frozenset({"error", "abort"})
CUT_SHORT: dict[str, StopReason] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refused",
}
# Servers send a model's reasoning under one of these names, some of them under both.
REASONING = ("reasoning_content", "reasoning")


class ChunkReader:
    """One answer as it comes in."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._calls = CallPieces()
        self._usage: Usage | None = None
        self._reason = ""
        self._refused = False
        self.began = False
        """Whether any piece of the answer has come."""

    @property
    def ended(self) -> bool:
        """Whether the server has said why the answer ends."""
        return bool(self._reason)

    def pieces(self, chunk: object) -> Iterator[ModelPiece]:
        """What one chunk adds to the answer."""
        usage = _part(chunk, "usage")
        if usage is not None:
            self._usage = _usage(usage)
        for choice in _list(chunk, "choices"):
            delta = _part(choice, "delta")
            if delta is not None:
                for piece in self._delta(delta):
                    self.began = True
                    yield piece
            reason = _text(choice, "finish_reason")
            if reason in GAVE_UP:
                raise StreamBroken(self._model, f"the server ended the answer with {reason!r}")
            self._reason = reason or self._reason

    def finished(self) -> Finished:
        """The end of the answer; raises `StreamBroken` when the server never said so."""
        if not self.ended:
            raise StreamBroken(self._model, "the answer stopped before its end")
        return Finished(self._stop_reason(), self._usage)

    def _stop_reason(self) -> StopReason:
        if self._refused:
            return "refused"
        if self._reason in CUT_SHORT:
            return CUT_SHORT[self._reason]
        # Some servers say "stop" after a tool call, so the calls themselves decide.
        return "tool_calls" if self._calls else "stop"

    def _delta(self, delta: object) -> Iterator[ModelPiece]:
        reasoning = next(filter(None, (_text(delta, name) for name in REASONING)), "")
        if reasoning:
            yield ReasoningPiece(reasoning)
        if text := _text(delta, "content"):
            yield TextPiece(text)
        if refusal := _text(delta, "refusal"):
            self._refused = True
            yield TextPiece(refusal)
        for call in _list(delta, "tool_calls"):
            function = _part(call, "function")
            index = _part(call, "index")
            yield from self._calls.add(
                index if isinstance(index, int) else None,
                _text(call, "id"),
                _text(function, "name"),
                _text(function, "arguments"),
            )


def joined(pieces: Iterable[ModelPiece]) -> Iterator[ModelPiece]:
    """The same pieces, with neighbours of one text as one."""
    held: TextPiece | ReasoningPiece | None = None
    for piece in pieces:
        if isinstance(piece, TextPiece) and isinstance(held, TextPiece):
            held = TextPiece(held.text + piece.text)
        elif isinstance(piece, ReasoningPiece) and isinstance(held, ReasoningPiece):
            held = ReasoningPiece(held.text + piece.text)
        else:
            if held is not None:
                yield held
            held = piece if isinstance(piece, (TextPiece, ReasoningPiece)) else None
            if held is None:
                yield piece
    if held is not None:
        yield held


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
