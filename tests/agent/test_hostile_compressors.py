"""Compressors, memories and moments that make a compaction hard: nothing is lost, the turn goes on."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Agent, MemoryManager, SessionDB
from holdfast.agent import AgentOptions, Pools
from holdfast.agent.transcript import Transcript
from holdfast.core.clock import SystemClock
from holdfast.core.contract import Message
from holdfast.core.errors import StoreBusy
from holdfast.core.events import CompactionFinished, Event
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing import ScriptedModel
from holdfast.testing.providers import RecordingProvider
from tests.agent.agent_fixtures import FailingEngine, Hold, echo, require_valid
from tests.agent.compaction_fixtures import conversation

Wait = Callable[[Awaitable[Any]], Any]


class Returns:
    """A compressor that returns, or raises, what it was given."""

    def __init__(self, given: Any) -> None:  # noqa: ANN401
        self.given = given

    async def compress(self, messages: list[Message]) -> Any:  # noqa: ANN401
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given(messages) if callable(self.given) else self.given


CALL: Any = [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
HOSTILE: dict[str, Any] = {
    "nothing": [],
    "no JSON": [{"role": "user", "content": {1, 2}}],
    "an endless name": [{"role": "u" * 600, "content": "x"}],
    "a role of nothing": [{"role": "", "content": "x"}],
    "cancels itself": asyncio.CancelledError(),
    "a result without its call": lambda ms: [{"role": "tool", "tool_call_id": "x", "content": "r"}, ms[-1]],
    "a call without its result": lambda ms: [{"role": "assistant", "tool_calls": CALL}, ms[-1]],
    "an assistant alone": [{"role": "assistant", "content": "so far"}],
    "calls that are none": lambda ms: [{"role": "assistant", "content": "x", "tool_calls": "odd"}, ms[-1]],
    "content of another kind": lambda ms: [{"role": "user", "content": 7}, ms[-1]],
}


@pytest.mark.parametrize("given", HOSTILE.values(), ids=HOSTILE.keys())
def test_whatever_a_compressor_returns_the_turn_goes_on(wait: Wait, given: Any) -> None:  # noqa: ANN401
    async def scenario() -> None:
        with SessionDB(":memory:") as db:
            conversation(db, turns=12)
            model = ScriptedModel(["fine", "and fine"], context_window=700)
            agent = Agent(model, db, "s")
            agent.compressor = Returns(given)
            result = await agent.run("go on")
            assert not result.interrupted
            assert result.final_response == "fine"
            assert (await agent.run("go on")).final_response == "and fine"
            for request in model.requests:
                require_valid(request.messages)
            assert agent.session_id != "s"
            assert list(agent.messages) == Transcript(db.get_messages(agent.session_id)).messages
            await agent.close()

    wait(scenario())


@pytest.mark.clause("C7")
def test_what_came_after_the_given_messages_is_carried_over_even_when_it_repeats_them(wait: Wait) -> None:
    async def scenario() -> None:
        with SessionDB(":memory:") as db:
            conversation(db, turns=12)
            db.sessions.append_message("s", {"role": "user", "content": "ok"})
            given = db.get_messages("s")
            db.sessions.append_messages(
                "s", [{"role": "assistant", "content": "news"}, {"role": "user", "content": "ok"}]
            )
            agent = Agent(ScriptedModel(), db, "s")
            agent.compressor = Returns([{"role": "user", "content": "the sum"}])
            messages, _ = await agent.compress_context(given, "")
            assert [message["content"] for message in messages] == ["the sum", "news", "ok"]
            await agent.close()

    wait(scenario())


@pytest.mark.clause("M2")
@pytest.mark.parametrize("hook", ["ask_notes", "on_session_switch"])
def test_a_memory_that_raises_does_not_fail_a_compaction(wait: Wait, hook: str) -> None:
    class Broken(MemoryManager):
        @property
        def provider_names(self) -> tuple[str, ...]:
            return ("broken",)

    def fail(*_: Any, **__: Any) -> str:  # noqa: ANN401
        raise StoreBusy("the outbox", 5.0)

    async def scenario() -> None:
        with SessionDB(":memory:") as db:
            conversation(db, turns=12)
            memory = Broken()
            setattr(memory, hook, fail)
            model = ScriptedModel(["the sum", "fine"], context_window=700)
            agent = Agent(model, db, "s", memory=memory)
            assert (await agent.run("go on")).final_response == "fine"
            assert agent.session_id != "s"
            await agent.close()

    wait(scenario())


@pytest.mark.clause("M9")
def test_a_recall_has_its_deadline_even_when_tools_have_taken_every_thread(wait: Wait) -> None:
    class Slow(MemoryManager):
        @property
        def provider_names(self) -> tuple[str, ...]:
            return ("slow",)

    async def scenario() -> None:
        pools = Pools()
        let_go = threading.Event()
        agent = Agent(
            ScriptedModel(["fine", "still fine"]),
            memory=Slow(),
            options=AgentOptions(pools=pools, recall_seconds=0.05),
        )
        assert (await agent.run("one")).final_response == "fine"
        for _ in range(32):
            pools.work.submit(let_go.wait)
        try:
            assert (await agent.run("two")).final_response == "still fine"
        finally:
            let_go.set()
        await agent.close()
        pools.close(1)

    wait(scenario())


@pytest.mark.parametrize("failing", range(4))
def test_whichever_read_of_a_compaction_fails_the_agent_knows_the_record(wait: Wait, failing: int) -> None:
    async def scenario() -> None:
        engine = FailingEngine(SqliteEngine(":memory:", clock=SystemClock(), patience=5.0))
        with SessionDB.on(engine) as db:
            conversation(db, turns=12)

            def fail_later(messages: list[Message]) -> list[Message]:
                engine.fail_next_read(*[None] * failing, StoreBusy("the store", 5.0))
                return [{"role": "user", "content": "the sum"}, *messages[-1:]]

            model = ScriptedModel(["fine"] * 4, context_window=700)
            agent = Agent(model, db, "s")
            agent.compressor = Returns(fail_later)
            try:
                await agent.run("go on")
            except StoreBusy:
                assert db.turns.running(db.sessions.live_end("s")) is None
            engine.fail_next_read()
            assert (await agent.run("again")).final_response == "fine"
            assert agent.session_id == db.sessions.live_end("s")
            assert list(agent.messages) == Transcript(db.get_messages(agent.session_id)).messages
            require_valid(model.requests[-1].messages)
            await agent.close()

    wait(scenario())


@pytest.mark.clause("M2")
def test_memorys_tools_that_are_nameless_or_taken_are_left_out(wait: Wait) -> None:
    class Odd(RecordingProvider):
        def get_tool_schemas(self) -> list[dict[str, Any]]:
            return [{"name": "echo"}, {"description": "nameless"}, {"name": "find"}, {"name": "find"}]

    memory = MemoryManager()
    memory.add_provider(Odd())

    async def scenario() -> None:
        model = ScriptedModel(["fine"])
        agent = Agent(model, memory=memory, tools=[echo()])
        assert (await agent.run("go")).final_response == "fine"
        assert [tool.name for tool in model.requests[0].tools] == ["echo", "find"]
        await agent.close()

    wait(scenario())
    memory.shutdown_all()


@pytest.mark.clause("I6")
def test_an_interrupt_stops_a_compaction_between_turns(wait: Wait) -> None:
    async def scenario() -> None:
        with SessionDB(":memory:") as db:
            conversation(db, turns=12)
            hold = Hold()
            model = ScriptedModel([hold, "fine"])
            agent = Agent(model, db, "s")

            async def compact() -> list[Event]:
                events: list[Event] = []
                await agent.compact(events.append)
                return events

            compacting = asyncio.create_task(compact())
            await hold.reached.wait()
            threading.Thread(target=agent.interrupt, args=("do this instead",)).start()
            events = await compacting
            assert isinstance(events[-1], CompactionFinished)
            assert "interrupted" in events[-1].outcome
            assert hold.left.is_set()
            assert agent.session_id == "s"
            assert db.get_compression_lock_holder("s") is None
            assert (await agent.run()).final_response == "fine"
            assert model.requests[-1].messages[-1]["content"] == "do this instead"
            await agent.close()

    wait(scenario())
