"""An answer can be stopped anywhere, a runtime can die or hang, and the next request is served as ever."""

import asyncio
import os
import signal
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from holdfast.core.errors import ModelFailure, RequestRejected, StreamBroken
from holdfast.models.contract import Finished, ModelRequest
from holdfast.models.gguf import GgufModel
from tests.models.embedded.gguf_fixtures import (
    MOST,
    answer,
    asking,
    endless_model,
    first_pieces,
    is_running,
    text_of,
    until,
    workers,
)

pytestmark = pytest.mark.slow


@pytest.mark.clause("I6")
def test_an_interrupted_answer_stops_and_the_next_one_begins_at_once(endless: GgufModel) -> None:
    async def interrupt() -> tuple[float, float]:
        stream = endless.stream(asking("Tell me a story.", most=MOST))
        began = time.monotonic()
        await first_pieces(stream, 20)
        twenty = time.monotonic() - began
        await stream.aclose()
        began = time.monotonic()
        following = endless.stream(asking("What is the capital of France?"))
        await anext(following)
        waited = time.monotonic() - began
        await following.aclose()
        return twenty, waited

    asyncio.run(endless.warm_up())
    before = workers()
    twenty, waited = asyncio.run(interrupt())
    # The rest of the first answer would have taken about seventy times as long as its beginning.
    assert waited < 20 * twenty
    assert workers() == before, "stopping an answer must not cost the loaded file"


@pytest.mark.clause("I6")
def test_cancelling_the_reader_stops_the_answer_at_once(endless: GgufModel) -> None:
    async def cancel() -> float:
        reading = asyncio.ensure_future(answer(endless, asking("Tell me a story.", most=MOST)))
        await asyncio.wait([reading], timeout=0.3)
        assert not reading.done()
        began = time.monotonic()
        reading.cancel()
        await asyncio.wait([reading])
        return time.monotonic() - began

    assert asyncio.run(cancel()) < 1.0
    assert text_of(asyncio.run(answer(endless, asking("Hello!", most=5))))


@pytest.mark.slow
def test_a_request_is_cancelled_while_its_prompt_is_read(endless: GgufModel) -> None:
    async def timed(request: ModelRequest) -> float:
        began = time.monotonic()
        async with aclosing(endless.stream(request)) as stream:
            await anext(stream)
        return time.monotonic() - began

    async def cancel() -> float:
        reading = asyncio.ensure_future(answer(endless, asking("The dog ran over the hill. " * 150)))
        await asyncio.wait([reading], timeout=0.3)
        assert not reading.done()
        reading.cancel()
        await asyncio.wait([reading])
        return await timed(asking("Hello!"))

    whole = asyncio.run(timed(asking("A cat sat on the mat. " * 150, most=1)))
    before = workers()
    assert asyncio.run(cancel()) < whole / 2
    assert workers() == before, "it stopped by itself"


def test_requests_are_answered_in_turn_and_a_waiting_one_can_be_cancelled(endless: GgufModel) -> None:
    order: list[str] = []

    async def note(name: str, most: int) -> None:
        async for piece in endless.stream(asking("Tell me a story.", most=most)):
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


def test_a_runtime_that_dies_breaks_its_answer_and_is_started_anew(endless: GgufModel) -> None:
    async def kill() -> None:
        stream = endless.stream(asking("Tell me a story.", most=MOST))
        await first_pieces(stream, 3)
        [worker] = workers()
        os.kill(worker, signal.SIGKILL)
        async for _ in stream:
            pass

    with pytest.raises(StreamBroken, match="signal 9"):
        asyncio.run(kill())
    assert text_of(asyncio.run(answer(endless, asking("Hello!", most=5))))


def test_a_runtime_that_died_between_requests_is_not_noticed(endless: GgufModel) -> None:
    async def kill() -> None:
        await endless.warm_up()
        [worker] = workers()
        os.kill(worker, signal.SIGKILL)
        await until(lambda: not is_running(worker))
        assert text_of(await answer(endless, asking("Hello!", most=5)))
        assert worker not in workers()

    asyncio.run(kill())


@pytest.mark.slow
def test_a_runtime_that_hears_no_cancellation_is_replaced(endless: GgufModel) -> None:
    async def freeze() -> int:
        stream = endless.stream(asking("Tell me a story.", most=MOST))
        await first_pieces(stream, 3)
        [worker] = workers()
        os.kill(worker, signal.SIGSTOP)
        await stream.aclose()
        assert text_of(await answer(endless, asking("Hello!", most=5)))
        return worker

    assert asyncio.run(freeze()) not in workers()


def test_closing_ends_the_runtime_in_mid_answer_and_for_good(weights: Path) -> None:
    model = endless_model(weights)
    before = set(workers())

    async def close() -> None:
        reading = asyncio.ensure_future(answer(model, asking("Tell me a story.", most=MOST)))
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
