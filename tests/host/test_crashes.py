"""A host whose process dies at any operation of the store: what was accepted is answered after the restart.

The operations are those that a conversation really asks for, on the way that production takes to the store.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import HoldfastError
from holdfast.host import SessionHost
from holdfast.host.contract import Beginning
from holdfast.models.contract import ModelRequest
from holdfast.sessions import SessionDB
from holdfast.sessions.operations import OPERATIONS
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing import Call, CrashingEngine, ProcessDied, ScriptedModel
from holdfast.testing.faults import Moment
from holdfast.tools.contract import ToolContext
from tests.agent.agent_fixtures import a_tool, until
from tests.host.host_fixtures import QUICK, a_host

Wait = Callable[[Awaitable[Any]], Any]

SAID = ["first", "and this", "second"]
OPTIONS = replace(QUICK, after_crash="resume", shutdown_seconds=0.5)

WAY = (
    "begin_conversation",
    "claim_conversation",
    "take_next",
    "append_to_turn",
    "send_message",
    "join_turn",
    "complete_unless_steered",
    "release_if_idle",
)
"""The operations that the messages below are sure to need."""


class Process:
    """A program that holds one conversation, until it dies."""

    def __init__(self, path: Path) -> None:
        self.engine = CrashingEngine(SqliteEngine(str(path), clock=SystemClock(), patience=5.0))
        self.db = SessionDB.on(self.engine, lease_seconds=0.5)
        self.host: SessionHost

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Process"]:
        async def steer(context: ToolContext, arguments: dict[str, Any]) -> str:
            await self.say(lambda: self.host.send("s", SAID[1], "steer", key="2"))
            return "steered"

        def reply(request: ModelRequest) -> Any:  # noqa: ANN401
            last = request.messages[-1]
            return [Call("steer")] if last["content"] == SAID[0] else "done"

        self.host = a_host(
            self.db,
            lambda _: ScriptedModel([reply] * 20),
            tools=[a_tool("steer", steer)],
            options=OPTIONS,
        )
        async with self.host:
            yield self

    async def talk(self) -> None:
        """Say all of it, each once: what was not acknowledged is said again with its key."""
        await self.say(lambda: self.host.begin("s", SAID[0], Beginning(key="1")))
        await self.answered("2", lambda: self.host.send("s", SAID[1], key="2"))
        await self.answered("3", lambda: self.host.send("s", SAID[2], key="3"))

    async def say(self, send: Callable[[], Awaitable[object]]) -> None:
        try:
            await send()
        except (ProcessDied, HoldfastError):
            if not self.engine.dead:
                raise

    async def answered(self, key: str, send: Callable[[], Awaitable[object]]) -> None:
        """Wait for the answer to what was said, or the death of the process; say what was not said yet."""
        await until(lambda: self.engine.dead or self.is_idle())
        if not self.engine.dead and self.db.inbox.by_key(key) is None:
            await self.say(send)
            await until(lambda: self.engine.dead or self.is_idle())

    def is_idle(self) -> bool:
        try:
            return not (self.db.turns.unfinished() or self.db.inbox.sessions() or self.db.session_holder("s"))
        except HoldfastError:
            return False


@pytest.mark.clause("I1")
@pytest.mark.clause("D10")
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("name", WAY)
def test_a_crash_at_any_operation_of_a_conversation_loses_no_message(
    tmp_path: Path, wait: Wait, name: str, moment: Moment
) -> None:
    path = tmp_path / "holdfast.db"

    async def scenario() -> None:
        async with Process(path).running() as first:
            # A conversation that begins is claimed with its message: only the next message claims it again.
            first.engine.arm(moment, at=name, for_good=True)
            await first.talk()
            assert first.engine.dead
        first.engine.close()
        assert first.engine.cut_off == {(name, moment)}
        async with Process(path).running() as second:
            await second.talk()
            said = [message["content"] for message in second.db.get_messages("s")]
            assert [text for text in said if text in SAID] == SAID
            assert said[-1] == "done"
            assert second.db.check() == []
            assert second.engine.written.keys() <= set(OPERATIONS)

    wait(scenario())


def test_a_conversation_asks_for_named_operations_only(tmp_path: Path, wait: Wait) -> None:
    async def scenario() -> None:
        async with Process(tmp_path / "holdfast.db").running() as process:
            await process.talk()
            assert set(WAY) <= process.engine.written.keys() <= set(OPERATIONS)

    wait(scenario())
