"""A conversation's stream: whoever reconnects gets exactly what was missed, and nobody slows anybody."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.events import SessionSnapshot, TextDelta, TurnCompleted, TurnStarted
from holdfast.host import Numbered
from holdfast.host.event_stream import EventStream
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from tests.agent.agent_fixtures import Hold, until
from tests.host.host_fixtures import a_host, until_turns_end

Wait = Callable[[Awaitable[Any]], Any]
FIRST = 1_000


def delta(number: int) -> TextDelta:
    return TextDelta(session_id="s", turn_id="t", text=f"{number} ")


async def what_is_there(stream: EventStream, after: int | None) -> list[Numbered]:
    """What a reader gets without waiting."""
    found: list[Numbered] = []
    reading: AsyncGenerator[Numbered, None] = stream.read(after)
    while True:
        if (found and found[-1].number == stream.number) or (not found and stream.number == after):
            await reading.aclose()
            return found
        found.append(await anext(reading))


@given(size=st.integers(1, 6), published=st.integers(0, 20), after=st.integers(-3, 25) | st.none())
def test_a_reader_gets_exactly_what_it_missed_or_a_snapshot(
    size: int, published: int, after: int | None
) -> None:
    async def scenario() -> None:
        stream = EventStream("s", size, first=FIRST)
        for number in range(published):
            stream.publish(delta(number))
        last = FIRST + published
        place = None if after is None else 0 if after == -1 else FIRST + after
        if place == 0 and not published:
            return  # nothing is there yet
        found = await what_is_there(stream, place)
        known = FIRST if place == 0 else place
        if known is not None and max(FIRST, last - size) <= known <= last:
            assert [each.number for each in found] == list(range(known + 1, last + 1))
            assert all(each.event == delta(each.number - FIRST - 1) for each in found)
        else:
            (only,) = found
            assert only.number == last
            assert isinstance(only.event, SessionSnapshot)
            assert only.event.text == "".join(delta(number).text for number in range(published))

    asyncio.run(scenario())


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("publish"), st.integers(1, 5)),
            st.tuples(st.just("read"), st.integers(0, 2)),
            st.tuples(st.just("reconnect"), st.integers(0, 2)),
        ),
        max_size=30,
    )
)
def test_any_sequence_of_publishing_and_reading_gives_each_reader_the_whole_story(
    steps: list[tuple[str, int]],
) -> None:
    async def scenario() -> None:
        stream = EventStream("s", 7, first=FIRST)
        stream.publish(TurnStarted(session_id="s", turn_id="t", inbox_id=1, text="go"))
        readers = [Reader(stream) for _ in range(3)]
        count = 0
        for step, amount in steps:
            if step == "publish":
                for _ in range(amount):
                    stream.publish(delta(count))
                    count += 1
            elif step == "read":
                await readers[amount].read_one()
            else:
                await readers[amount].reconnect()
        story = "".join(delta(number).text for number in range(count))
        for reader in readers:
            await reader.catch_up(stream.number)
            assert reader.text == story
            await reader.close()
        assert stream.readers == 0
        assert len(stream._kept) <= 7  # noqa: SLF001 - the bound is the point

    asyncio.run(scenario())


class Reader:
    """A surface: it folds what it reads, and reconnects with the last number it saw."""

    def __init__(self, stream: EventStream) -> None:
        self.text = ""
        self.number: int | None = None
        self._stream = stream
        self._reading = stream.read(None)

    async def read_one(self) -> None:
        if self.number == self._stream.number:
            return
        numbered = await anext(self._reading)
        assert self.number is None or numbered.number > self.number
        self.number = numbered.number
        if isinstance(numbered.event, SessionSnapshot):
            self.text = numbered.event.text
        elif isinstance(numbered.event, TextDelta):
            self.text += numbered.event.text

    async def reconnect(self) -> None:
        await self.close()
        self._reading = self._stream.read(self.number)

    async def catch_up(self, number: int) -> None:
        while self.number != number:
            await self.read_one()

    async def close(self) -> None:
        await self._reading.aclose()


def test_a_number_of_an_earlier_life_never_passes_for_one_of_this(store_url: str, wait: Wait) -> None:
    async def life(turns: int, after: int | None) -> tuple[int, list[Numbered]]:
        db = SessionDB.open(store_url)
        async with a_host(db, lambda _: ScriptedModel()) as host:
            for _ in range(turns):
                await host.send("s", "again")
            await until_turns_end(host, "s", turns)
            reading = host.events("s", after=after)
            first = await anext(reading)
            await reading.aclose()
            return host._conversations.opened["s"].stream.number, [first]  # noqa: SLF001

    async def scenario() -> None:
        number, _ = await life(1, None)
        # The new life has numbered more events than the old one when the reader comes back.
        _, (first,) = await life(5, number)
        assert isinstance(first.event, SessionSnapshot)
        assert first.number > number

    wait(scenario())


def test_a_reader_that_never_reads_slows_nothing(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, ["word " * 5_000, "after"]) as host:
            await host.new_session(session_id="s")
            asleep = host.events("s")
            await anext(asleep)
            await host.send("s", "talk")
            await host.send("s", "more")
            reading = host.events("s")
            async for numbered in reading:
                if isinstance(numbered.event, TurnCompleted) and numbered.event.final_response == "after":
                    break
            stream = host._conversations.opened["s"].stream  # noqa: SLF001
            assert len(stream._kept) == 2_000  # noqa: SLF001 - the bound is the point
            late = await anext(asleep)
            assert isinstance(late.event, SessionSnapshot)
            await asleep.aclose()
            await reading.aclose()

    wait(scenario())


@pytest.mark.parametrize("after", [0, None])
def test_a_reader_of_an_idle_session_hears_what_comes(db: SessionDB, wait: Wait, after: int | None) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold]) as host:
            await host.new_session(session_id="s")
            await host.overview.session_status("s")

            async def read() -> list[str]:
                kinds = []
                async for numbered in host.events("s", after=after):
                    kinds.append(type(numbered.event).__name__)
                    if isinstance(numbered.event, TurnCompleted):
                        break
                return kinds

            reading = asyncio.create_task(read())
            stream = host._conversations.opened["s"].stream  # noqa: SLF001
            await until(lambda: stream.readers == 1)
            await host.send("s", "hi")
            hold.opened.set()
            assert (await reading)[-1] == "TurnCompleted"

    wait(scenario())
