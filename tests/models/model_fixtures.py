"""How the tests ask a model, and what they make of the pieces."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from holdfast.core.contract import Message
from holdfast.core.secret import Secret
from holdfast.models.contract import (
    Model,
    ModelPiece,
    ModelRequest,
    ModelTraits,
    TextPiece,
    ToolCallPiece,
    ToolSchema,
)
from holdfast.models.openai_compatible import OpenAICompatible
from holdfast.models.server import Server
from holdfast.testing.scripted_model import Entry
from holdfast.testing.scripted_server import ScriptedServer

T = TypeVar("T")
KEY = "sk-the-key-that-must-not-be-shown"
HELLO: Message = {"role": "user", "content": "hello"}
REQUEST = ModelRequest(system="Be brief.", messages=[HELLO])
TRAITS = ModelTraits(name="scripted", context_window=1000)
READ = ToolSchema("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def run(coroutine: Awaitable[T]) -> T:
    """Run on a loop of its own, with an end to it."""

    async def bounded() -> T:
        return await asyncio.wait_for(coroutine, 20)

    return asyncio.run(bounded())


@contextmanager
def no_collector_closes() -> Iterator[None]:
    """Within, a generator that is merely dropped is not closed: only what is closed on purpose is."""
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(finalizer=lambda _: None)
    try:
        yield
    finally:
        sys.set_asyncgen_hooks(*hooks)


async def collect(model: Model, request: ModelRequest = REQUEST) -> list[ModelPiece]:
    return [piece async for piece in model.stream(request)]


def text_of(pieces: Sequence[ModelPiece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


def calls_of(pieces: Sequence[ModelPiece]) -> dict[int, tuple[str, str, str]]:
    """Of each call its id, name and arguments, put together as the contract says."""
    calls: dict[int, tuple[str, str, str]] = {}
    for piece in pieces:
        if isinstance(piece, ToolCallPiece):
            call_id, name, arguments = calls.get(piece.index, ("", "", ""))
            assert not (call_id and piece.id), "an id came twice"
            assert not (name and piece.name), "a name came twice"
            calls[piece.index] = (call_id + piece.id, name + piece.name, arguments + piece.arguments)
    return calls


def with_server(
    script: Sequence[Entry],
    ask: Callable[[OpenAICompatible, ScriptedServer], Awaitable[T]],
    *,
    key: str = KEY,
    stall_seconds: float = 10,
) -> T:
    """Start a server that plays the script, and ask the adapter over real HTTP."""

    async def asked() -> T:
        async with ScriptedServer(script) as server:
            where = Server(server.base_url, Secret(key) if key else None, stall_seconds=stall_seconds)
            model = OpenAICompatible(where, TRAITS)
            try:
                return await ask(model, server)
            finally:
                await model.close()

    return run(asked())


def answer(script: Sequence[Entry], request: ModelRequest = REQUEST) -> list[ModelPiece]:
    """What the adapter makes of the script's first answer."""

    async def ask(model: OpenAICompatible, _: ScriptedServer) -> list[ModelPiece]:
        return await collect(model, request)

    return with_server(script, ask)
