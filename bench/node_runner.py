"""A host in a process of its own that runs conversations for `bench.nodes`.

python -m bench.node_runner URL [deaf]     takes lines on stdin, tells lines on stdout, until stdin ends

`new S` begins a conversation, `say S TEXT` accepts a message here. It tells when a message was given to it,
when the turn of a message began here and when one was interrupted, by the clock that all processes of a
machine share. `deaf`: without notifications. The model says what time it is, word by word.
"""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from holdfast.core.events import TurnInterrupted, TurnStarted
from holdfast.host import HostOptions, SessionHost
from holdfast.models.contract import Finished, Model, ModelPiece, ModelRequest, TextPiece
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import NoNotifications
from holdfast.sessions.postgres import PostgresEngine
from holdfast.testing import ScriptedModel
from holdfast.testing.faults import EngineProxy
from tests.host.host_fixtures import a_host

WORDS = 30
WORD_SECONDS = 0.02
PATIENCE, CONNECTIONS = 30.0, 10
ENDLESS, DEAF = "endless", "deaf"


class Stamped(ScriptedModel):
    """Says what time it is, until it is interrupted if the message says so."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        endless = ENDLESS in str(request.messages[-1]["content"])
        said = 0
        while endless or said < WORDS:
            said += 1
            yield TextPiece(f"{time.monotonic():.6f} ")
            await asyncio.sleep(WORD_SECONDS)
        yield Finished("stop", None)


@asynccontextmanager
async def a_node(url: str, model: Model, *, hears: bool) -> AsyncIterator[SessionHost]:
    """A host with the settings that users get, with notifications or without."""
    engine = EngineProxy(PostgresEngine(url, patience=PATIENCE, connections=CONNECTIONS))
    if not hears:
        engine.notifications = NoNotifications()
    with SessionDB.on(engine) as db:
        async with a_host(db, lambda _: model, options=HostOptions()) as host:
            yield host


def tell(what: str, of: object = "") -> None:
    print(f"{what}:{of}", f"{time.monotonic():.6f}", flush=True)


async def note_turns(host: SessionHost, session: str) -> None:
    async with aclosing(host.events(session)) as events:
        async for numbered in events:
            if isinstance(numbered.event, TurnStarted):
                tell("begun", numbered.event.inbox_id)
            elif isinstance(numbered.event, TurnInterrupted):
                tell("ended", session)


async def main(url: str, *, hears: bool) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with a_node(url, Stamped(), hears=hears) as host, asyncio.TaskGroup() as group:
        noting: list[asyncio.Task[None]] = []
        tell("ready")
        while line := await reader.readline():
            what, session, *text = line.decode().split()
            if what == "new":
                await host.new_session(session_id=session)
                noting.append(group.create_task(note_turns(host, session)))
                tell("made", session)
            else:
                tell("given", session)
                await host.send(session, " ".join(text))
        for task in noting:
            task.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], hears=DEAF not in sys.argv))
