"""What makes an answer whole: it ends in `Finished`, and it says something or calls a tool."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from holdfast.core.errors import AnswerEmpty, StreamBroken
from holdfast.models.contract import Finished, ModelPiece, Retrying, TextPiece, ToolCallPiece


async def whole(model: str, pieces: AsyncGenerator[ModelPiece, None]) -> AsyncGenerator[ModelPiece, None]:
    """The same pieces; raises `StreamBroken` or `AnswerEmpty` where the answer isn't whole.

    An answer cut off by its length, or refused, may be empty: asking again would change nothing.
    """
    said = finished = False
    async with aclosing(pieces):
        async for piece in pieces:
            match piece:
                case TextPiece(text):
                    said = said or bool(text.strip())
                case ToolCallPiece():
                    said = True
                case Retrying():
                    said = False
                case Finished(reason):
                    finished = True
                    if not said and reason in ("stop", "tool_calls"):
                        raise AnswerEmpty(model, "the answer was empty")
                case _:
                    pass
            yield piece
    if not finished:
        raise StreamBroken(model, "the answer stopped before its end")
