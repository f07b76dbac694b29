"""M10: a memory that hangs takes no thread that turns share, however many conversations there are."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from holdfast.agent import AgentOptions
from holdfast.core.clock import SystemClock
from holdfast.core.events import Event, Notice, TurnCompleted
from holdfast.host import SessionHost
from holdfast.memory import MemoryManager
from holdfast.memory.provider_gate import gate_provider
from holdfast.sessions import SessionDB
from holdfast.testing import Call, ScriptedModel
from holdfast.testing.providers import RecordingProvider
from tests.agent.agent_fixtures import DEADLINE, until
from tests.host.host_fixtures import a_host, until_turns_end

Wait = Callable[[Awaitable[Any]], Any]
CROWD = 40
"""More than the threads that turns share."""


class Hanging(RecordingProvider):
    """Hangs in one kind of call until it is let go."""

    def __init__(self, call: str) -> None:
        super().__init__("hanging")
        self._call = call
        self.reached = threading.Event()
        self.let_go = threading.Event()

    def _maybe_hang(self, call: str) -> None:
        if call == self._call:
            self.reached.set()
            assert self.let_go.wait(DEADLINE)

    def system_prompt_block(self) -> str:
        self._maybe_hang("system_prompt_block")
        return "the block"

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        self._maybe_hang("get_tool_schemas")
        return [{"name": "remember", "description": "", "parameters": {"type": "object"}}]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:  # noqa: ANN401
        self._maybe_hang("handle_tool_call")
        return "remembered"

    def on_pre_compress(self, messages: list[Any]) -> str:
        self._maybe_hang("on_pre_compress")
        return ""

    def note(self, call: str, what: object) -> None:
        self._maybe_hang(call)
        super().note(call, what)


@pytest.fixture
def hanging() -> Iterator[Callable[[str], Hanging]]:
    made: list[Hanging] = []

    def make(call: str) -> Hanging:
        made.append(Hanging(call))
        return made[-1]

    yield make
    for each in made:
        each.let_go.set()


def host_with(db: SessionDB, provider: Hanging, script: list[Any]) -> SessionHost:
    memory = MemoryManager(db, drain_seconds=0.2)
    memory.add_provider(provider)
    options = AgentOptions(recall_seconds=0.2)
    return a_host(db, lambda _: ScriptedModel(script), memory=memory, agent_options=options)


async def spoken(host: SessionHost, session: str, turns: int = 1) -> list[Event]:
    await host.new_session(session_id=session)
    events: list[Event] = []
    for turn in range(1, turns + 1):
        await host.send(session, f"hello {turn}")
        events = await until_turns_end(host, session, turn)
    return events


@pytest.mark.clause("M10", "M1")
@pytest.mark.parametrize("call", ["system_prompt_block", "get_tool_schemas", "initialize", "prefetch"])
def test_a_crowd_of_conversations_completes_its_turns_while_a_provider_hangs(
    db: SessionDB, wait: Wait, hanging: Callable[[str], Hanging], call: str
) -> None:
    async def scenario() -> None:
        provider = hanging(call)
        async with host_with(db, provider, ["one", "two"]) as host:
            ends = await asyncio.gather(*(spoken(host, f"s{number}", 2) for number in range(CROWD)))
            for events in ends:
                assert [type(event) for event in events if isinstance(event, TurnCompleted)] == [
                    TurnCompleted
                ] * 2
                notices = [event.text for event in events if isinstance(event, Notice)]
                assert notices == ["hanging did not answer in 0.2 s; going on without it"], "said once"
            assert provider.reached.is_set()
            assert host._parts.pools.work.stats().busy == 0  # noqa: SLF001 - what turns share
            own = [each.name for each in threading.enumerate() if each.name.endswith("hanging")]
            assert len(own) <= 3

    wait(scenario())


@pytest.mark.clause("M10", "I6")
def test_a_crowd_of_tool_calls_that_hang_takes_no_shared_thread_and_can_be_interrupted(
    db: SessionDB, wait: Wait, hanging: Callable[[str], Hanging]
) -> None:
    async def scenario() -> None:
        provider = hanging("handle_tool_call")
        async with host_with(db, provider, [Call("remember"), "done"]) as host:
            names = [f"s{number}" for number in range(CROWD)]
            for name in names:
                await host.new_session(session_id=name)
                await host.send(name, "remember this")
            await until(provider.reached.is_set)
            for name in names:
                await until(lambda name=name: bool(db.get_messages(name)))  # type: ignore[misc] # it has begun
            # Calls that hang would keep the threads that turns share for good.
            await until(lambda: host._parts.pools.work.stats().busy == 0)  # noqa: SLF001
            # On a slow machine some calls were left out by now, and their turns have ended.
            assert any([await host.interrupt(name) for name in names])
            for name in names:
                await until_turns_end(host, name)

    wait(scenario())


@pytest.mark.clause("M10")
def test_a_conversation_gets_the_tools_of_a_provider_that_was_taken_in_after_it_began(
    db: SessionDB, wait: Wait, hanging: Callable[[str], Hanging]
) -> None:
    async def scenario() -> None:
        memory = MemoryManager(db, drain_seconds=0.2)
        memory.add_pending("hanging", "hanging did not answer in 5 s; going on without it")
        model = ScriptedModel(["one", "two"])
        async with a_host(db, lambda _: model, memory=memory) as host:
            assert list(host.overview.problems) == [
                "hanging did not answer in 5 s; going on without it; its turns are kept for it"
            ]
            await spoken(host, "s")
            memory.attach(gate_provider(hanging(""), SystemClock()), expected="hanging", given={})
            await host.send("s", "again")
            await until_turns_end(host, "s", 2)
            assert [[each.name for each in request.tools] for request in model.requests] == [[], ["remember"]]
            assert list(host.overview.problems) == []
            await until(lambda: db.outbox.backlog("hanging").owed == 0)

    wait(scenario())


@pytest.mark.clause("M10")
def test_a_conversation_gets_the_tools_and_the_block_of_a_provider_that_was_slow_at_first(
    db: SessionDB, wait: Wait, hanging: Callable[[str], Hanging]
) -> None:
    async def scenario() -> None:
        provider = hanging("get_tool_schemas")
        memory = MemoryManager(db, drain_seconds=0.2)
        memory.add_provider(provider)
        model = ScriptedModel(["one", "two", "three"])
        options = AgentOptions(recall_seconds=0.2)
        async with a_host(db, lambda _: model, memory=memory, agent_options=options) as host:
            await spoken(host, "s")
            assert model.requests[0].tools == ()
            provider.let_go.set()
            await until(lambda: bool(memory.get_tool_schemas(0.2)))
            await host.send("s", "again")
            await until_turns_end(host, "s", 2)
            assert [each.name for each in model.requests[1].tools] == ["remember"]
            assert "the block" in model.requests[1].system

    wait(scenario())
