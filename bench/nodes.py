"""Two hosts on one PostgreSQL: how soon one knows what the other does, by notifications and by looking.

python -m bench.nodes [ROUNDS]     starts a PostgreSQL of its own

Both hosts have a store, connections and agents of their own, and the settings that users get. The control
is the same without notifications: a host then looks at the store four times a second.
"""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from statistics import median

from bench.table import Row, render
from holdfast.core.events import TextDelta, TurnCompleted, TurnInterrupted, TurnStarted
from holdfast.host import HostOptions, SessionHost
from holdfast.models.contract import Finished, ModelPiece, ModelRequest, TextPiece
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import NoNotifications
from holdfast.sessions.postgres import PostgresEngine
from holdfast.testing import ScriptedModel
from holdfast.testing.faults import EngineProxy
from tests.host.host_fixtures import a_host
from tests.postgres_server import server_url
from tests.sessions.databases import PostgresPlace

ROUNDS = 30
WORDS = 8
WORD_SECONDS = 0.02
PATIENCE, CONNECTIONS = 30.0, 10


class Stamped(ScriptedModel):
    """Says what time it is, word by word."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        endless = "endless" in str(request.messages[-1]["content"])
        said = 0
        while endless or said < WORDS:
            said += 1
            yield TextPiece(f"{time.monotonic():.6f} ")
            await asyncio.sleep(WORD_SECONDS)
        yield Finished("stop", None)


@asynccontextmanager
async def a_node(url: str, *, hears: bool) -> AsyncIterator[SessionHost]:
    engine = EngineProxy(PostgresEngine(url, patience=PATIENCE, connections=CONNECTIONS))
    if not hears:
        engine.notifications = NoNotifications()
    model = Stamped()
    with SessionDB.on(engine) as db:
        async with a_host(db, lambda _: model, options=HostOptions()) as host:
            yield host


async def one_round(runner: SessionHost, other: SessionHost, number: int) -> dict[str, list[float]]:
    """One answer read at the other host, and one that is interrupted there."""
    session = f"s{number}"
    await runner.new_session(session_id=session)
    taken: dict[str, list[float]] = {"begin": [], "token": [], "interrupt": []}
    async with aclosing(other.events(session)) as events:
        sent = time.monotonic()
        await runner.send(session, "say it")
        text, begun_at = "", 0.0
        async for numbered in events:
            event, now = numbered.event, time.monotonic()
            if isinstance(event, TurnStarted) and not taken["begin"]:
                taken["begin"].append(now - sent)
                begun_at = now
            elif isinstance(event, TextDelta):
                text += event.text
                *whole, text = text.split(" ")
                # A reader that comes late is given what was said before at once.
                taken["token"] += [now - float(word) for word in whole if float(word) > begun_at]
            elif isinstance(event, TurnCompleted):
                break
        await runner.send(session, "endless")
        asked = 0.0
        async for numbered in events:
            event = numbered.event
            if isinstance(event, TextDelta) and not asked:
                asked = time.monotonic()
                await other.interrupt(session)
            elif isinstance(event, TurnInterrupted):
                taken["interrupt"].append(time.monotonic() - asked)
                break
    return taken


async def measure(url: str, rounds: int, *, hears: bool) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    async with a_node(url, hears=hears) as runner, a_node(url, hears=hears) as other:
        for number in range(rounds):
            for name, values in (await one_round(runner, other, number)).items():
                found.setdefault(name, []).extend(values)
    return found


WHAT: dict[str, tuple[str, float]] = {
    "begin": ("a message accepted at one host to its turn shown at another", 0.0),
    "token": ("a token from the model to a reader at another host", 0.1),
    "interrupt": ("an interrupt at another host to the turn's end shown there", 0.0),
}
"""What is measured, and its goal in seconds, if it has one."""


def node_rows(rounds: int = ROUNDS) -> list[Row]:
    """The rows of both, each on a fresh store of one server."""
    found = {}
    with server_url() as url:
        for hears in (False, True):
            place = PostgresPlace(url)
            found[hears] = asyncio.run(measure(place.url, rounds, hears=hears))
            place.drop()
    rows = []
    for name, (what, goal) in WHAT.items():
        slow, fast = median(found[False][name]), sorted(found[True][name])
        late = fast[int(len(fast) * 0.95)]
        rows.append(
            Row(
                what,
                f"{slow * 1000:.0f} ms",
                f"{median(fast) * 1000:.0f} ms",
                f"{median(fast) / slow:.2f}",
                f"95 % within {late * 1000:.0f} ms",
                f"under {goal * 1000:.0f} ms" if goal else "",
                median(fast) < goal if goal else None,
            )
        )
    return rows


if __name__ == "__main__":
    print(render(node_rows(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)))
