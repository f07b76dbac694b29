"""Tools that behave badly: each one's fault stays its own, and none outlives its turn unnoticed."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from holdfast import Agent, SessionDB
from holdfast.agent import AgentOptions
from holdfast.core.clock import SystemClock
from holdfast.core.errors import StoreBusy
from holdfast.core.events import Event, TurnInterrupted
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing import Call, ScriptedModel
from holdfast.tools.contract import Tool, ToolContext
from tests.agent.agent_fixtures import ANY_ARGUMENTS, FailingEngine, Hold, a_tool, echo, require_valid

Wait = Callable[[Awaitable[Any]], Any]


def results(agent: Agent) -> list[str]:
    return [str(message["content"]) for message in agent.messages if message["role"] == "tool"]


def test_a_tool_that_cancels_itself_has_failed_and_interrupts_nobody(wait: Wait) -> None:
    async def cancels_itself(context: ToolContext, arguments: dict[str, Any]) -> str:
        raise asyncio.CancelledError

    async def scenario() -> None:
        model = ScriptedModel([[Call("odd"), Call("echo", {"n": 1})], "done"])
        agent = Agent(model, tools=[a_tool("odd", cancels_itself), echo()])
        result = await agent.run("go")
        assert not result.interrupted
        assert result.final_response == "done"
        assert "odd failed" in results(agent)[0]
        assert results(agent)[1] == 'echo {"n": 1}'
        await agent.close()

    wait(scenario())


@pytest.mark.parametrize("blocking", [False, True])
def test_a_tool_that_ends_the_program_has_failed_and_the_program_goes_on(wait: Wait, blocking: bool) -> None:
    def leave() -> str:
        raise SystemExit(2)

    async def leaves(context: ToolContext, arguments: dict[str, Any]) -> str:
        return str(await context.off_loop(leave)) if blocking else leave()

    async def scenario() -> None:
        agent = Agent(ScriptedModel([Call("leaves"), "still here"]), tools=[a_tool("leaves", leaves)])
        assert (await agent.run("go")).final_response == "still here"
        assert "leaves failed: SystemExit: 2" in results(agent)[0]
        await agent.close()

    wait(scenario())


@pytest.mark.parametrize("given", [None, "plain text", 7, {"text": "x"}])
def test_a_tool_that_returns_no_result_has_failed_and_hurts_no_other(
    wait: Wait,
    given: Any,  # noqa: ANN401
) -> None:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> Any:  # noqa: ANN401
        return given

    async def scenario() -> None:
        model = ScriptedModel([[Call("odd"), Call("echo")], "done"])
        agent = Agent(model, tools=[Tool("odd", "Odd.", ANY_ARGUMENTS, run), echo()])
        assert (await agent.run("go")).final_response == "done"
        assert "ToolResult" in results(agent)[0]
        assert results(agent)[1] == "echo {}"
        await agent.close()

    wait(scenario())


def test_when_a_result_can_not_be_stored_no_other_tool_runs_on(wait: Wait) -> None:
    async def scenario() -> None:
        engine = FailingEngine(SqliteEngine(":memory:", clock=SystemClock(), patience=5.0))
        db = SessionDB.on(engine)
        hold = Hold()

        async def fails_the_store(context: ToolContext, arguments: dict[str, Any]) -> str:
            await hold.reached.wait()
            engine.fail_next_write(StoreBusy("the store", 5.0))
            return "never stored"

        model = ScriptedModel([[Call("hold"), Call("quick")], "fine"])
        tools = [hold.tool(), a_tool("quick", fails_the_store)]
        agent = Agent(model, db, "s", tools=tools, options=AgentOptions(store_seconds=0))
        with pytest.raises(StoreBusy):
            await agent.run("go")
        assert hold.left.is_set()
        assert [task for task in asyncio.all_tasks() if task.get_name().startswith("tool ")] == []
        assert (await agent.run("again")).final_response == "fine"
        require_valid(model.requests[1].messages)
        await agent.close()
        db.close()

    wait(scenario())


def test_a_tool_left_behind_shows_nothing_any_more(wait: Wait) -> None:
    async def scenario() -> None:
        reached, let_go, said = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def deaf(context: ToolContext, arguments: dict[str, Any]) -> str:
            reached.set()
            while not let_go.is_set():
                with suppress(asyncio.CancelledError):
                    await let_go.wait()
            context.say("too late")
            said.set()
            return "too late"

        events: list[Event] = []
        agent = Agent(ScriptedModel([Call("deaf")]), tools=[a_tool("deaf", deaf)])
        turn = asyncio.create_task(agent.run_turn(events.append, "go"))
        await reached.wait()
        agent.interrupt()
        await turn
        let_go.set()
        await said.wait()
        assert isinstance(events[-1], TurnInterrupted)
        await agent.close()

    wait(scenario())


def test_a_tool_left_behind_ends_without_a_word_of_a_lost_exception(wait: Wait) -> None:
    complaints: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said))
        reached, let_go = asyncio.Event(), asyncio.Event()

        async def deaf(context: ToolContext, arguments: dict[str, Any]) -> str:
            reached.set()
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            return "too late"

        agent = Agent(ScriptedModel([Call("deaf")]), tools=[a_tool("deaf", deaf)])
        turn = asyncio.create_task(agent.run("go"))
        await reached.wait()
        agent.interrupt()
        assert (await turn).interrupted
        left = [task for task in asyncio.all_tasks() if task.get_name().startswith("tool ")]
        let_go.set()
        await asyncio.wait(left)
        del left, turn
        gc.collect()
        await agent.close()

    wait(scenario())
    gc.collect()
    assert complaints == []
