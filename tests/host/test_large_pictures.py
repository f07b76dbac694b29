"""A look into a large picture is done once, and holds up neither the event loop nor the store's writer."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, SupportsIndex

import pytest

from holdfast.agent import SessionAgent
from holdfast.core.content import LARGE_CHARACTERS
from holdfast.core.contract import Message
from holdfast.core.errors import MessageInvalid
from holdfast.host import Beginning, SessionHost
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from tests.agent.agent_fixtures import DEADLINE, Hold
from tests.core.picture_files import WHOLE, data_url, picture
from tests.host.host_fixtures import a_host, until_turns_end

Wait = Callable[[Awaitable[Any]], Any]
pytestmark = pytest.mark.clause("I8")


class Slow(str):
    """A picture's data URL; whoever looks for its data waits until the gate is opened."""

    __slots__ = ("gate", "looks", "loop", "reached")
    looks: int
    reached: asyncio.Event
    gate: threading.Event
    loop: asyncio.AbstractEventLoop

    @classmethod
    def of(cls, data: bytes, kind: str) -> "Slow":
        url = cls(data_url(data, kind))
        url.looks = 0
        url.reached, url.gate, url.loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()
        return url

    def __deepcopy__(self, _: object) -> "Slow":
        return self

    def index(self, *args: SupportsIndex | str) -> int:  # type: ignore[override]
        self.looks += 1
        self.loop.call_soon_threadsafe(self.reached.set)
        assert self.gate.wait(DEADLINE / 2), "nobody else could go on meanwhile"
        return super().index(*args)  # type: ignore[arg-type]


def a_large_picture() -> tuple[Slow, Message]:
    whole = WHOLE["image/jpeg"]
    url = Slow.of(whole[:2] + b"\xff" * LARGE_CHARACTERS + whole[2:], "image/jpeg")
    return url, {"role": "user", "content": [picture(url)]}


async def sent(host: SessionHost, message: Message) -> None:
    await host.send("s", message)


async def interrupting(host: SessionHost, message: Message) -> None:
    await host.send("s", message, "interrupt")


async def begun(host: SessionHost, message: Message) -> None:
    await host.begin("fresh", message)


async def begun_with_it(host: SessionHost, message: Message) -> None:
    await host.begin("fresh", "hi", Beginning([message]))


async def replaced(host: SessionHost, message: Message) -> None:
    waiting = await host.records.waiting("held")
    await host.replace_waiting(waiting[0].id, message)


@pytest.mark.parametrize("door", [sent, interrupting, begun, begun_with_it, replaced])
def test_while_a_large_picture_is_looked_into_others_are_served(
    db: SessionDB, wait: Wait, door: Callable[[SessionHost, Message], Awaitable[None]]
) -> None:
    hold = Hold()

    def model(session_id: str) -> ScriptedModel:
        return ScriptedModel([hold] if session_id == "held" else ["fine"] * 3)

    async def scenario() -> None:
        async with a_host(db, model) as host:
            await host.send("held", "first")
            await hold.reached.wait()
            await host.send("held", "second")
            url, message = a_large_picture()
            calling = asyncio.ensure_future(door(host, message))
            await url.reached.wait()
            await host.send("other", "hello")
            await until_turns_end(host, "other")
            url.gate.set()
            await calling
            assert url.looks == 1
            hold.opened.set()

    wait(scenario())


def test_an_agent_looks_into_a_large_picture_off_its_loop_and_once(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        agent = SessionAgent(ScriptedModel(["fine"] * 3), db, "s")
        url, message = a_large_picture()
        db.create_session("s", source="test")
        db.inbox.put("s", {"role": "user", "content": "waits since before"})
        running = asyncio.ensure_future(agent.run(message))
        await url.reached.wait()
        url.gate.set()
        assert (await running).final_response == "fine"
        assert url.looks == 1
        await agent.close()

    wait(scenario())


def test_a_large_message_that_is_refused_is_refused_by_every_door(db: SessionDB, wait: Wait) -> None:
    bad: Message = {
        "role": "user",
        "content": [picture(data_url(b"\xff\xd8" + b"\xff" * LARGE_CHARACTERS, "image/jpeg"))],
    }

    async def scenario() -> None:
        async with a_host(db) as host:
            for door in (sent, begun, begun_with_it):
                with pytest.raises(MessageInvalid, match="not a whole JPEG"):
                    await door(host, bad)
            assert db.get_session("s") is None
            assert db.get_session("fresh") is None
            agent = SessionAgent(ScriptedModel(), db, "alone")
            with pytest.raises(MessageInvalid):
                await agent.run(bad)
            await agent.close()

    wait(scenario())
