"""Approvals and questions: answered from any process, once; an answer is not lost to an interrupt."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast.core.events import ApprovalAsked, AskClosed, Event, QuestionAsked, ToolStarted, TurnInterrupted
from holdfast.host import SessionHost
from holdfast.sessions import SessionDB
from holdfast.testing import Call
from holdfast.tools.contract import ApprovalRequest, Tool, ToolContext
from tests.agent.agent_fixtures import Hold, a_tool, until
from tests.host.host_fixtures import a_host, until_turns_end
from tests.host.host_processes import host_processes

E = TypeVar("E", bound=Event)
Wait = Callable[[Awaitable[Any]], Any]


@pytest.fixture
def other_db(store_url: str) -> Iterator[SessionDB]:
    """The same store as another process has it."""
    with SessionDB.open(store_url) as opened:
        yield opened


def asker(then: Callable[[], Awaitable[object]] | None = None) -> Tool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> str:
        answer = await context.person.answer("which one?", ["red", "blue"])
        if then is not None:
            await then()
        return f"it is {answer}"

    return a_tool("ask", run)


def approver() -> Tool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> str:
        return str(await context.person.approve(ApprovalRequest("make install", "command")))

    return a_tool("approve", run)


async def first(host: SessionHost, kind: type[E], session_id: str = "s") -> E:
    """The first event of a kind, as the host shows it."""
    async with aclosing(host.events(session_id)) as events:
        async for numbered in events:
            if isinstance(numbered.event, kind):
                return numbered.event
    raise AssertionError("the stream ended first")


def said(db: SessionDB, role: str = "user") -> list[Any]:
    return [m["content"] for m in db.get_messages("s") if m["role"] == role]


@pytest.mark.clause("I5")
def test_a_question_is_answered_from_another_process(db: SessionDB, other_db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        tools = [asker(hold)]
        async with a_host(db, [Call("ask"), "thanks"], tools=tools) as here, a_host(other_db) as there:
            await here.new_session(session_id="s")
            closing = asyncio.create_task(first(there, AskClosed))
            following = asyncio.create_task(until_turns_end(there, "s"))
            await here.send("s", "choose")
            asked = await first(there, QuestionAsked)
            assert asked.question == "which one?"
            assert asked.choices == ("red", "blue")
            (listed,) = await there.overview.asks("s")
            assert (listed.ask_id, listed.kind, listed.choices) == (asked.ask_id, "question", ("red", "blue"))
            assert 0 < listed.seconds_left <= asked.seconds
            assert (await there.overview.session_status("s")).asking == 1
            assert await there.answer("s", asked.ask_id, "2")
            assert not await there.approve("s", asked.ask_id, "yes")
            assert (await closing).outcome == "answered: 2"
            hold.opened.set()
            events = await following
            kinds = [type(event) for event in events]
            assert kinds.index(ToolStarted) < kinds.index(QuestionAsked) < kinds.index(AskClosed)
            assert said(db, "tool") == ["it is blue"]
            await until(lambda: db.asks.of_turn(asked.turn_id) == [])

    wait(scenario())


@pytest.mark.parametrize("word", ["yes", "no"])
def test_an_approval_is_decided_from_another_process(
    db: SessionDB, other_db: SessionDB, wait: Wait, word: str
) -> None:
    async def scenario() -> None:
        tools = [approver()]
        async with a_host(db, [Call("approve"), "done"], tools=tools) as here, a_host(other_db) as there:
            await here.send("s", "go")
            asked = await first(there, ApprovalAsked)
            # No answer to an approval, so a message like any other.
            assert not await there.answer("s", asked.ask_id, "what is that?")
            assert await there.approve("s", asked.ask_id, word)
            await until_turns_end(here, "s", 2)
            assert said(db, "tool") == [str(word == "yes")]
            assert said(db) == ["go", "what is that?"]

    wait(scenario())


@pytest.mark.clause("I5")
def test_of_two_answers_from_two_processes_one_counts_and_the_other_is_the_next_message(
    db: SessionDB, other_db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        script = [Call("ask"), "thanks", "noted"]
        async with a_host(db, script, tools=[asker()]) as here, a_host(other_db) as there:
            await here.send("s", "choose")
            asked = await first(there, QuestionAsked)
            counted = await asyncio.gather(
                here.answer("s", asked.ask_id, "from here"), there.answer("s", asked.ask_id, "from there")
            )
            assert sorted(counted) == [False, True]
            # Either process may run it.
            await until(lambda: len(said(db)) == 2 and not db.turns.unfinished())
            answers = ["from here", "from there"]
            assert said(db, "tool") == [f"it is {answers[counted.index(True)]}"]
            assert said(db) == ["choose", answers[counted.index(False)]]

    wait(scenario())


@pytest.mark.clause("I5")
def test_a_late_answer_from_another_process_is_the_next_message(
    db: SessionDB, other_db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        script = [Call("ask"), "thanks", "noted"]
        async with a_host(db, script, tools=[asker()]) as here, a_host(other_db) as there:
            await here.send("s", "choose")
            asked = await first(there, QuestionAsked)
            assert await here.answer("s", asked.ask_id, "red")
            await until_turns_end(here, "s")
            assert not await there.answer("s", asked.ask_id, "no, blue")
            await until(lambda: said(db)[-1] == "no, blue" and not db.turns.unfinished())

    wait(scenario())


@pytest.mark.clause("I5")
def test_an_answer_accepted_in_the_moment_of_an_interrupt_is_the_next_message(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        async with a_host(db, [Call("ask"), "noted"], tools=[asker()]) as host:
            await host.send("s", "choose")
            asked = await first(host, QuestionAsked)
            conversation = host._conversations.opened["s"]  # noqa: SLF001 - both in one step of the loop
            assert db.asks.answer(asked.ask_id, "2", lease_name="session:s")
            assert conversation.interrupt(None, "the person interrupted")
            events = await until_turns_end(host, "s", 2)
            assert [type(event) for event in events].count(TurnInterrupted) == 1
            assert said(db) == ["choose", "blue"]
            assert said(db, "assistant")[-1] == "noted"

    wait(scenario())


@pytest.mark.clause("I5")
def test_an_answer_whose_tool_is_cut_off_before_its_result_is_the_next_message(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [Call("ask"), "noted"], tools=[asker(hold)]) as host:
            await host.send("s", "choose")
            asked = await first(host, QuestionAsked)
            assert await host.answer("s", asked.ask_id, "red")
            await hold.reached.wait()
            assert await host.interrupt("s")
            await until_turns_end(host, "s", 2)
            assert said(db) == ["choose", "red"]

    wait(scenario())


@pytest.mark.clause("I5")
def test_an_answer_in_the_moment_the_program_ends_waits_for_the_next_start(
    store_url: str, other_db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        hold = Hold()
        with SessionDB.open(store_url) as db:
            async with a_host(db, [Call("ask")], tools=[asker(hold)]) as host:
                await host.send("s", "choose")
                asked = await first(host, QuestionAsked)
                assert await host.answer("s", asked.ask_id, "red")
                await hold.reached.wait()
        assert [each.message["content"] for each in other_db.inbox.waiting("s")] == ["red"]

    wait(scenario())


@pytest.mark.slow
@pytest.mark.clause("I5")
def test_a_killed_process_leaves_no_ask_open_and_what_it_was_answered_waits(
    store_url: str, tmp_path: Path, other_db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        async with host_processes(store_url, tmp_path) as start:
            a = await start(lease=1.0)
            await a.do("send", session_id="s", text="ask which one?")
            await until(lambda: bool(other_db.asks.open("s")))
            (ask,) = other_db.asks.open("s")
            await a.kill()
            await until(lambda: other_db.asks.open("s") == [])
            assert not other_db.asks.answer(ask.id, "too late", lease_name="session:s")
            b = await start(lease=1.0)
            await b.do("commands.drop", session_id="s")
            assert other_db.asks.of_turn(ask.turn_id) == []

            await b.do("send", session_id="s", text="ask and which now?")
            await until(lambda: bool(other_db.asks.open("s")))
            (ask,) = other_db.asks.open("s")
            # Accepted by the store, and its process dies before it has looked there.
            assert other_db.asks.answer(ask.id, "the blue one", lease_name="session:s")
            await b.kill()
            heard = [m for m in other_db.get_messages("s") if m["role"] == "tool"]
            if "the blue one" not in str(heard):
                c = await start(lease=1.0)
                await until(lambda: other_db.session_holder("s") is None)
                await c.do("commands.drop", session_id="s")
                waiting = [each.message["content"] for each in other_db.inbox.waiting("s")]
                assert waiting == ["the blue one"]
                await c.close()

    wait(scenario())


class Late:
    """A record in which an answer was accepted just before the ask's time ran out."""

    async def opened(self, asked: object) -> None:
        pass

    async def closed(self, ask_id: str) -> str | None:
        return "in the last moment"


def test_an_answer_accepted_before_the_time_ran_out_counts(wait: Wait) -> None:
    from holdfast.tools.open_questions import OpenQuestions

    async def scenario() -> None:
        events: list[Event] = []
        questions = OpenQuestions(0.01, Late())
        asked = QuestionAsked(
            session_id="s", turn_id="t", call_id="c", ask_id="a", question="?", choices=(), seconds=0.01
        )
        assert await questions.ask(asked, events.append) == "in the last moment"
        assert isinstance(events[-1], AskClosed)
        assert events[-1].outcome == "answered: in the last moment"

    wait(scenario())
