"""Lets memory providers and MCP servers ask the model: one question and one whole answer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from holdfast.agent.answer import Answer, whole_answer
from holdfast.agent.usage_meter import usage_entry
from holdfast.core.errors import AnswerEmpty, ModelUnreachable
from holdfast.memory.contract import TextCompletion
from holdfast.models.contract import Model, ModelRequest
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions.usage import UsageEntry

ANSWER_TOKENS = 4_000
# Longer than all retries of a model take together.
MAX_SECONDS = 600.0


KeepUsage = Callable[[str | None, Sequence[UsageEntry]], None]
"""Stores what was used, for a session or for none."""


def complete_with(
    model: Model, loop: asyncio.AbstractEventLoop, keep_usage: KeepUsage = lambda _session, _used: None
) -> TextCompletion | None:
    """A function that asks `model` on its loop; None when the model is too weak to summarise.

    `keep_usage` stores what an answer used, on the thread that asked.
    """
    if not model.traits.summarises:
        return None

    def complete(system: str, text: str, *, session_id: str | None = None) -> str:
        if loop.is_closed():
            raise ModelUnreachable(model.traits.name, "the program is ending")
        answer = asyncio.run_coroutine_threadsafe(_whole_answer(model, system, text), loop)
        try:
            given = answer.result(MAX_SECONDS)
        except TimeoutError:
            answer.cancel()
            raise ModelUnreachable(model.traits.name, f"no answer in {MAX_SECONDS:g} s") from None
        used = given.finished.usage if given.finished else None
        keep_usage(session_id, [usage_entry("memory", model.traits, used)])
        return given.text

    return complete


def answer_with(
    model: Model, keep_usage: KeepUsage, store: DaemonPool
) -> Callable[[str, str, str], Awaitable[tuple[str, str]]]:
    """A function that asks `model` for an MCP server in a session: gives its answer and its name."""

    async def complete(session_id: str, system: str, text: str) -> tuple[str, str]:
        given = await _whole_answer(model, system, text)
        used = given.finished.usage if given.finished else None
        await off_loop(store, keep_usage, session_id, [usage_entry("mcp", model.traits, used)])
        return given.text, model.traits.name

    return complete


async def _whole_answer(model: Model, system: str, text: str) -> Answer:
    request = ModelRequest(system, [{"role": "user", "content": text}], max_output_tokens=ANSWER_TOKENS)
    answer = await whole_answer(model, request)
    if not answer.text.strip():
        raise AnswerEmpty(model.traits.name, "the answer was empty")
    return answer
