"""A model that makes the same call again and again is told once; then the turn ends and says so."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from holdfast import Agent, SessionDB
from holdfast.agent.turn_limits import REPEAT_NOTICE, REPEATED, TOLD
from holdfast.core.events import Event, Notice, TurnCompleted
from holdfast.testing import Call, ScriptedModel
from holdfast.tools.contract import ToolContext
from tests.agent.agent_fixtures import a_tool, echo, require_valid

Wait = Callable[[Awaitable[Any]], Any]


async def _events(agent: Agent, text: str) -> list[Event]:
    return [event async for event in agent.stream(text)]


def test_the_same_call_again_and_again_ends_the_turn_with_an_honest_word(db: SessionDB, wait: Wait) -> None:
    model = ScriptedModel([Call("echo", {"a": 1})] * 20)
    agent = Agent(model, db, "s", tools=[echo()])
    events = wait(_events(agent, "go"))
    results = [str(each["content"]) for each in db.get_messages("s") if each["role"] == "tool"]
    assert [TOLD in each for each in results] == [False, False, True, False, False]
    assert [event.text for event in events if isinstance(event, Notice)] == [REPEAT_NOTICE]
    end = events[-1]
    assert isinstance(end, TurnCompleted)
    assert REPEATED in end.final_response
    assert "Tell me how to go on" in end.final_response
    require_valid(db.get_messages("s"))
    wait(agent.run("something else"))  # the next turn begins its own count


def test_two_calls_in_turn_that_bring_nothing_new_are_a_repetition_too(db: SessionDB, wait: Wait) -> None:
    script = [Call("echo", {"a": 1}), Call("echo", {"a": 2})] * 10
    result = wait(Agent(ScriptedModel(script), db, "s", tools=[echo()]).run("go"))
    assert REPEATED in result.final_response
    assert result.steps == 6


def test_a_call_between_edits_and_a_result_that_changes_are_no_repetition(db: SessionDB, wait: Wait) -> None:
    numbers = count()

    async def tick(context: ToolContext, arguments: dict[str, Any]) -> str:
        return f"{next(numbers)}"

    edits = [each for number in range(6) for each in (Call("echo", {"a": number}), Call("test"))]

    async def test(context: ToolContext, arguments: dict[str, Any]) -> str:
        return "1 failed"

    tools = [echo(), a_tool("tick", tick), a_tool("test", test), a_tool("read_process", test)]
    model = ScriptedModel([*edits, *[Call("tick")] * 8, *[Call("read_process")] * 8, "done"])
    result = wait(Agent(model, db, "s", tools=tools).run("mend it"))
    assert result.final_response == "done"
    assert not any(TOLD in str(each["content"]) for each in db.get_messages("s"))
