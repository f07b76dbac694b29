"""Many answers at once are read rarely; yet no first word and no end waits, and each is stopped at once."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TypeVar

import pytest

from holdfast.models.contract import Finished, ModelPiece, TextPiece
from holdfast.models.openai_compatible import OpenAICompatible
from holdfast.models.read_interval import ReadInterval
from holdfast.models.server import Server
from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer
from tests.models.model_fixtures import REQUEST, TRAITS, run, text_of

T = TypeVar("T")
APART, LONG = 0.01, 3600.0
either_way = pytest.mark.parametrize("way", [{}, {"content-encoding": "identity"}], ids=["straight", "httpx"])


def event(content: str = "", reason: str | None = None, **more: str) -> bytes:
    choice = {"index": 0, "delta": {"content": content, **more}, "finish_reason": reason}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def served(
    pieces: list[bytes],
    read_interval: ReadInterval,
    ask: Callable[[OpenAICompatible, LoopbackServer], Awaitable[T]],
    way: Mapping[str, str] | None = None,
) -> T:
    """Ask a server that sends these pieces, each by itself, and then waits to be left."""

    async def handle(request: HttpRequest, reply: HttpAnswer) -> None:
        await reply.start({"content-type": "text/event-stream", **(way or {})})
        for each in pieces:
            await reply.send(each)
            await asyncio.wait({asyncio.ensure_future(request.abandoned.wait())}, timeout=APART)
        await reply.end()
        await request.abandoned.wait()

    async def scenario() -> T:
        async with LoopbackServer(handle) as server:
            model = OpenAICompatible(Server(f"{server.url}/v1"), TRAITS, read_interval=read_interval)
            try:
                return await ask(model, server)
            finally:
                await model.close()

    return run(scenario())


async def collected(model: OpenAICompatible, _: LoopbackServer) -> list[ModelPiece]:
    return [piece async for piece in model.stream(REQUEST)]


@pytest.mark.parametrize(
    ("streaming", "pause"), [(1, 0.0), (8, 0.0), (9, 0.04), (200, 0.15), (500, 0.25), (9000, 0.25)]
)
def test_the_more_answers_stream_the_longer_they_gather(streaming: int, pause: float) -> None:
    assert ReadInterval().pause(streaming) == pytest.approx(pause)


@either_way
def test_words_that_gather_come_as_one_piece(way: Mapping[str, str]) -> None:
    words = [event("one "), event("two "), event("three "), event("four"), event(reason="stop")]
    assert served(words, ReadInterval(unpaced=0, per_stream=0.3, longest=0.3), collected, way) == [
        TextPiece("one "),
        TextPiece("two three four"),
        Finished("stop"),
    ]


def test_a_few_answers_are_read_as_they_come() -> None:
    words = [event("one "), event("two"), event(reason="stop")]
    assert served(words, ReadInterval(unpaced=1, per_stream=LONG, longest=LONG), collected) == [
        TextPiece("one "),
        TextPiece("two"),
        Finished("stop"),
    ]


def test_neither_the_first_words_nor_the_end_wait() -> None:
    begun_and_ended = [event(role="assistant"), event("all", "stop"), b"data: [DONE]\n\n"]
    pieces = served(begun_and_ended, ReadInterval(unpaced=0, per_stream=LONG, longest=LONG), collected)
    assert text_of(pieces) == "all"
    assert pieces[-1] == Finished("stop")


@either_way
@pytest.mark.clause("I6")
def test_an_answer_that_gathers_is_stopped_at_once(way: Mapping[str, str]) -> None:
    async def ask(model: OpenAICompatible, server: LoopbackServer) -> None:
        async def rest(pieces: AsyncGenerator[ModelPiece, None]) -> list[ModelPiece]:
            return [piece async for piece in pieces]

        pieces = model.stream(REQUEST)
        assert await anext(pieces) == TextPiece("one")
        reading = asyncio.ensure_future(rest(pieces))
        await asyncio.wait({reading}, timeout=APART)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.wait_for(server.requests[0].abandoned.wait(), 1)

    served([event("one")], ReadInterval(unpaced=0, per_stream=LONG, longest=LONG), ask, way)
