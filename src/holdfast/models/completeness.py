"""What makes an answer whole: it ends in `Finished`, and it says something or calls a tool."""

from holdfast.core.errors import AnswerEmpty, StreamBroken
from holdfast.models.contract import Finished, ModelPiece, Retrying, TextPiece, ToolCallPiece


class Completeness:
    """Watches one answer go by.

    An answer cut off by its length, or refused, may be empty: asking again would change nothing.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._said = False
        self._finished = False

    def see(self, piece: ModelPiece) -> ModelPiece:
        """The same piece; raises `AnswerEmpty` where one without a word or a call ends."""
        if isinstance(piece, TextPiece):
            self._said = self._said or bool(piece.text.strip())
        elif isinstance(piece, ToolCallPiece):
            self._said = True
        elif isinstance(piece, Retrying):
            self._said = False
        elif isinstance(piece, Finished):
            self._finished = True
            if not self._said and piece.stop_reason in ("stop", "tool_calls"):
                raise AnswerEmpty(self._model, "the answer was empty")
        return piece

    def end(self) -> None:
        """No more comes: raises `StreamBroken` where the answer hasn't ended."""
        if not self._finished:
            raise StreamBroken(self._model, "the answer stopped before its end")
