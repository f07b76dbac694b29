"""Lets memory providers ask the model: one question and one whole answer, from a thread of memory."""

import asyncio

from holdfast.agent.answer import whole_answer
from holdfast.core.errors import AnswerEmpty, ModelUnreachable
from holdfast.memory.contract import TextCompletion
from holdfast.models.contract import Model, ModelRequest

ANSWER_TOKENS = 4_000
# Longer than all retries of a model take together.
MAX_SECONDS = 600.0


def complete_with(model: Model, loop: asyncio.AbstractEventLoop) -> TextCompletion | None:
    """A function that asks `model` on its loop; None when the model is too weak to summarise."""
    if not model.traits.summarises:
        return None

    def complete(system: str, text: str) -> str:
        if loop.is_closed():
            raise ModelUnreachable(model.traits.name, "the program is ending")
        answer = asyncio.run_coroutine_threadsafe(_whole_answer(model, system, text), loop)
        try:
            return answer.result(MAX_SECONDS)
        except TimeoutError:
            answer.cancel()
            raise ModelUnreachable(model.traits.name, f"no answer in {MAX_SECONDS:g} s") from None

    return complete


async def _whole_answer(model: Model, system: str, text: str) -> str:
    request = ModelRequest(system, [{"role": "user", "content": text}], max_output_tokens=ANSWER_TOKENS)
    answer = (await whole_answer(model, request)).text
    if not answer.strip():
        raise AnswerEmpty(model.traits.name, "the answer was empty")
    return answer
