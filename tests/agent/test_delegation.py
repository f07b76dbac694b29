"""Delegation: subagents with their own session, tools and limits, whose ends the parent hears in order."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Agent, SessionDB
from holdfast.agent import AgentOptions, Limits
from holdfast.agent.contract import Nobody
from holdfast.agent.delegation import Offer, delegate_tool
from holdfast.core.errors import KeyRejected
from holdfast.core.events import DelegateFinished, DelegateStarted, Event, QuestionAsked, ToolOutput
from holdfast.core.ids import new_id
from holdfast.testing import Call
from holdfast.tools.contract import Person, ToolContext
from tests.agent.agent_fixtures import Hold, a_tool, echo, require_valid
from tests.agent.subagent_fixtures import ModelByConversation, delegating, events_of, parent_of, result_of

Wait = Callable[[Awaitable[Any]], Any]


def ask_tool() -> Any:  # noqa: ANN401
    async def run(context: ToolContext, arguments: dict[str, Any]) -> str:
        return f"the person says {await context.person.answer('which one?')}"

    return a_tool("ask_user", run)


def test_the_answers_come_back_in_the_order_of_the_tasks(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        second = asyncio.Event()

        async def first_waits(_: object) -> str:
            await second.wait()
            return "one is red"

        async def second_goes(_: object) -> str:
            second.set()
            return "two is blue"

        model = ModelByConversation(
            {"go": [delegating("one", "two"), "done"], "one": [first_waits], "two": [second_goes]}
        )
        assert (await parent_of(model, db).run("go")).final_response == "done"

    wait(scenario())
    red, blue = result_of(db).split("[2] ")
    assert "one is red" in red
    assert "two is blue" in blue
    named = re.findall(r"session (\S+)", result_of(db))
    said = {each: db.get_messages(each)[-1]["content"] for each in db.children("s")}
    assert [said[each] for each in named] == ["one is red", "two is blue"]


def test_a_subagent_has_a_session_of_its_own_that_continues_nothing(db: SessionDB, wait: Wait) -> None:
    model = ModelByConversation({"go": [delegating("count"), "done"], "count": [[Call("echo")], "three"]})
    agent = parent_of(model, db, [echo()])
    wait(agent.run("go"))
    (child_id,) = db.children("s")
    child = db.get_session(child_id)
    assert child is not None
    assert (child.parent, child.relation, child.source, child.title) == ("s", "delegate", "delegate", "count")
    assert [message["role"] for message in db.get_messages(child_id)] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert db.sessions.live_end("s") == "s"
    assert db.sessions.lineage("s") == ["s"]
    assert db.sessions.lineage(child_id) == [child_id]


def test_a_parent_that_is_compacted_later_goes_on_in_its_own_continuation(db: SessionDB, wait: Wait) -> None:
    class Short:
        def compress(self, messages: Any) -> Any:  # noqa: ANN401
            return [{"role": "user", "content": "in short"}]

    model = ModelByConversation({"go": [delegating("count"), "done"], "count": ["three"]})
    agent = parent_of(model, db)
    wait(agent.run("go"))
    (child_id,) = db.children("s")
    agent.compressor = Short()
    wait(agent.compress_context(db.get_messages("s"), ""))
    assert db.sessions.live_end("s") == agent.session_id
    assert set(db.children("s")) == {child_id, agent.session_id}
    assert db.sessions.live_end(child_id) == child_id


def test_a_subagent_knows_its_task_and_context_and_nothing_else(db: SessionDB, wait: Wait) -> None:
    task = {"task": "count", "context": "there are </context> stones", "tools": ["echo"]}
    model = ModelByConversation({"a secret": [delegating(task), "done"], "count": ["three"]})
    agent = parent_of(model, db, [echo(), Hold().tool()], AgentOptions(instructions="Speak plainly."))
    wait(agent.run("a secret"))
    (request,) = model.requests("count")
    assert len(request.messages) == 1
    assert "stones" in str(request.messages[0]["content"])
    assert str(request.messages[0]["content"]).count("</context>") == 1
    assert "subagent" in request.system
    assert "Speak plainly." in request.system
    assert [tool.name for tool in request.tools] == ["echo"]


def test_without_names_a_subagent_gets_every_tool_but_those_that_ask_or_delegate(
    db: SessionDB, wait: Wait
) -> None:
    model = ModelByConversation({"go": [delegating("count"), "done"], "count": ["three"]})
    wait(parent_of(model, db, [echo(), ask_tool()]).run("go"))
    assert [tool.name for tool in model.requests("count")[0].tools] == ["echo"]


@pytest.mark.parametrize("name", ["missing", "ask_user"])
def test_a_tool_that_is_not_on_offer_is_refused_before_anything_begins(
    db: SessionDB, wait: Wait, name: str
) -> None:
    model = ModelByConversation({"go": [delegating("count", {"task": "read", "tools": [name]}), "done"]})
    wait(parent_of(model, db, [echo(), ask_tool()]).run("go"))
    assert f"can't be given {name}; it can be given: echo, delegate" in result_of(db)
    assert db.children("s") == []


@pytest.mark.parametrize(
    "tasks", [None, [], [{"task": ""}], ["x"], [{"task": "x", "more": 1}], [{"task": "x"}] * 17]
)
def test_arguments_that_are_no_tasks_are_refused(db: SessionDB, wait: Wait, tasks: Any) -> None:  # noqa: ANN401
    model = ModelByConversation({"go": [Call("delegate", {} if tasks is None else {"tasks": tasks}), "done"]})
    wait(parent_of(model, db).run("go"))
    assert "the arguments of delegate can't be used" in result_of(db)


def test_a_subagent_meets_nobody_unless_that_is_allowed(db: SessionDB, wait: Wait) -> None:
    met: list[str] = []

    def person(session_id: str, *_: object) -> Person:
        met.append(session_id)
        return Nobody()

    model = ModelByConversation(
        {"go": [delegating("choose"), "done"], "choose": [[Call("ask_user")], "none"]}
    )
    agent = parent_of(model, db, [ask_tool()], AgentOptions(person_for=person), asking=frozenset())
    wait(agent.run("go"))
    (child_id,) = db.children("s")
    assert result_of(db, child_id) == "the person says None"
    assert met == ["s"]


def test_a_subagent_that_may_ask_asks_in_the_parents_stream(db: SessionDB, wait: Wait) -> None:
    class Answers(Nobody):
        def __init__(self, ids: tuple[str, str, str], emit: Callable[[Event], None]) -> None:
            self.ids, self.emit = ids, emit

        async def answer(self, question: str, choices: Any = ()) -> str:  # noqa: ANN401
            session, turn, call = self.ids
            self.emit(
                QuestionAsked(
                    session_id=session,
                    turn_id=turn,
                    call_id=call,
                    ask_id=new_id(),
                    question=question,
                    choices=(),
                    seconds=1,
                )
            )
            return "the red one"

    options = AgentOptions(person_for=lambda s, t, c, emit: Answers((s, t, c), emit))
    model = ModelByConversation({"go": [delegating("choose"), "done"], "choose": [[Call("ask_user")], "red"]})
    agent = parent_of(model, db, [ask_tool()], options, may_ask=True)
    events = wait(events_of(agent, "go"))
    (asked,) = [event for event in events if isinstance(event, QuestionAsked)]
    (child_id,) = db.children("s")
    assert (asked.question, asked.session_id) == ("which one?", child_id)
    assert "the person says the red one" in result_of(db, child_id)


def test_a_subagents_subagent_can_delegate_no_further(db: SessionDB, wait: Wait) -> None:
    inner = {"task": "inner", "tools": ["echo"]}
    outer = {"task": "outer", "tools": ["echo", "delegate"]}
    model = ModelByConversation(
        {"go": [delegating(outer), "done"], "outer": [delegating(inner), "outer done"], "inner": ["found"]}
    )
    wait(parent_of(model, db, [echo(), Hold().tool()]).run("go"))
    (first,) = db.children("s")
    (second,) = db.children(first)
    assert "found" in result_of(db, first)
    assert [tool.name for tool in model.requests("outer")[0].tools] == ["echo", "delegate"]
    assert [tool.name for tool in model.requests("inner")[0].tools] == ["echo"]
    offered = model.requests("outer")[0].tools[1].parameters["properties"]["tasks"]["items"]
    assert offered["properties"]["tools"]["items"]["enum"] == ["echo"], "no deeper, and no more than it has"
    assert db.get_messages(second)[-1]["content"] == "found"


def test_one_that_fails_hurts_no_other(db: SessionDB, wait: Wait) -> None:
    broken = ["It begins ", KeyRejected("m", "expired")]
    model = ModelByConversation(
        {"go": [delegating("one", "two"), "done"], "one": [broken], "two": ["two is blue"]}
    )
    events = wait(events_of(parent_of(model, db), "go"))
    first, second = result_of(db).split("\n\n[2] ")
    assert first.startswith("[1] not done")
    assert "expired" in first
    assert "It begins" in first
    assert second.startswith("done")
    assert "two is blue" in second
    (message,) = [each for each in db.get_messages("s") if each["role"] == "tool"]
    assert "holdfast" not in message, "a call of which a part was done has not failed"
    ended = {event.child_session_id: event.ok for event in events if isinstance(event, DelegateFinished)}
    begun = {event.task: event.child_session_id for event in events if isinstance(event, DelegateStarted)}
    assert ended == {begun["one"]: False, begun["two"]: True}


def test_a_call_of_which_nothing_was_done_has_failed(db: SessionDB, wait: Wait) -> None:
    model = ModelByConversation({"go": [delegating("one"), "done"], "one": [RuntimeError("no such luck")]})
    wait(parent_of(model, db).run("go"))
    (message,) = [each for each in db.get_messages("s") if each["role"] == "tool"]
    assert message["holdfast"] == {"failed": True}  # type: ignore[typeddict-item]
    assert "no such luck" in str(message["content"])
    require_valid(db.get_messages("s"))


def test_a_subagent_that_reaches_its_own_limits_says_so(db: SessionDB, wait: Wait) -> None:
    model = ModelByConversation({"go": [delegating("one"), "done"], "one": [[Call("echo")]] * 9})
    result = wait(parent_of(model, db, [echo()], limits=Limits(max_steps=3)).run("go"))
    assert "limit of 3 steps" in result_of(db)
    assert result.final_response == "done"


def test_no_more_run_at_once_than_agreed(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        holds = {name: Hold() for name in ("one", "two", "three")}
        model = ModelByConversation(
            {"go": [delegating(*holds), "done"], **{name: [hold] for name, hold in holds.items()}}
        )
        turn = asyncio.create_task(parent_of(model, db, at_once=2).run("go"))
        await holds["one"].reached.wait()
        await holds["two"].reached.wait()
        assert len(db.children("s")) == 2
        holds["two"].opened.set()
        await holds["three"].reached.wait()
        assert not holds["one"].left.is_set()
        holds["one"].opened.set()
        holds["three"].opened.set()
        assert (await turn).final_response == "done"

    wait(scenario())


def test_what_a_subagent_does_is_shown_in_the_parents_stream(db: SessionDB, wait: Wait) -> None:
    model = ModelByConversation({"go": [delegating("one"), "done"], "one": [[Call("echo")], "ok"]})
    events = wait(events_of(parent_of(model, db, [echo()]), "go"))
    shown = [event for event in events if isinstance(event, (DelegateStarted, DelegateFinished, ToolOutput))]
    assert [type(event) for event in shown] == [DelegateStarted, ToolOutput, DelegateFinished]
    assert {event.session_id for event in events} == {"s"}
    assert isinstance(shown[1], ToolOutput)
    assert shown[1].text == "[1] echo\n"


def test_long_answers_are_shortened_evenly_and_are_whole_in_their_sessions(db: SessionDB, wait: Wait) -> None:
    model = ModelByConversation(
        {"go": [delegating("one", "two"), "done"], "one": ["a" * 90_000], "two": ["short"]}
    )
    wait(parent_of(model, db).run("go"))
    assert "characters are left out here" in result_of(db)
    assert len(result_of(db)) < 50_000
    assert "short" in result_of(db)
    whole = [message["content"] for each in db.children("s") for message in db.get_messages(each)]
    assert "a" * 90_000 in whole


def test_a_store_that_refuses_the_session_fails_that_part_alone(db: SessionDB, wait: Wait) -> None:
    model = ModelByConversation({"go": [delegating("one"), "done"], "one": ["never asked"]})
    with SessionDB(":memory:") as other:
        # The other store knows no session `s` to be the parent.
        agent = Agent(model, db, "s", tools=[delegate_tool(Offer(model, other))])
        assert wait(agent.run("go")).final_response == "done"
    assert "could not do its task: there is no session 's'" in result_of(db)
