"""Hundreds of readers that wait: they cost next to nothing, and a person who speaks is served as ever."""

import asyncio
import resource
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import pytest

from holdfast.sessions import SessionDB
from tests.agent.agent_fixtures import until
from tests.web.api.api_server import TOKEN, served

MOST_READERS = 1000
LOOKS = 50
DEADLINE = 200.0
Reading = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Watched:
    """A store, or a part of one, that counts what is asked of it."""

    def __init__(self, inner: object, asked: "Counter[str] | None" = None) -> None:
        self._inner = inner
        self.asked: Counter[str] = Counter() if asked is None else asked

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        found = getattr(self._inner, name)
        if not callable(found):
            of_the_store = type(found).__module__.startswith("holdfast.sessions")
            return Watched(found, self.asked) if of_the_store else found

        def asking(*given: object, **named: object) -> object:
            self.asked[name] += 1
            return found(*given, **named)

        return asking


async def read(port: int, session: str) -> Reading:
    """Read a session's events, up to where it stands."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET /api/sessions/{session}/events HTTP/1.1\r\nHost: localhost\r\n"
    writer.write(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
    await reader.readuntil(b"SessionSnapshot")
    return reader, writer


async def asked_for(store: Watched, looks: int) -> int:
    """What is asked of the store, but for so many looks that are shared by all conversations."""
    before, first = store.asked.total(), store.asked["read"]
    await until(lambda: store.asked["read"] >= first + looks)
    return store.asked.total() - before - looks


@pytest.fixture
def readers() -> Iterator[int]:
    """How many there may be: both ends of their connections are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # A server leaves a quarter of the files free, and a test run has some open itself.
    yield min(MOST_READERS, hard // 4)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_idle_event_streams_share_their_looks_at_the_store(db: SessionDB, readers: int) -> None:
    async def scenario() -> None:
        store = Watched(db)
        async with served(cast(SessionDB, store), ["hello"]) as server:
            sessions = [f"session-{number}" for number in range(readers)]
            for session in sessions:
                db.create_session(session, source="test")
            reading: list[Reading] = []
            try:
                for session in sessions:
                    reading.append(await read(server.port, session))  # noqa: PERF401 - closed below when one fails
                assert server.web.streams.open == readers
                for _ in range(3):
                    # A look of its own for each reader, even once a second, would be several times as much.
                    assert await asked_for(store, LOOKS) < 5 * readers
                await server.send(sessions[0], "hi")
                await reading[0][0].readuntil(b"TurnCompleted")
            finally:
                for _, writer in reading:
                    writer.close()
            await until(lambda: server.web.streams.open == 0)

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))
