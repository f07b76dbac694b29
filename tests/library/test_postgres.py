"""The library on PostgreSQL: by address, and with fewer connections than sessions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from holdfast import Agent, Host, SessionDB
from holdfast.testing import ScriptedModel
from tests.sessions.databases import PostgresPlace

Wait = Callable[[Awaitable[Any]], Any]


@pytest.fixture
def url(postgres: str) -> Iterator[str]:
    place = PostgresPlace(postgres)
    yield place.url
    place.drop()


def test_a_session_by_address_goes_on_and_many_share_few_connections_on_postgres(
    url: str, wait: Wait
) -> None:
    async def say(text: str) -> int:
        async with Agent(ScriptedModel(), store=url, session="monday") as agent:
            return len((await agent.run(text)).messages)

    async def scenario() -> None:
        assert [await say("one"), await say("two")] == [2, 4]
        with SessionDB.open(url, connections=3) as db:
            async with Host(model=ScriptedModel(), store=db) as host:
                answers = await asyncio.gather(*(host.ask(f"s{number}", "hi") for number in range(40)))
        assert all(each.final_response for each in answers)

    wait(scenario())
