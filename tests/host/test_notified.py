"""On PostgreSQL a host hears at once what another does: these hosts would look only once a minute."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from holdfast.core.events import TurnCompleted, TurnInterrupted
from holdfast.host import HostOptions
from holdfast.sessions import SessionDB
from tests.agent.agent_fixtures import until
from tests.host.host_fixtures import a_host
from tests.host.readers import Dictated, Follower
from tests.sessions.databases import PostgresPlace

SELDOM = HostOptions(poll_seconds=60.0, shutdown_seconds=3.0)
Wait = Callable[[Awaitable[Any]], Any]


@pytest.fixture
def url(postgres: str) -> Iterator[str]:
    place = PostgresPlace(postgres)
    yield place.url
    place.drop()


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
