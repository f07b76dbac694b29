"""A person sets conversations in order through the host: titles, pins, archive, deletion, what waits."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from holdfast.core.errors import (
    ImportRefused,
    InvalidInput,
    NotWaiting,
    SessionBusy,
    SessionElsewhere,
    SessionNotFound,
    StillOwed,
    TurnAlreadyRunning,
)
from holdfast.core.events import ApprovalAsked, Event, QuestionAsked
from holdfast.host import HostOptions, OpenAsk
from holdfast.memory import MemoryManager
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from holdfast.testing.providers import RecordingProvider
from holdfast.testing.scripted_model import Call
from holdfast.tools.contract import ApprovalRequest, Tool, ToolContext, ToolResult
from tests.agent.agent_fixtures import Hold, until
from tests.host.host_fixtures import ENDS, a_host, until_turns_end
from tests.memory.gates import Gate

Wait = Callable[[Awaitable[Any]], Any]
IMPATIENT = HostOptions(poll_seconds=0.02, shutdown_seconds=2.0, patience_seconds=0.1)


def test_titles_pins_and_the_archive_show_in_the_list(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db) as host:
            one, two = await host.new_session(title="first"), await host.new_session()
            await host.records.rename(two, "second")
            await host.records.pin(one, pinned=True)
            assert {each.session.title for each in await host.records.sessions()} == {"first", "second"}
            assert [each.root_id for each in await host.records.sessions(pinned=True)] == [one]
            await host.records.archive(one, archived=True)
            assert [each.root_id for each in await host.records.sessions()] == [two]
            assert [each.root_id for each in await host.records.sessions(archived=True)] == [one]
            assert len(await host.records.sessions(archived=None)) == 2
            await host.records.archive(one, archived=False)
            await host.records.rename(two, "")
            assert (await host.records.session(two)).session.title is None
            for call in (host.records.pin, host.records.archive):
                with pytest.raises(SessionNotFound):
                    await call("nowhere", True)
            with pytest.raises(SessionNotFound):
                await host.records.rename("nowhere", "x")
            with pytest.raises(InvalidInput):
                await host.records.rename(one, "half a pair \ud800")

    wait(scenario())


def test_messages_are_read_a_page_at_a_time_in_the_live_session_or_the_very_one(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        async with a_host(db) as host:
            db.create_session("s", source="test")
            for number in range(6):
                db.sessions.append_message("s", {"role": "user", "content": str(number)})
            db.rotate("s", "child", [{"role": "user", "content": "summary"}], carry_from=4)

            async def page(**which: Any) -> list[Any]:  # noqa: ANN401
                return [each.message["content"] for each in await host.records.messages("s", **which)]

            assert await page() == ["summary", "4", "5"]
            assert await page(limit=2) == ["4", "5"]
            assert await page(before=2, limit=1) == ["4"]
            assert await page(after=0, limit=1) == ["4"]
            assert await page(exact=True, before=3, limit=2) == ["1", "2"]
            assert await page(exact=True, after=-1, limit=2) == ["0", "1"]
            assert [each.id for each in await host.records.lineage("child")] == ["s", "child"]
            with pytest.raises(InvalidInput):
                await page(before=1, after=1)
            with pytest.raises(SessionNotFound):
                await host.records.messages("nowhere", exact=True)

    wait(scenario())


def test_a_deleted_conversation_is_gone_for_its_readers_and_can_begin_anew(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db) as host:
            await host.send("s", "hello")
            await until_turns_end(host, "s")
            reading = asyncio.create_task(_all(host.events("s")))
            await until(lambda: not reading.done())
            await host.delete("s")
            await asyncio.wait_for(reading, 5)
            assert db.get_session("s") is None
            assert await host.records.sessions() == []
            with pytest.raises(SessionNotFound):
                await host.records.messages("s")
            await host.send("s", "hello again")
            await until_turns_end(host, "s")
            assert len(db.get_messages("s")) == 2
            assert db.check() == []

    wait(scenario())


async def _all(events: Any) -> list[Any]:  # noqa: ANN401
    return [each async for each in events]


def test_a_conversation_that_another_process_deleted_begins_anew(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, ["one", "two"]) as host:
            await host.send("s", "first")
            await until_turns_end(host, "s")
            await until(lambda: db.session_holder("s") is None)
            db.delete_session("s", force=True)
            await host.send("s", "second")
            await until(lambda: [m["content"] for m in db.get_messages("s")] == ["second", "two"])

    wait(scenario())


def test_nothing_of_a_deleted_conversation_is_said_in_the_next_one_of_its_name(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        model = ScriptedModel(["one", "two"])
        async with a_host(db, lambda _: model) as host:
            await host.send("s", "deleted")
            await until_turns_end(host, "s")
            await until(lambda: db.session_holder("s") is None)
            # Another process deletes it, and begins it again: it is as long as before.
            db.delete_session("s", force=True)
            db.create_session("s", source="test")
            turn = db.turns.open("s", {"role": "user", "content": "kept"})
            db.turns.complete(turn.id, {"role": "assistant", "content": "yes"})
            await host.send("s", "second")
            await until(lambda: len(db.get_messages("s")) == 4)
            said = [each["content"] for each in model.requests[-1].messages if each["role"] == "user"]
            assert said == ["kept", "second"]

    wait(scenario())


def test_a_conversation_is_not_deleted_while_its_turn_runs_here_or_elsewhere(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold], options=IMPATIENT) as host:
            await host.send("s", "wait")
            await hold.reached.wait()
            with pytest.raises(TurnAlreadyRunning):
                await host.delete("s", force=True)
            await host.interrupt("s")
            await until_turns_end(host, "s")
            await host.new_session(session_id="theirs")
            assert db.hold_session("theirs", "another process") is not None
            with pytest.raises(SessionElsewhere, match="another process"):
                await host.delete("theirs", force=True)
            assert len(await host.records.sessions()) == 2
            await host.delete("s")
            assert [each.root_id for each in await host.records.sessions()] == ["theirs"]

    wait(scenario())


def test_a_turn_that_a_crash_left_does_not_keep_its_conversation(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        db.create_session("s", source="test")
        db.turns.open("s", {"role": "user", "content": "cut off"})
        async with a_host(db) as host:
            assert (await host.overview.session_status("s")).state == "unfinished"
            await host.delete("s")
            assert await host.records.sessions() == []

    wait(scenario())


def test_what_waits_keeps_a_conversation_and_runs_as_before(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        db.create_session("s", source="test")
        db.inbox.put("s", {"role": "user", "content": "left behind"})
        async with a_host(db) as host:
            with pytest.raises(SessionBusy, match="1 messages wait"):
                await host.delete("s")
            assert [each.message["content"] for each in await host.records.waiting("s")] == ["left behind"]
            await host.commands.run_waiting("s")
            await until_turns_end(host, "s")
            await host.delete("s")

    wait(scenario())


def test_what_memory_is_owed_is_waited_for_then_a_refusal_unless_forced(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        gate = Gate()
        provider = RecordingProvider()
        provider.before = gate
        memory = MemoryManager(db, drain_seconds=1.0)
        memory.add_provider(provider)
        async with a_host(db, memory=memory, options=IMPATIENT) as host:
            await host.send("s", "hello")
            await until_turns_end(host, "s")
            with pytest.raises(StillOwed, match="1 turn to "):
                await host.delete("s")
            assert len(await host.records.messages("s")) == 2
            deleting = asyncio.create_task(host.delete("s", force=True))
            await deleting
            assert await host.records.sessions() == []
            await host.send("t", "hello")
            await until_turns_end(host, "t")
            gate.open()
            await host.delete("t")
            assert db.check() == []

    wait(scenario())


def test_a_deleted_conversation_is_owed_to_no_boundary(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        host = a_host(db)
        async with host:
            await host.send("s", "hello")
            await until_turns_end(host, "s")
            assert db.sessions.uncommitted() == ["s"]
            await host.delete("s")
            assert await host.close() == []

    wait(scenario())


def test_a_waiting_message_is_replaced_until_a_turn_takes_it(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold, "second"]) as host:
            await host.send("s", "first")
            await hold.reached.wait()
            accepted = await host.send("s", "secnd")
            changed = await host.replace_waiting(accepted.inbox_id, "second?")
            assert changed.message["content"] == "second?"
            with pytest.raises(InvalidInput):
                await host.replace_waiting(accepted.inbox_id, "")
            hold.opened.set()
            await until_turns_end(host, "s", 2)
            assert db.get_messages("s")[2]["content"] == "second?"
            with pytest.raises(NotWaiting):
                await host.replace_waiting(accepted.inbox_id, "third")

    wait(scenario())


@pytest.mark.clause("I2")
def test_a_waiting_message_that_becomes_an_interrupt_stops_the_turn(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold, "on it"]) as host:
            await host.send("s", "first")
            await hold.reached.wait()
            accepted = await host.send("s", "stop")
            await host.replace_waiting(accepted.inbox_id, "stop now", "interrupt")
            events = await until_turns_end(host, "s", 2)
            ends = [type(event).__name__ for event in events if isinstance(event, ENDS)]
            assert ends == ["TurnInterrupted", "TurnCompleted"]
            assert db.get_messages("s")[-2]["content"] == "stop now"

    wait(scenario())


def test_what_a_turn_asks_is_listed_until_it_is_answered(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async def risky(context: ToolContext, _: dict[str, Any]) -> ToolResult:
            allowed = await context.person.approve(
                ApprovalRequest(subject="rm -r x", kind="command", reason="it deletes")
            )
            answer = await context.person.answer("which?", ("a", "b"))
            return ToolResult(f"{allowed} {answer}")

        tool = Tool("risky", "does it", {"type": "object", "properties": {}}, risky)
        async with a_host(db, [Call("risky"), "done"], tools=[tool]) as host:
            await host.new_session(session_id="s")
            assert await host.overview.asks("s") == []
            await host.send("s", "go")

            async def asked(kind: type[Event]) -> OpenAsk:
                async with aclosing(host.events("s", after=0)) as events:
                    async for numbered in events:
                        if isinstance(numbered.event, kind):
                            break
                [ask] = await host.overview.asks("s")
                return ask

            approval = await asked(ApprovalAsked)
            assert approval.kind == "approval"
            assert (approval.subject, approval.subject_kind) == ("rm -r x", "command")
            assert 0 < approval.seconds_left <= 600
            status = await host.overview.session_status("s")
            assert (status.asking, status.state) == (1, "running")
            assert await host.approve("s", approval.ask_id, "yes")
            question = await asked(QuestionAsked)
            assert (question.question, question.choices) == ("which?", ("a", "b"))
            assert await host.answer("s", question.ask_id, "b")
            await until_turns_end(host, "s")
            assert await host.overview.asks("s") == []
            assert db.get_messages("s")[2]["content"] == "True b"

    wait(scenario())


def test_an_exported_conversation_comes_back_through_the_host(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db) as host:
            await host.send("s", "hello")
            await until_turns_end(host, "s")
            lines = await host.records.export("s")
            await host.delete("s")
            assert await host.records.import_session(lines) == "s"
            assert await host.records.export("s") == lines
            with pytest.raises(ImportRefused):
                await host.records.import_session(["{}"])

    wait(scenario())
