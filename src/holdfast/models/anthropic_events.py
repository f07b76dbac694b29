"""Turns the events of one streamed message of Anthropic's API into pieces of the contract."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import StreamBroken
from holdfast.models.contract import (
    Finished,
    ModelPiece,
    ReasoningPiece,
    StopReason,
    TextPiece,
    ToolCallPiece,
    Usage,
)

if TYPE_CHECKING:
    from anthropic.types import RawMessageStreamEvent

STOP_REASONS: dict[str, StopReason] = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
THINKING_BLOCKS = ("thinking", "redacted_thinking")


class EventReader:
    """One message while it arrives. Thinking blocks are kept whole, with their signatures and positions."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._blocks: list[dict[str, Any]] = []
        self._calls = 0
        self._arguments_came = False
        self._reason = ""
        self._answers = ""
        self._tokens: dict[str, int] = {}
        self.began = False

    @property
    def ended(self) -> bool:
        return bool(self._reason)

    def pieces(self, event: "RawMessageStreamEvent") -> Iterator[ModelPiece]:
        """The pieces that one event adds to the answer."""
        found: Iterator[ModelPiece] = iter(())
        if event.type == "message_start":
            self._count(event.message.usage)
            self._answers = str(event.message.model)
        elif event.type == "content_block_start":
            found = self._start(event.content_block)
        elif event.type == "content_block_delta":
            found = self._delta(event.delta)
        elif event.type == "content_block_stop":
            found = self._stop()
        elif event.type == "message_delta":
            self._count(event.usage)
            found = self._end(event.delta)
        for piece in found:
            self.began = True
            yield piece

    def finished(self) -> Finished:
        """The end of the answer; raises `StreamBroken` when the end did not arrive."""
        if not self.ended:
            raise StreamBroken(self._model, "the answer stopped before its end")
        read = self._tokens.get("cache_read_input_tokens", 0)
        written = self._tokens.get("cache_creation_input_tokens", 0)
        sent = self._tokens.get("input_tokens", 0) + read + written
        usage = Usage(sent, self._tokens.get("output_tokens", 0), read) if self._tokens else None
        thought = any(block["type"] in THINKING_BLOCKS for block in self._blocks)
        keep = {"anthropic": {"model": self._model, "blocks": self._blocks}} if thought else None
        return Finished(STOP_REASONS.get(self._reason, "stop"), usage, keep, self._answers)

    def _count(self, usage: object) -> None:
        # The counts at the end include those at the beginning; a missing field changes nothing.
        for name in (
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ):
            value = getattr(usage, name, None)
            if isinstance(value, int):
                self._tokens[name] = value

    def _start(self, block: Any) -> Iterator[ModelPiece]:  # noqa: ANN401 - a union of a dozen kinds
        if block.type == "tool_use":
            self._blocks.append({"type": "tool_use", "id": block.id})
            self._calls += 1
            self._arguments_came = False
            yield ToolCallPiece(self._calls - 1, id=block.id, name=block.name)
            if block.input:
                self._arguments_came = True
                yield ToolCallPiece(self._calls - 1, arguments=json.dumps(block.input))
        elif block.type == "text":
            self._blocks.append({"type": "text", "length": len(block.text)})
            if block.text:
                yield TextPiece(block.text)
        elif block.type in THINKING_BLOCKS:
            self._blocks.append(block.model_dump(exclude_none=True))
        else:
            self._blocks.append({"type": "unknown"})

    def _delta(self, delta: Any) -> Iterator[ModelPiece]:  # noqa: ANN401
        if not self._blocks:
            return
        block = self._blocks[-1]
        if delta.type == "text_delta":
            block["length"] = block.get("length", 0) + len(delta.text)
            yield TextPiece(delta.text)
        elif delta.type == "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta.thinking
            yield ReasoningPiece(delta.thinking)
        elif delta.type == "signature_delta":
            block["signature"] = block.get("signature", "") + delta.signature
        elif delta.type == "input_json_delta" and delta.partial_json:
            self._arguments_came = True
            yield ToolCallPiece(self._calls - 1, arguments=delta.partial_json)

    def _stop(self) -> Iterator[ModelPiece]:
        # For a call without arguments the API sends none, but the contract needs a JSON object.
        if self._blocks and self._blocks[-1]["type"] == "tool_use" and not self._arguments_came:
            yield ToolCallPiece(self._calls - 1, arguments="{}")

    def _end(self, delta: Any) -> Iterator[ModelPiece]:  # noqa: ANN401
        self._reason = delta.stop_reason or self._reason
        explanation = getattr(getattr(delta, "stop_details", None), "explanation", None)
        if isinstance(explanation, str) and explanation:
            yield TextPiece(explanation)
