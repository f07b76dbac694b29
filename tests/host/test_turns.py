"""Turns through the host: stored first, in order, one at a time, and the session is idle at once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.core.errors import HostClosed, InvalidInput, SessionNotFound
from holdfast.core.events import (
    ApprovalAsked,
    MessageAccepted,
    MessageJoined,
    QuestionAsked,
    SessionRotated,
    TextDelta,
    TurnCompleted,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.models.contract import ModelRequest
from holdfast.sessions import SessionDB
from holdfast.testing import Call, ScriptedModel
from holdfast.tools.contract import ApprovalRequest, ToolContext
from tests.agent.agent_fixtures import Hold, a_tool, until
from tests.host.host_fixtures import a_host, until_turns_end

Wait = Callable[[Awaitable[Any]], Any]


def said(db: SessionDB, session: str, role: str = "user") -> list[Any]:
    return [m["content"] for m in db.get_messages(db.sessions.live_end(session)) if m["role"] == role]


@pytest.mark.clause("I1")
def test_a_message_is_stored_before_send_returns_and_runs(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, ["Hello."]) as host:
            session = await host.new_session()
            accepted = await host.send(session, "hi")
            stored = db.inbox.get(accepted.inbox_id)
            assert stored is not None
            events = await until_turns_end(host, session)
            kinds = [type(event) for event in events]
            assert kinds[:2] == [MessageAccepted, TurnStarted]
            assert kinds[-1] == TurnCompleted

    wait(scenario())


@pytest.mark.clause("I1")
def test_messages_sent_during_a_turn_run_after_it_in_order(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold, "two", "three"]) as host:
            await host.send("s", "first")
            await hold.reached.wait()
            await host.send("s", "second")
            await host.send("s", "third")
            assert len(await host.records.waiting("s")) == 2
            hold.opened.set()
            await until_turns_end(host, "s", 3)
            assert said(db, "s") == ["first", "second", "third"]
            assert said(db, "s", "assistant") == ["held", "two", "three"]

    wait(scenario())


@pytest.mark.clause("I1")
def test_a_steering_message_joins_the_running_turn(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [Call("hold"), "done"], tools=[hold.tool()]) as host:
            await host.send("s", "first")
            await hold.reached.wait()
            await host.send("s", "by the way", "steer")
            hold.opened.set()
            events = await until_turns_end(host, "s")
            assert [e.text for e in events if isinstance(e, MessageJoined)] == ["by the way"]
            assert await host.records.waiting("s") == []

    wait(scenario())


@pytest.mark.clause("I2", "I6")
def test_an_interrupt_stops_the_turn_and_its_message_runs_next(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [Call("hold"), "done instead"], tools=[hold.tool()]) as host:
            await host.send("s", "first")
            await hold.reached.wait()
            accepted = await host.send("s", "no, this", "interrupt")
            assert accepted.interrupts is not None
            events = await until_turns_end(host, "s", 2)
            ends = [e for e in events if isinstance(e, (TurnInterrupted, TurnCompleted))]
            assert isinstance(ends[0], TurnInterrupted)
            assert ends[0].turn_id == accepted.interrupts
            assert isinstance(ends[1], TurnCompleted)
            assert said(db, "s") == ["first", "no, this"]

    wait(scenario())


@pytest.mark.clause("I2")
def test_an_interrupt_runs_before_messages_that_wait_since_longer(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold, "two", "three", "four"]) as host:
            await host.send("s", "first")
            await hold.reached.wait()
            await host.send("s", "later")
            await host.send("s", "no, this", "interrupt")
            await host.send("s", "last")
            await until_turns_end(host, "s", 4)
            assert said(db, "s") == ["first", "no, this", "later", "last"]

    wait(scenario())


@pytest.mark.clause("I3")
def test_an_interrupt_with_nothing_to_interrupt_is_the_next_turn(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, ["fine"]) as host:
            accepted = await host.send("s", "stop that", "interrupt")
            assert accepted.interrupts is None
            events = await until_turns_end(host, "s")
            assert isinstance(events[-1], TurnCompleted)

    wait(scenario())


@pytest.mark.clause("I4")
def test_a_plain_interrupt_touches_only_the_turn_that_runs(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold, "two"]) as host:
            await host.send("s", "one")
            await hold.reached.wait()
            assert await host.interrupt("s")
            await until_turns_end(host, "s", 1)
            assert not await host.interrupt("s")
            await host.send("s", "again")
            events = await until_turns_end(host, "s", 2)
            assert isinstance(events[-1], TurnCompleted)

    wait(scenario())


@pytest.mark.clause("I5")
def test_an_answer_to_a_closed_question_becomes_the_next_message(db: SessionDB, wait: Wait) -> None:
    async def ask(context: ToolContext, arguments: dict[str, Any]) -> str:
        return str(await context.person.answer("which one?"))

    async def scenario() -> None:
        script = [Call("ask"), "thanks", "noted"]
        async with a_host(db, script, tools=[a_tool("ask", ask)]) as host:
            await host.send("s", "choose")
            ask_id = ""
            async for numbered in host.events("s", after=0):
                if isinstance(numbered.event, QuestionAsked):
                    ask_id = numbered.event.ask_id
                    break
            assert await host.answer("s", ask_id, "the red one")
            await until_turns_end(host, "s", 1)
            assert not await host.answer("s", ask_id, "no wait, the blue one")
            await until_turns_end(host, "s", 2)
            assert said(db, "s") == ["choose", "no wait, the blue one"]

    wait(scenario())


def test_an_approval_is_an_event_that_any_surface_answers(db: SessionDB, wait: Wait) -> None:
    async def dangerous(context: ToolContext, arguments: dict[str, Any]) -> str:
        return str(await context.person.approve(ApprovalRequest("make install", "command")))

    async def scenario() -> None:
        model = ScriptedModel([Call("dangerous"), "done"])
        async with a_host(db, lambda _: model, tools=[a_tool("dangerous", dangerous)]) as host:
            await host.send("s", "go")
            async for numbered in host.events("s", after=0):
                if isinstance(numbered.event, ApprovalAsked):
                    assert numbered.event.subject == "make install"
                    assert await host.approve("s", numbered.event.ask_id, "yes")
                    break
            await until_turns_end(host, "s")
            assert model.requests[1].messages[-1]["content"] == "True"

    wait(scenario())


def test_what_was_allowed_always_stays_so_after_a_later_message_is_taken_back(
    db: SessionDB, wait: Wait
) -> None:
    install = ApprovalRequest("make install", "command")

    async def dangerous(context: ToolContext, arguments: dict[str, Any]) -> str:
        return str(await context.person.approve(install))

    async def scenario() -> None:
        asks = Call("dangerous")
        model = ScriptedModel([asks, "done", "later", asks, "done unasked", asks, "no"])
        async with a_host(db, lambda _: model, tools=[a_tool("dangerous", dangerous)]) as host:
            await host.send("s", "go")
            async for numbered in host.events("s", after=0):
                if isinstance(numbered.event, ApprovalAsked):
                    assert await host.approve("s", numbered.event.ask_id, "always")
                    break
            await until_turns_end(host, "s", 1)
            await host.send("s", "something else")
            await until_turns_end(host, "s", 2)
            kept = (await host.undo("s")).session_id
            await host.send(kept, "again")
            events = await until_turns_end(host, kept)
            assert not [each for each in events if isinstance(each, ApprovalAsked)]
            # With the message of that turn the permission is taken back too.
            fresh = await host.commands.truncate(kept, before=(await host.records.messages(kept))[0].seq)
            await host.send(fresh, "from the beginning")
            async for numbered in host.events(fresh, after=0):
                if isinstance(numbered.event, ApprovalAsked):
                    assert await host.approve(fresh, numbered.event.ask_id, "no")
                    break
            await until_turns_end(host, fresh)

    wait(scenario())


def test_a_conversation_goes_on_across_a_compaction_under_any_of_its_ids(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        long_answer = "a long answer " * 200
        script = [long_answer, "the summary", "after", "later"]
        model = ScriptedModel(script, context_window=800)
        async with a_host(db, lambda _: model) as host:
            await host.send("s", "one")
            await until_turns_end(host, "s", 1)
            await host.send("s", "two")
            events = await until_turns_end(host, "s", 2)
            (rotated,) = [e for e in events if isinstance(e, SessionRotated)]
            await host.send(rotated.child_id, "three")
            await until_turns_end(host, "s", 3)
            assert (await host.overview.session_status("s")).session_id == db.sessions.live_end("s")

    wait(scenario())


def test_an_empty_message_is_refused_and_so_is_any_once_the_host_closes(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        host = a_host(db)
        async with host:
            with pytest.raises(InvalidInput, match="empty"):
                await host.send("s", "")
            with pytest.raises(SessionNotFound):
                await host.overview.session_status("nowhere")
        with pytest.raises(HostClosed, match="not stored"):
            await host.send("s", "too late")

    wait(scenario())


def test_a_reader_that_comes_late_gets_the_partial_text_and_then_the_rest(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()

        class Halfway(ScriptedModel):
            async def stream(self, request: ModelRequest) -> Any:  # noqa: ANN401
                async for piece in super().stream(request):
                    yield piece
                    if not hold.reached.is_set():
                        await hold()

        async with a_host(db, lambda _: Halfway(["half whole"])) as host:
            await host.send("s", "go")
            await hold.reached.wait()
            stream = host.events("s")
            snapshot = (await anext(stream)).event
            assert (snapshot.text, snapshot.user_text) == ("half ", "go")  # type: ignore[attr-defined]
            hold.opened.set()
            rest = []
            async for numbered in stream:
                rest.append(numbered.event)
                if isinstance(numbered.event, TurnCompleted):
                    break
            assert [e.text for e in rest if isinstance(e, TextDelta)] == ["whole"]

    wait(scenario())


def test_two_hundred_sessions_run_at_once(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, lambda session: ScriptedModel([f"answer for {session}"])) as host:
            names = [f"s{number}" for number in range(200)]
            await asyncio.gather(*(host.send(name, "hi") for name in names))
            await until(lambda: all(len(db.get_messages(name)) == 2 for name in names))
            for name in names:
                assert said(db, name, "assistant") == [f"answer for {name}"]

    wait(scenario())
