"""A model that memory may ask: one question, one whole answer, from a thread of memory's own."""

import asyncio
from contextlib import aclosing

from holdfast.core.errors import AnswerEmpty, ModelUnreachable
from holdfast.memory.contract import Complete
from holdfast.models.contract import Model, ModelRequest, Retrying, TextPiece

ANSWER_TOKENS = 4_000
# Beyond what a patient model takes by itself, nobody waits.
LONGEST_SECONDS = 600.0


def answering(model: Model, loop: asyncio.AbstractEventLoop) -> Complete | None:
    """Asks `model` on the loop that it lives on; None for a model whose extracts aren't worth having."""
    if not model.traits.summarises:
        return None

    def complete(system: str, text: str) -> str:
        if loop.is_closed():
            raise ModelUnreachable(model.traits.name, "the program is ending")
        answer = asyncio.run_coroutine_threadsafe(_whole_answer(model, system, text), loop)
        try:
            return answer.result(LONGEST_SECONDS)
        except TimeoutError:
            answer.cancel()
            raise ModelUnreachable(model.traits.name, f"no answer in {LONGEST_SECONDS:g} s") from None

    return complete


async def _whole_answer(model: Model, system: str, text: str) -> str:
    request = ModelRequest(system, [{"role": "user", "content": text}], max_output_tokens=ANSWER_TOKENS)
    said: list[str] = []
    async with aclosing(model.stream(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Retrying):
                said = []
            elif isinstance(piece, TextPiece):
                said.append(piece.text)
    if not "".join(said).strip():
        raise AnswerEmpty(model.traits.name, "it said nothing")
    return "".join(said)
