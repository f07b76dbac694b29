"""`Host.ask`, `Host.start_turn` and `Host.follow`: one message, its own turn, and its answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.errors import ModelUnreachable, TurnError
from holdfast.core.events import SessionSnapshot, TextDelta, TurnStarted
from holdfast.host import AskOptions
from holdfast.sessions import SessionDB
from holdfast.testing import Call
from holdfast.tools.contract import ApprovalRequest, ToolContext
from tests.agent.agent_fixtures import Hold, a_tool, until
from tests.host.host_fixtures import QUICK, a_host, until_turns_end

Wait = Callable[[Awaitable[Any]], Any]


@pytest.fixture
def other_db(store_url: str) -> Iterator[SessionDB]:
    """The same store as another process has it."""
    with SessionDB.open(store_url) as opened:
        yield opened


def test_the_first_message_begins_the_session_and_the_next_goes_on_in_it(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, ["Hello.", "Again."]) as host:
            first = await host.ask("monday", "hi")
            second = await host.ask("monday", "once more")
            assert (first.final_response, second.final_response) == ("Hello.", "Again.")
            assert not first.interrupted
            assert first.session_id == second.session_id == "monday"
            assert len(db.get_messages("monday")) == 4

    wait(scenario())


def test_a_turn_that_fails_raises_the_kind_of_its_error(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, [ModelUnreachable("m", "it is off")]) as host:
            with pytest.raises(TurnError, match="The message is kept") as raised:
                await host.ask("s", "hi")
        assert raised.value.kind is ModelUnreachable

    wait(scenario())


def test_the_events_of_a_message_before_it_are_left_out(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold("first")
        async with a_host(db, [hold, "second"]) as host:
            await host.send("s", "one")
            await hold.reached.wait()
            turn = await host.start_turn("s", "two")
            hold.opened.set()
            async with aclosing(turn.events()) as events:
                seen = [event async for event in events]
        (started,) = [event for event in seen if isinstance(event, TurnStarted)]
        assert (started.text, started.turn_id) == ("two", turn.turn_id)
        assert [event.text for event in seen if isinstance(event, TextDelta)] == ["second"]
        assert turn.end is seen[-1]

    wait(scenario())


@pytest.mark.clause("I1")
def test_cancelled_while_its_message_waits_it_takes_the_message_back(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold]) as host:
            running = await host.send("s", "one")
            await hold.reached.wait()
            asking = asyncio.create_task(host.ask("s", "two"))
            await until(lambda: len(db.inbox.waiting("s")) == 1)
            asking.cancel()
            await until(lambda: db.inbox.waiting("s") == [])
            hold.opened.set()
            await until_turns_end(host, "s")
            kept = db.inbox.get(running.inbox_id)
            assert kept is not None
            assert db.turns.get(kept.turn_id or "").state == "completed"  # type: ignore[union-attr]

    wait(scenario())


def test_cancelled_while_its_turn_runs_it_stops_the_turn(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold]) as host:
            asking = asyncio.create_task(host.ask("s", "hi"))
            await hold.reached.wait()
            asking.cancel()
            await hold.left.wait()
            await until(lambda: db.turns.running("s") is None)
            assert [each["content"] for each in db.get_messages("s") if each["role"] == "user"] == ["hi"]

    wait(scenario())


def test_a_turn_of_another_process_is_found_by_its_message(
    db: SessionDB, other_db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        first, second = Hold("one"), Hold("two")
        async with a_host(db, [first, second]) as here, a_host(other_db) as there:
            await here.send("s", "the same words")
            await first.reached.wait()
            asking = asyncio.create_task(there.ask("s", "the same words"))
            await until(lambda: len(db.inbox.waiting("s")) == 1)
            first.opened.set()
            await second.reached.wait()
            second.opened.set()
            assert (await asking).final_response == "two"

    wait(scenario())


def test_a_turn_of_another_process_is_stopped_when_its_asker_leaves(
    db: SessionDB, other_db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        first, second = Hold(), Hold()
        async with a_host(db, [first, second]) as here, a_host(other_db) as there:
            await here.send("s", "one")
            await first.reached.wait()
            asking = asyncio.create_task(there.ask("s", "two"))
            await until(lambda: len(db.inbox.waiting("s")) == 1)
            first.opened.set()
            await second.reached.wait()
            asking.cancel()
            await second.left.wait()
            await until(lambda: db.turns.running("s") is None)

    wait(scenario())


@pytest.mark.parametrize("session_id", ["s", "another"])
def test_the_same_key_again_gives_the_same_answer(db: SessionDB, wait: Wait, session_id: str) -> None:
    async def scenario() -> None:
        options = AskOptions(key="k", new=session_id != "s")
        async with a_host(db, ["Once.", "Twice."]) as host:
            first = await host.ask("s", "hi", options)
            assert await host.ask(session_id, "hi", options) == first
            assert first.final_response == "Once."
            assert len(db.get_messages("s")) == 2

    wait(scenario())


def test_the_same_key_joins_a_turn_that_runs(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold("Once.")
        async with a_host(db, [hold]) as host:
            first = asyncio.create_task(host.ask("s", "hi", AskOptions(key="k")))
            await hold.reached.wait()
            turn = await host.start_turn("s", "hi", AskOptions(key="k"))
            second = asyncio.create_task(turn.result())
            await until(lambda: bool(turn.turn_id))
            hold.opened.set()
            assert (await first).turn_id == (await second).turn_id
            assert (await second).final_response == "Once."

    wait(scenario())


def test_a_reader_that_missed_the_end_gets_it_from_the_store(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, ["One.", "Two.", "Three."], options=replace(QUICK, replay=3)) as host:
            turn = await host.start_turn("s", "hi")
            await until_turns_end(host, "s")
            for text in ("again", "and again"):
                await host.ask("s", text)
            assert (await turn.result()).final_response == "One."

    wait(scenario())


def test_nobody_is_there_to_allow_anything(db: SessionDB, wait: Wait) -> None:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> str:
        allowed = await context.person.approve(ApprovalRequest("make install", "command"))
        return f"{allowed}, {await context.person.answer('which?', [])}"

    async def scenario() -> None:
        async with a_host(db, [Call("try"), "I may not."], tools=[a_tool("try", run)]) as host:
            assert (await host.ask("s", "go")).final_response == "I may not."
            (result,) = [each["content"] for each in db.get_messages("s") if each["role"] == "tool"]
            assert result == "False, Nobody is there to answer."

    wait(scenario())


def test_a_request_to_stop_interrupts_its_own_turn_alone(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold, again, stop = Hold(), Hold(), asyncio.Event()
        async with a_host(db, [hold, again]) as host:
            await host.send("s", "one")
            await hold.reached.wait()
            waiting = await host.start_turn("s", "two", AskOptions(stop=stop))
            stop.set()
            async with aclosing(waiting.events()) as events:
                assert [type(event).__name__ async for event in events] == ["MessageAccepted"]
            assert waiting.end is None
            assert not hold.left.is_set()
            hold.opened.set()
            await again.reached.wait()
            await waiting.interrupt()
            await again.left.wait()

    wait(scenario())


def test_a_turn_that_is_stopped_says_that_it_was_interrupted(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold, stop = Hold(), asyncio.Event()
        async with a_host(db, [hold]) as host:
            asking = asyncio.create_task(host.ask("s", "hi", AskOptions(stop=stop)))
            await hold.reached.wait()
            stop.set()
            assert (await asking).interrupted

    wait(scenario())


def test_follow_gives_a_snapshot_and_then_plain_events(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, ["Hello."]) as host:
            await host.new_session(session_id="s")
            async with aclosing(host.follow("s")) as events:
                assert isinstance(await anext(events), SessionSnapshot)
                await host.send("s", "hi")
                kinds = [type(await anext(events)).__name__ for _ in range(3)]
            assert kinds[:2] == ["MessageAccepted", "TurnStarted"]

    wait(scenario())
