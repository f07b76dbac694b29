"""On PostgreSQL a host hears at once what another does: these hosts would look only once a minute."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from holdfast.core.events import Event, TextDelta, TurnCompleted, TurnInterrupted
from holdfast.host import HostOptions, SessionHost
from holdfast.models.contract import Finished, ModelPiece, ModelRequest, TextPiece
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from tests.agent.agent_fixtures import until
from tests.host.host_fixtures import a_host
from tests.sessions.databases import PostgresPlace

SELDOM = HostOptions(poll_seconds=60.0, shutdown_seconds=3.0)
Wait = Callable[[Awaitable[Any]], Any]


class Dictated(ScriptedModel):
    """Says word for word what the test tells it; None ends the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.words: asyncio.Queue[str | None] = asyncio.Queue()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        del request
        while (word := await self.words.get()) is not None:
            yield TextPiece(word)
        yield Finished("stop", None)


@pytest.fixture
def url(postgres: str) -> Iterator[str]:
    place = PostgresPlace(postgres)
    yield place.url
    place.drop()


class Follower:
    """Reads a session's events at a host."""

    def __init__(self, host: SessionHost) -> None:
        self.events: list[Event] = []
        self._task = asyncio.create_task(self._read(host))

    async def _read(self, host: SessionHost) -> None:
        async with aclosing(host.events("s")) as stream:
            async for numbered in stream:
                self.events.append(numbered.event)

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    def has(self, kind: type[Event]) -> bool:
        return any(isinstance(event, kind) for event in self.events)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


@pytest.mark.clause("N1")
def test_text_streams_to_a_reader_at_another_host_and_an_interrupt_comes_back(url: str, wait: Wait) -> None:
    async def scenario() -> None:
        model = Dictated()
        with SessionDB.open(url) as here, SessionDB.open(url) as there:
            async with (
                a_host(here, lambda _: model, options=SELDOM) as runner,
                a_host(there, options=SELDOM) as reader,
            ):
                await runner.new_session(session_id="s")
                follower = Follower(reader)
                await runner.send("s", "go")
                expected = ""
                for word in ("one ", "two ", "three ", "four "):
                    await model.words.put(word)
                    expected += word
                    await until(lambda now=expected: follower.text == now)  # type: ignore[misc]
                await model.words.put(None)
                await until(lambda: follower.has(TurnCompleted))
                assert follower.text == expected  # each word once, also those that the store has now

                await runner.send("s", "again")
                await model.words.put("five ")
                await until(lambda: follower.text.endswith("five "))
                assert await reader.interrupt("s")
                await until(lambda: follower.has(TurnInterrupted))
                await follower.stop()
        assert expected

    wait(scenario())
