"""On PostgreSQL without notifications hosts find out by looking: slower, with nothing lost."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from holdfast.core.events import TurnCompleted, TurnInterrupted
from holdfast.host import HostOptions
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import NoNotifications
from holdfast.sessions.postgres import PostgresEngine
from holdfast.testing.faults import EngineProxy
from tests.agent.agent_fixtures import until
from tests.host.host_fixtures import a_host
from tests.host.readers import Dictated, Follower
from tests.sessions.databases import PostgresPlace

Wait = Callable[[Awaitable[Any]], Any]
OPTIONS = HostOptions(shutdown_seconds=3.0)


@pytest.fixture
def url(postgres: str) -> Iterator[str]:
    place = PostgresPlace(postgres)
    yield place.url
    place.drop()


def deaf(url: str) -> SessionDB:
    """A store that neither tells nor hears anything, as behind a listener that is cut off."""
    engine = EngineProxy(PostgresEngine(url, patience=30))
    engine.notifications = NoNotifications()
    return SessionDB.on(engine)


@pytest.mark.clause("N1")
def test_a_message_and_an_interrupt_to_another_host_are_served_without_notifications(
    url: str, wait: Wait
) -> None:
    async def scenario() -> None:
        model = Dictated()
        with closing(deaf(url)) as here, closing(deaf(url)) as there:
            async with (
                a_host(here, lambda _: model, options=OPTIONS) as runner,
                a_host(there, lambda _: Dictated(), options=OPTIONS) as other,
            ):
                await runner.new_session(session_id="s")
                follower = Follower(other)
                await runner.send("s", "first")
                await model.words.put("one ")
                await until(lambda: follower.text == "one ")
                # The lease is the runner's: the other host takes the message, and the runner answers it.
                await other.send("s", "second")
                await model.words.put(None)
                await until(lambda: follower.has(TurnCompleted))
                await model.words.put("two ")
                await until(lambda: follower.text == "one two ")
                assert await other.interrupt("s")
                await until(lambda: follower.has(TurnInterrupted))
                await follower.stop()

    wait(scenario())
