"""How delegation ends before its time: interrupts, deadlines, wedged and stubborn subagents."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from holdfast import Agent, SessionDB
from holdfast.core.events import DelegateFinished, DelegateStarted, TurnInterrupted
from holdfast.sessions.contract import TurnRecord
from holdfast.testing import Call, ScriptedModel
from holdfast.tools.contract import Tool, ToolContext
from tests.agent.agent_fixtures import DEADLINE, Hold, a_tool, echo, require_valid
from tests.agent.subagent_fixtures import (
    HangingModel,
    ModelByConversation,
    all_ended,
    delegating,
    leap,
    leaping,
    parent_of,
    result_of,
)

Wait = Callable[[Awaitable[Any]], Any]


def turn_of(db: SessionDB, session_id: str) -> TurnRecord:
    """The one turn of a session."""
    (turn_id,) = {each.turn_id for each in db.sessions.read(session_id)}
    turn = db.turns.get(str(turn_id))
    assert turn is not None
    return turn


class Wedge:
    """Holds a thread for as long as the test lasts."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self) -> str:
        self.reached.set()
        self.opened.wait(2 * DEADLINE)
        return "at last"

    def tool(self) -> Tool:
        async def run(context: ToolContext, arguments: dict[str, Any]) -> str:
            return str(await context.off_loop(self))

        return a_tool("wedge", run, timeout=None)


@pytest.fixture
def wedge() -> Iterator[Wedge]:
    wedge = Wedge()
    yield wedge
    wedge.opened.set()


async def interrupted(agent: Agent, ready: Callable[[], Awaitable[object]]) -> None:
    """Run a turn, interrupt it when it is ready, and see it end."""
    events = agent.stream("go")
    reading = asyncio.create_task(_last(events))
    await ready()
    agent.interrupt("something else")
    assert isinstance(await reading, TurnInterrupted)


async def _last(events: Any) -> Any:  # noqa: ANN401
    return [event async for event in events][-1]


@pytest.mark.clause("I2", "I6")
def test_an_interrupt_stops_every_subagent_and_keeps_what_each_had_said(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        one, two = HangingModel("Red so far"), HangingModel("Blue so far")
        model = ModelByConversation(
            {"go": [delegating("one", "two", "three")], "one": one, "two": two, "three": ["never"]}
        )
        agent = parent_of(model, db, at_once=2)
        await interrupted(agent, lambda: asyncio.gather(one.hold.reached.wait(), two.hold.reached.wait()))
        await all_ended()
        assert one.hold.left.is_set()
        assert two.hold.left.is_set()
        assert model.requests("three") == []

    wait(scenario())
    assert turn_of(db, "s").state == "interrupted"
    require_valid(db.get_messages("s"))
    children = db.children("s")
    assert {turn_of(db, each).state for each in children} == {"interrupted"}
    assert {turn_of(db, each).reason for each in children} == {"the turn that waits for it was interrupted"}
    said = sorted(str(db.get_messages(each)[-1]["content"]).splitlines()[0] for each in children)
    assert said == ["Blue so far", "Red so far"]
    assert [each.message["content"] for each in db.inbox.waiting("s")] == ["something else"]


@pytest.mark.clause("I6", "X1")
def test_an_interrupt_is_not_held_up_by_a_subagents_wedged_tool(
    db: SessionDB, wait: Wait, wedge: Wedge
) -> None:
    async def scenario() -> None:
        model = ModelByConversation({"go": [delegating("one")], "one": [[Call("wedge")]]})
        reached = asyncio.to_thread(wedge.reached.wait, DEADLINE)
        await interrupted(parent_of(model, db, [wedge.tool()]), lambda: reached)
        await all_ended()
        assert not wedge.opened.is_set()

    wait(scenario())
    (child_id,) = db.children("s")
    assert turn_of(db, child_id).state == "interrupted"
    require_valid(db.get_messages(child_id))


@pytest.mark.clause("I6")
def test_an_interrupt_reaches_a_subagents_subagent(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        inner = HangingModel("Deep down")
        outer = [delegating("inner")]
        model = ModelByConversation(
            {"go": [delegating({"task": "outer", "tools": ["delegate"]})], "outer": outer, "inner": inner}
        )
        await interrupted(parent_of(model, db), inner.hold.reached.wait)
        await all_ended()
        assert inner.hold.left.is_set()

    wait(scenario())
    (outer_id,) = db.children("s")
    (inner_id,) = db.children(outer_id)
    assert [turn_of(db, each).state for each in ("s", outer_id, inner_id)] == ["interrupted"] * 3
    assert "Deep down" in str(db.get_messages(inner_id)[-1]["content"])


@pytest.mark.clause("I6")
def test_an_interrupt_is_not_held_up_by_a_subagent_that_does_not_stop(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        one = HangingModel(stubborn=True)
        model = ModelByConversation({"go": [delegating("one")], "one": one})
        await interrupted(parent_of(model, db), one.hold.reached.wait)
        (child_id,) = db.children("s")
        assert turn_of(db, "s").state == "interrupted"
        assert turn_of(db, child_id).state == "running", "it was left behind"
        one.hold.opened.set()

    wait(scenario())


@pytest.mark.clause("I6")
def test_an_interrupt_before_a_subagent_has_begun_leaves_nothing_running(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        agent = parent_of(ModelByConversation({"go": [delegating("one")], "one": HangingModel()}), db)
        events = [event async for event in _interrupted_at(agent, DelegateStarted)]
        assert isinstance(events[-1], TurnInterrupted)
        await all_ended()

    wait(scenario())
    assert db.turns.unfinished() == []


async def _interrupted_at(agent: Agent, kind: type) -> Any:  # noqa: ANN401
    async for event in agent.stream("go"):
        if isinstance(event, kind):
            agent.interrupt()
        yield event


def test_a_subagent_past_its_deadline_is_stopped_and_says_what_it_had(db: SessionDB) -> None:
    async def scenario() -> None:
        slow = HangingModel("Red so far")
        model = ModelByConversation(
            {"go": [delegating("slow", "quick"), "done"], "slow": slow, "quick": ["blue"]}
        )
        async for event in parent_of(model, db, seconds=100).stream("go"):
            if isinstance(event, DelegateFinished) and event.ok:
                await slow.hold.reached.wait()
                leap(101)

    leaping(scenario())
    first, second = result_of(db).split("\n\n[2] ")
    assert first.startswith("[1] not done")
    assert "did not finish within 100 s and was stopped" in first
    assert "What it said so far:\nRed so far" in first
    assert second.startswith("done")
    states = {turn_of(db, each).state for each in db.children("s")}
    assert states == {"interrupted", "completed"}


@pytest.mark.clause("X1")
def test_a_wedged_tool_of_a_subagent_does_not_hold_the_parent(db: SessionDB, wedge: Wedge) -> None:
    async def scenario() -> None:
        one = ScriptedModel([["Looking. ", Call("echo")], ["Now. ", Call("wedge")]])
        model = ModelByConversation({"go": [delegating("one"), "done"], "one": one})
        agent = parent_of(model, db, [wedge.tool(), echo()], seconds=100)
        turn = asyncio.create_task(agent.run("go"))
        await asyncio.to_thread(wedge.reached.wait, DEADLINE)
        leap(101)
        assert (await turn).final_response == "done"
        assert not wedge.opened.is_set()

    leaping(scenario())
    assert "Tools it used: echo (done)." in result_of(db)
    assert "Looking." in result_of(db)
    (child_id,) = db.children("s")
    assert turn_of(db, child_id).state == "interrupted"


def test_a_subagent_that_does_not_stop_at_its_deadline_is_left_behind(db: SessionDB) -> None:
    async def scenario() -> None:
        stubborn = HangingModel("Red so far", stubborn=True)
        model = ModelByConversation({"go": [delegating("one"), "done"], "one": stubborn})
        turn = asyncio.create_task(parent_of(model, db, seconds=100).run("go"))
        await stubborn.hold.reached.wait()
        leap(101)
        await stubborn.hold.left.wait()
        leap(10)
        assert (await turn).final_response == "done"
        stubborn.hold.opened.set()

    leaping(scenario())
    assert "nor stop when told to; it is left behind" in result_of(db)
    assert "Red so far" in result_of(db)


def test_a_subagent_that_waits_for_its_turn_has_its_whole_time(db: SessionDB) -> None:
    async def scenario() -> None:
        first, second = Hold(), Hold()
        model = ModelByConversation(
            {"go": [delegating("one", "two"), "done"], "one": [first], "two": [second]}
        )
        turn = asyncio.create_task(parent_of(model, db, seconds=100, at_once=1).run("go"))
        await first.reached.wait()
        leap(60)
        first.opened.set()
        await second.reached.wait()
        leap(60)
        second.opened.set()
        assert (await turn).final_response == "done"

    leaping(scenario())
    assert result_of(db).count("held") == 2
