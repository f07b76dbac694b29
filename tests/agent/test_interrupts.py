"""Interrupts: they take effect anywhere, keep what was produced, and touch no other turn."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Agent, SessionDB
from holdfast.core.clock import SystemClock
from holdfast.core.errors import StreamBroken
from holdfast.core.events import TextDelta, ToolStarted, TurnCompleted, TurnInterrupted
from holdfast.models.contract import ModelRequest
from holdfast.models.retrying_model import RetryingModel
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing import Call, ScriptedModel
from holdfast.tools.contract import ToolContext
from tests.agent.agent_fixtures import Hold, HoldingEngine, a_tool, echo, require_valid, until

Wait = Callable[[Awaitable[Any]], Any]


class StreamsThenHangs(ScriptedModel):
    """Streams the words it is given and then never ends, once; after that it plays its script."""

    def __init__(self, words: str, script: Any = ()) -> None:  # noqa: ANN401
        super().__init__(["unused", *script])
        self.words = words
        self.hold = Hold()

    async def stream(self, request: ModelRequest) -> Any:  # noqa: ANN401
        if self.played:
            async for piece in super().stream(request):
                yield piece
            return
        first = True
        async for piece in ScriptedModel([self.words]).stream(request):
            if not first and not hasattr(piece, "text"):
                break
            first = False
            yield piece
        self.played += 1
        await self.hold()


@pytest.mark.clause("I2", "I6")
def test_an_interrupt_while_the_model_streams_keeps_the_partial_text(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        model = StreamsThenHangs("The answer begins", ["Now Y."])
        agent = Agent(model, db, "s")
        turn = asyncio.create_task(agent.run("do X"))
        await model.hold.reached.wait()
        agent.interrupt("do Y instead")
        result = await turn
        assert result.interrupted
        assert result.waiting == 1
        record = db.get_messages("s")
        assert "The answer begins" in str(record[-1]["content"])
        assert "cut off" in str(record[-1]["content"])
        after = await agent.run()
        assert after.final_response == "Now Y."
        require_valid(model.requests[0].messages)
        assert [m["content"] for m in model.requests[0].messages][-1] == "do Y instead"

    wait(scenario())


@pytest.mark.clause("I2", "I6")
def test_an_interrupt_before_the_first_word_keeps_the_question(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        model = ScriptedModel([hold, "fine"])
        agent = Agent(model, db, "s")
        turn = asyncio.create_task(agent.run("do X"))
        await hold.reached.wait()
        agent.interrupt()
        assert (await turn).interrupted
        assert (await agent.run("again")).final_response == "fine"
        require_valid(model.requests[1].messages)

    wait(scenario())


@pytest.mark.clause("I2", "I6")
def test_an_interrupt_stops_every_tool_of_a_batch_and_keeps_the_finished_results(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        one, two = Hold(), Hold()
        model = ScriptedModel([[Call("one"), Call("echo", {"n": 1}), Call("two")], "next"])
        agent = Agent(model, db, "s", tools=[one.tool("one"), echo(), two.tool("two")])
        turn = asyncio.create_task(agent.run("go"))
        await one.reached.wait()
        await two.reached.wait()
        await until(lambda: len(db.get_messages("s")) == 3)
        threading.Thread(target=agent.interrupt, args=("stop",)).start()
        assert (await turn).interrupted
        assert one.left.is_set()
        assert two.left.is_set()
        await agent.run()
        sent = model.requests[1].messages
        require_valid(sent)
        results = [str(m["content"]) for m in sent if m["role"] == "tool"]
        assert results[1] == 'echo {"n": 1}'
        assert all("Interrupted" in results[place] for place in (0, 2))

    wait(scenario())


@pytest.mark.clause("I6")
def test_a_tool_that_swallows_its_cancellation_is_left_behind(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        reached, let_go = asyncio.Event(), asyncio.Event()

        async def deaf(context: ToolContext, arguments: dict[str, Any]) -> str:
            reached.set()
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            return "too late"

        agent = Agent(ScriptedModel([[Call("deaf")]]), db, "s", tools=[a_tool("deaf", deaf)])
        turn = asyncio.create_task(agent.run("go"))
        await reached.wait()
        agent.interrupt()
        assert (await turn).interrupted
        recorded = len(db.get_messages("s"))
        let_go.set()
        await until(lambda: not [t for t in asyncio.all_tasks() if t.get_name().startswith("tool ")])
        assert len(db.get_messages("s")) == recorded, "what it said after the end is not recorded"

    wait(scenario())


@pytest.mark.clause("I6")
def test_a_blocking_tool_on_a_thread_does_not_hold_an_interrupt_up(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        reached, let_go = threading.Event(), threading.Event()

        def block() -> None:
            reached.set()
            let_go.wait()

        async def blocking(context: ToolContext, arguments: dict[str, Any]) -> str:
            await context.off_loop(block)
            return "done"

        agent = Agent(ScriptedModel([[Call("blocking")]]), db, "s", tools=[a_tool("blocking", blocking)])
        turn = asyncio.create_task(agent.run("go"))
        await until(reached.is_set)
        agent.interrupt()
        assert (await turn).interrupted
        let_go.set()

    wait(scenario())


@pytest.mark.clause("I6")
@pytest.mark.parametrize("plain", [True, False])
def test_an_interrupt_during_a_compaction_leaves_the_session_whole_and_unlocked(
    db: SessionDB, wait: Wait, plain: bool
) -> None:
    reached, let_go = threading.Event(), threading.Event()

    class Plain:
        def compress(self, messages: list[Any]) -> list[Any]:
            reached.set()
            let_go.wait()
            return messages[-1:]

    class Async:
        async def compress(self, messages: list[Any]) -> list[Any]:
            reached.set()
            await asyncio.Event().wait()
            return messages[-1:]

    async def scenario() -> None:
        model = ScriptedModel(["a long answer " * 80, "fine"], context_window=200)
        agent = Agent(model, db, "s")
        await agent.run("one")
        agent.compressor = Plain() if plain else Async()
        turn = asyncio.create_task(agent.run("two"))
        await until(reached.is_set)
        agent.interrupt()
        assert (await turn).interrupted
        let_go.set()
        assert agent.session_id == "s"
        assert db.children("s") == []
        assert db.get_compression_lock_holder("s") is None

    wait(scenario())


@pytest.mark.clause("I3")
def test_an_interrupt_that_comes_while_the_turn_completes_becomes_the_next_turn(wait: Wait) -> None:
    async def scenario() -> None:
        engine = HoldingEngine(SqliteEngine(":memory:", clock=SystemClock(), patience=5.0))
        db = SessionDB.on(engine)

        def last_word(_: ModelRequest) -> str:
            engine.hold_next_write()
            return "done"

        agent = Agent(ScriptedModel([last_word, "Y it is"]), db, "s")
        events = []

        async def read() -> None:
            events.extend([event async for event in agent.stream("X")])

        reading = asyncio.create_task(read())
        await until(engine.reached.is_set)
        agent.interrupt("do Y")  # stored; the turn is past its last check
        await until(lambda: len(db.inbox.waiting("s")) == 1)
        engine.opened.set()
        await reading
        assert isinstance(events[-1], TurnCompleted)
        assert not [event for event in events if isinstance(event, TurnInterrupted)]
        result = await agent.run()
        assert result.final_response == "Y it is"
        assert not result.interrupted

    wait(scenario())


@pytest.mark.clause("I3")
def test_an_interrupt_after_the_end_becomes_the_next_turn(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        agent = Agent(ScriptedModel(["one", "two"]), db, "s")
        async for event in agent.stream("first"):
            if isinstance(event, TurnCompleted):
                agent.interrupt("second")
        agent.interrupt()  # nothing runs: nothing happens
        result = await agent.run()
        assert result.final_response == "two"
        assert result.messages[-2]["content"] == "second"

    wait(scenario())


@pytest.mark.clause("I4")
def test_an_interrupt_of_one_turn_can_not_touch_a_later_one(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        agent = Agent(ScriptedModel([hold, "two", "three"]), db, "s")
        turn = asyncio.create_task(agent.run("one"))
        await hold.reached.wait()
        first = agent._running  # noqa: SLF001 - the handle that a late caller still holds
        assert first is not None
        agent.interrupt()
        agent.interrupt()
        assert (await turn).interrupted
        second = asyncio.create_task(agent.run("two"))
        for _ in range(50):
            first.interrupt("late")
        result = await second
        assert not result.interrupted
        assert result.final_response == "two"
        assert (await agent.run("three")).final_response == "three"

    wait(scenario())


def test_an_interrupt_that_comes_while_the_turn_opens_loses_nothing(wait: Wait) -> None:
    async def scenario() -> None:
        engine = HoldingEngine(SqliteEngine(":memory:", clock=SystemClock(), patience=5.0))
        db = SessionDB.on(engine)
        agent = Agent(ScriptedModel(["zero", "two"]), db, "s")
        await agent.run("zero")
        engine.hold_next_write()
        turn = asyncio.create_task(agent.run("first"))
        await until(engine.reached.is_set)
        agent.interrupt("second")
        engine.opened.set()
        assert (await turn).interrupted
        said = [m["content"] for m in db.get_messages("s") if m["role"] == "user"]
        assert said == ["zero", "first"]
        assert (await agent.run()).final_response == "two"

    wait(scenario())


def test_a_reader_that_leaves_stops_the_turn_and_its_work_is_kept(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        model = StreamsThenHangs("some words")
        agent = Agent(model, db, "s")
        stream = agent.stream("go")
        async for event in stream:
            if isinstance(event, TextDelta):
                break
        await stream.aclose()
        assert db.turns.running("s") is None
        assert "some" in str(db.get_messages("s")[-1]["content"])

    wait(scenario())


def test_cancelling_the_task_that_runs_a_turn_ends_the_turn_first(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        agent = Agent(ScriptedModel([[Call("hold")]]), db, "s", tools=[hold.tool()])
        turn = asyncio.create_task(agent.run("go"))
        await hold.reached.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert db.turns.running("s") is None
        assert hold.left.is_set()

    wait(scenario())


def test_a_slow_reader_does_not_slow_the_turn(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        agent = Agent(ScriptedModel([[Call("echo")], "done"]), db, "s", tools=[echo()])
        stream = agent.stream("go")
        assert not isinstance(await anext(stream), ToolStarted)
        await until(lambda: db.turns.running("s") is None and len(db.get_messages("s")) == 4)
        assert isinstance([event async for event in stream][-1], TurnCompleted)

    wait(scenario())


@pytest.mark.clause("I6")
def test_an_interrupt_while_a_retry_waits_takes_effect_at_once(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        backing_off = asyncio.Event()

        async def sleep(_: float) -> None:
            backing_off.set()
            await asyncio.Event().wait()

        busy = ScriptedModel([["half ", StreamBroken("m", "gone")], "never asked again"])
        agent = Agent(RetryingModel(busy, SystemClock(), sleep=sleep), db, "s")
        turn = asyncio.create_task(agent.run("go"))
        await backing_off.wait()
        agent.interrupt()
        assert (await turn).interrupted
        assert busy.played == 1
        assert any(str(m["content"]).startswith("half") for m in db.get_messages("s"))

    wait(scenario())
