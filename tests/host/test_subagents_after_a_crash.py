"""A subagent whose process died is not offered to the person; its record is closed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.core.events import Event, TurnUnfinished
from holdfast.sessions import SessionDB
from tests.agent.agent_fixtures import until
from tests.host.host_fixtures import a_host, until_recovered

Wait = Callable[[Awaitable[Any]], Any]


def test_a_cut_off_subagent_is_closed_and_its_parent_offered(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        db.create_session("s", source="test")
        parent = db.turns.open("s", {"role": "user", "content": "delegate this"})
        db.create_session("child", source="delegate", parent="s", relation="delegate")
        child = db.turns.open("child", {"role": "user", "content": "count"})
        async with a_host(db) as host:
            await until(lambda: db.turns.running("child") is None)
            ended = db.turns.get(child.id)
            assert ended is not None
            assert ended.state == "interrupted"
            offered = await host.commands.unfinished("s")
            assert offered is not None
            assert offered.turn_id == parent.id
            stream = host.events("s", after=0)
            event = (await asyncio.wait_for(anext(stream), 10)).event
            assert isinstance(event, TurnUnfinished)
            await stream.aclose()

    wait(scenario())


def test_a_subagent_of_a_living_process_is_left_alone(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        db.create_session("s", source="test")
        assert db.hold_session("s", "a living process") is not None
        db.create_session("child", source="delegate", parent="s", relation="delegate")
        db.turns.open("child", {"role": "user", "content": "count"})
        async with a_host(db) as host:
            shown: list[Event] = []
            host.watch(shown.append)
            status = await until_recovered(host)
            assert db.turns.running("child") is not None
            assert not [event for event in shown if isinstance(event, TurnUnfinished)]
            assert status.unfinished == []
            assert await host.commands.unfinished("child") is None
            assert db.turns.unfinished() == []

    wait(scenario())
