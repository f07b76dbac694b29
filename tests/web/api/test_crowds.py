"""A thousand readers who wait: they cost next to nothing, and whoever speaks is served as ever."""

import asyncio
import time

import pytest

from holdfast.sessions import SessionDB
from tests.agent.company import until
from tests.web.api.served import TOKEN, served

READERS = 1000
DEADLINE = 200.0
Reading = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def read(port: int, session: str) -> Reading:
    """Read a session's events, up to where it stands."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET /api/sessions/{session}/events HTTP/1.1\r\nHost: localhost\r\n"
    writer.write(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
    await reader.readuntil(b"SessionSnapshot")
    return reader, writer


async def share_of_cpu(seconds: float) -> float:
    """How much of a core this process takes meanwhile."""
    begun, cpu = time.monotonic(), time.process_time()
    await until(lambda: time.monotonic() - begun > seconds)
    return (time.process_time() - cpu) / seconds


@pytest.mark.slow
def test_a_thousand_idle_event_streams_are_cheap(db: SessionDB) -> None:
    async def scenario() -> None:
        async with served(db, ["hello"]) as server:
            alone = await share_of_cpu(3)
            sessions = [f"session-{number}" for number in range(READERS)]
            for session in sessions:
                db.create_session(session, source="test")
            reading = [await read(server.port, session) for session in sessions]
            assert server.web.streams.open == READERS
            try:
                # What was begun a moment ago is looked at for a while.
                await share_of_cpu(7)
                # A look for each reader would take more than a core.
                assert await share_of_cpu(4) - alone < 0.8
                await server.send(sessions[0], "hi")
                await reading[0][0].readuntil(b"TurnCompleted")
            finally:
                for _, writer in reading:
                    writer.close()
            await until(lambda: server.web.streams.open == 0)

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))
