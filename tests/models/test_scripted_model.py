"""The scripted model plays what it is given, in order."""

import asyncio

import pytest

from holdfast.core.errors import InvalidInput, StreamBroken
from holdfast.models.contract import Finished, ModelPiece, ModelRequest, TextPiece, ToolCallPiece, Usage
from holdfast.testing import Call, Delay, ScriptedModel, Tokens

REQUEST = ModelRequest(system="", messages=[{"role": "user", "content": "hi"}])


async def answer(model: ScriptedModel) -> list[ModelPiece]:
    return [piece async for piece in model.stream(REQUEST)]


def play(model: ScriptedModel) -> list[ModelPiece]:
    return asyncio.run(answer(model))


def test_answers_come_in_order_and_then_a_fixed_line() -> None:
    model = ScriptedModel(["one two", "three"])
    assert play(model) == [TextPiece("one "), TextPiece("two"), Finished("stop")]
    assert play(model) == [TextPiece("three"), Finished("stop")]
    over = play(model)
    assert over == play(ScriptedModel())
    assert over[-1] == Finished("stop")


def test_a_call_comes_in_pieces_that_join_to_its_arguments() -> None:
    pieces = play(ScriptedModel([["look", Call("read", {"path": "a"}), {"tool": "list"}, Tokens(9, 2)]]))
    calls = [piece for piece in pieces if isinstance(piece, ToolCallPiece)]
    assert "".join(piece.arguments for piece in calls if piece.index == 0) == '{"path": "a"}'
    assert {piece.name for piece in calls if piece.name} == {"read", "list"}
    assert pieces[-1] == Finished("tool_calls", Usage(9, 2))


def test_a_function_of_the_request_decides_what_is_played() -> None:
    async def echo(request: ModelRequest) -> str:
        return f"{len(request.messages)} message"

    assert play(ScriptedModel([echo]))[0] == TextPiece("1 ")


def test_an_error_breaks_the_stream_where_it_stands() -> None:
    pieces: list[ModelPiece] = []

    async def read() -> None:
        stream = ScriptedModel([["half ", StreamBroken("m", "gone")]]).stream(REQUEST)
        pieces.append(await anext(stream))
        await anext(stream)

    with pytest.raises(StreamBroken):
        asyncio.run(read())
    assert pieces == [TextPiece("half ")]


def test_a_delay_is_waited_for() -> None:
    async def read() -> None:
        async with asyncio.timeout(0):
            await answer(ScriptedModel([[Delay(3600), "late"]]))

    with pytest.raises(TimeoutError):
        asyncio.run(read())


def test_what_can_not_be_played_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a script holds"):
        play(ScriptedModel([{"neither": "nor"}]))
