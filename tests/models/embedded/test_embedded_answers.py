"""The embedded model answers, can be stopped anywhere, and serves one request at a time."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from holdfast.core.errors import ContextTooLong, ModelFailure, RequestRejected, StreamBroken
from holdfast.models.contract import Finished, ModelRequest, TextPiece
from holdfast.models.embedded import open_embedded
from holdfast.models.gguf import GgufModel
from tests.models.embedded.conversing import (
    ENDLESS,
    answer,
    asking,
    closed,
    end_of,
    first_pieces,
    text_of,
    until,
    workers,
)


def test_it_answers_a_plain_question_in_a_stream_with_its_usage(model: GgufModel) -> None:
    pieces = asyncio.run(answer(model, asking("What is the capital of France?")))
    assert "Paris" in text_of(pieces)
    assert sum(isinstance(piece, TextPiece) for piece in pieces) > 1
    usage = end_of(pieces).usage
    assert usage is not None
    assert usage.input > 5
    assert 1 < usage.output <= 40


def test_the_traits_say_what_it_is(model: GgufModel) -> None:
    traits = model.traits
    assert not traits.calls_tools
    assert not traits.summarises
    assert "stand-in" in traits.notice
    assert "OPENAI_API_KEY" in traits.notice
    assert traits.context_window == 4096


def test_an_answer_that_reaches_its_limit_says_so(model: GgufModel) -> None:
    end = end_of(asyncio.run(answer(model, asking(ENDLESS, most=5))))
    assert end.stop_reason == "length"
    assert end.usage is not None
    assert end.usage.output == 5


def test_the_next_step_of_a_conversation_reuses_what_was_read(model: GgufModel) -> None:
    first = "My name is Ada and I live in a small house by the sea with a dog and two cats."
    asyncio.run(answer(model, asking(first, most=5)))
    request = ModelRequest(
        "",
        [
            {"role": "user", "content": first},
            {"role": "assistant", "content": "Hello Ada!"},
            {"role": "user", "content": "Hello again."},
        ],
        max_output_tokens=5,
    )
    usage = end_of(asyncio.run(answer(model, request))).usage
    assert usage is not None
    assert usage.cached > 20


def test_long_instructions_are_not_laid_upon_it(model: GgufModel) -> None:
    request = ModelRequest("Follow these rules. " * 200, asking("Hi").messages, max_output_tokens=2)
    usage = end_of(asyncio.run(answer(model, request))).usage
    assert usage is not None
    assert usage.input < 100


def test_short_instructions_are_followed(model: GgufModel) -> None:
    told = ModelRequest("You speak of nothing but cats.", asking("Hi").messages, max_output_tokens=2)
    untold = ModelRequest("", told.messages, max_output_tokens=2)
    lengths = {end_of(asyncio.run(answer(model, each))).usage.input for each in (told, untold)}  # type: ignore[union-attr]
    assert len(lengths) == 2


def test_a_conversation_beyond_the_window_is_too_long(model: GgufModel) -> None:
    with pytest.raises(ContextTooLong, match=r"\d+ tokens, and its window holds 4096"):
        asyncio.run(answer(model, asking("word " * 6000)))
    assert text_of(asyncio.run(answer(model, asking("Hello!"))))


def test_half_characters_and_empty_messages_do_no_harm(model: GgufModel) -> None:
    for text in ("Say hi \ud83d to 漢字 😀", ""):
        assert text_of(asyncio.run(answer(model, asking(text, most=5))))


def test_the_loop_goes_on_while_the_file_is_loaded(weights: Path) -> None:
    async def count_while_loading() -> int:
        model = open_embedded(Path("/nowhere"), weights=weights)
        loading = asyncio.ensure_future(model.warm_up())
        rounds = 0
        while not loading.done():
            await asyncio.wait([loading], timeout=0.01)
            rounds += 1
        await loading
        await model.close()
        return rounds

    assert asyncio.run(count_while_loading()) > 10


@pytest.mark.clause("I6")
def test_an_interrupted_answer_stops_and_the_next_one_begins_at_once(model: GgufModel) -> None:
    async def interrupt() -> tuple[float, float]:
        await model.warm_up()
        stream = model.stream(asking(ENDLESS, most=1500))
        began = time.monotonic()
        await first_pieces(stream, 20)
        twenty = time.monotonic() - began
        await stream.aclose()
        began = time.monotonic()
        following = model.stream(asking("What is the capital of France?"))
        await anext(following)
        waited = time.monotonic() - began
        await following.aclose()
        return twenty, waited

    [worker] = workers() or [0]
    twenty, waited = asyncio.run(interrupt())
    # The rest of the first answer would have taken about seventy times as long as its beginning.
    assert waited < 20 * twenty
    assert worker in (0, *workers()), "stopping an answer must not cost the loaded file"


@pytest.mark.clause("I6")
def test_cancelling_the_reader_stops_the_answer_at_once(model: GgufModel) -> None:
    async def cancel() -> float:
        reading = asyncio.ensure_future(answer(model, asking(ENDLESS, most=1500)))
        await asyncio.wait([reading], timeout=0.3)
        began = time.monotonic()
        reading.cancel()
        await asyncio.wait([reading])
        return time.monotonic() - began

    assert asyncio.run(cancel()) < 0.5
    assert text_of(asyncio.run(answer(model, asking("Hello!"))))


@pytest.mark.slow
def test_a_request_is_cancelled_while_its_prompt_is_read(model: GgufModel) -> None:
    async def timed(request: ModelRequest) -> float:
        began = time.monotonic()
        await anext(model.stream(request))
        return time.monotonic() - began

    async def cancel() -> float:
        reading = asyncio.ensure_future(answer(model, asking("The dog ran over the hill. " * 150)))
        await asyncio.wait([reading], timeout=0.3)
        assert not reading.done()
        reading.cancel()
        await asyncio.wait([reading])
        return await timed(asking("Hello!"))

    whole = asyncio.run(timed(asking("A cat sat on the mat. " * 150, most=1)))
    assert asyncio.run(cancel()) < whole / 2


def test_requests_are_answered_in_turn_and_a_waiting_one_can_be_cancelled(model: GgufModel) -> None:
    order: list[str] = []

    async def note(name: str, most: int) -> None:
        async for piece in model.stream(asking(ENDLESS, most=most)):
            does = "ends" if isinstance(piece, Finished) else "speaks"
            order.append(f"{name} {does}")

    async def crowd() -> None:
        first = asyncio.ensure_future(note("first", 30))
        await until(lambda: bool(order))
        second, third = (asyncio.ensure_future(note(name, 5)) for name in ("second", "third"))
        await asyncio.wait([second], timeout=0.02)
        second.cancel()
        await asyncio.wait([first, second, third])

    asyncio.run(crowd())
    assert {entry.split()[0] for entry in order} == {"first", "third"}
    assert order.index("first ends") < order.index("third speaks")


def test_a_runtime_that_dies_breaks_its_answer_and_is_started_anew(model: GgufModel) -> None:
    async def kill() -> None:
        stream = model.stream(asking(ENDLESS, most=1500))
        await first_pieces(stream, 3)
        [worker] = workers()
        os.kill(worker, signal.SIGKILL)
        async for _ in stream:
            pass

    with pytest.raises(StreamBroken, match="signal 9"):
        asyncio.run(kill())
    assert text_of(asyncio.run(answer(model, asking("Hello!"))))


@pytest.mark.slow
def test_a_runtime_that_hears_no_cancellation_is_replaced(model: GgufModel) -> None:
    async def freeze() -> int:
        stream = model.stream(asking(ENDLESS, most=1500))
        await first_pieces(stream, 3)
        [worker] = workers()
        os.kill(worker, signal.SIGSTOP)
        await stream.aclose()
        assert text_of(await answer(model, asking("Hello!")))
        return worker

    assert asyncio.run(freeze()) not in workers()


def test_closing_ends_the_runtime_in_mid_answer_and_for_good(weights: Path) -> None:
    model = open_embedded(Path("/nowhere"), weights=weights)
    before = set(workers())

    async def close() -> None:
        reading = asyncio.ensure_future(answer(model, asking(ENDLESS, most=1500)))
        waiting = asyncio.ensure_future(answer(model, asking("Hello!")))
        await until(lambda: bool(set(workers()) - before))
        await asyncio.wait([reading], timeout=1)
        await model.close()
        for task in (reading, waiting):
            with pytest.raises(ModelFailure, match="it is closed"):
                await task
        await model.close()

    asyncio.run(close())
    assert set(workers()) == before
    with pytest.raises(RequestRejected, match="it is closed"):
        asyncio.run(answer(model, asking("Hello!")))


def test_a_model_that_was_never_used_closes_and_costs_nothing(weights: Path) -> None:
    before = workers()
    model = open_embedded(Path("/nowhere"), weights=weights)
    assert workers() == before
    closed(model)
