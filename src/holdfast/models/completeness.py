"""Checks that an answer is complete: it ends with `Finished`, and it has text or a tool call."""

from holdfast.core.errors import AnswerEmpty, StreamBroken
from holdfast.models.contract import Finished, ModelPiece, Retrying, TextPiece, ToolCallPiece


class Completeness:
    """Checks the pieces of one answer.

    An answer that was cut off by its length, or refused, may be empty: another attempt would change nothing.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._has_content = False
        self._finished = False

    def check(self, piece: ModelPiece) -> ModelPiece:
        """Return the same piece.

        Raises `AnswerEmpty` when the answer ends without text and without a call.
        """
        if isinstance(piece, TextPiece):
            self._has_content = self._has_content or bool(piece.text.strip())
        elif isinstance(piece, ToolCallPiece):
            self._has_content = True
        elif isinstance(piece, Retrying):
            self._has_content = False
        elif isinstance(piece, Finished):
            self._finished = True
            if not self._has_content and piece.stop_reason in ("stop", "tool_calls"):
                raise AnswerEmpty(self._model, "the answer was empty")
        return piece

    def end(self) -> None:
        """Call it after the last piece: raises `StreamBroken` when the answer hasn't ended."""
        if not self._finished:
            raise StreamBroken(self._model, "the answer stopped before its end")
