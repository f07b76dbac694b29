"""A host that recovers by itself: what a dead process left is gone on with or closed, by a rule, and said."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.core.contract import Message
from holdfast.core.events import ApprovalAsked, TurnInterrupted, TurnResumed
from holdfast.host import AfterCrash, HostOptions
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from holdfast.tools.contract import Tool
from tests.agent.agent_fixtures import a_tool, until
from tests.host.host_fixtures import a_host, until_turns_end
from tests.host.transcripts import said

Wait = Callable[[Awaitable[Any]], Any]


def options(rule: AfterCrash) -> HostOptions:
    return HostOptions(poll_seconds=0.02, shutdown_seconds=3.0, after_crash=rule)


def a_call(tool: str) -> Message:
    call = {"id": "c1", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}  # type: ignore[list-item]


def cut_off(db: SessionDB, session: str, *waiting: str, tool: str = "") -> str:
    """A turn as a killed process leaves it, and what waits behind it."""
    db.create_session(session, source="test")
    turn = db.turns.open(session, {"role": "user", "content": "cut off"})
    if tool:
        db.turns.append(turn.id, [a_call(tool)])
    for word in waiting:
        db.inbox.put(session, {"role": "user", "content": word})
    return turn.id


def a_look() -> Tool:
    """A tool that changes nothing."""

    async def run(*_: object) -> str:
        return "seen"

    tool = a_tool("look", run)
    return Tool(tool.name, tool.description, tool.parameters, tool.run, changes=False)


def words(db: SessionDB, session: str, role: str) -> list[str]:
    return [str(text) for who, text in said(db, session) if who == role]


@pytest.mark.clause("I7", "D10")
def test_a_start_resumes_what_was_cut_off_and_then_runs_what_waits_in_order(
    db: SessionDB, wait: Wait
) -> None:
    turn = cut_off(db, "s", "second", "third")
    db.create_session("t", source="test")
    db.inbox.put("t", {"role": "user", "content": "only waiting"})

    async def scenario() -> None:
        def model(_: str) -> ScriptedModel:
            return ScriptedModel(["one", "two", "three"])

        async with a_host(db, model, options=options("resume")) as host:
            await until(lambda: words(db, "s", "assistant") == ["one", "two", "three"])
            await until(lambda: words(db, "t", "assistant") == ["one"])
            assert words(db, "s", "user") == ["cut off", "second", "third"]
            resumed = db.turns.get(turn)
            assert resumed is not None
            assert resumed.state == "completed"
            events = await until_turns_end(host, "s", 3)
            assert [e.text for e in events if isinstance(e, TurnResumed)] == ["cut off"]

    wait(scenario())


@pytest.mark.clause("I7")
@pytest.mark.parametrize(
    ("rule", "tool", "word"),
    [
        ("resume", "write", "its process ended while write ran, which may have taken effect"),
        ("resume", "unknown", "its process ended while unknown ran, which may have taken effect"),
        ("close", "", "its process ended in the middle of this turn"),
    ],
)
def test_what_may_not_be_resumed_is_closed_with_an_honest_word_and_what_waits_runs(
    db: SessionDB, wait: Wait, rule: AfterCrash, tool: str, word: str
) -> None:
    cut_off(db, "s", "next", tool=tool)

    async def scenario() -> None:
        async def write(*_: object) -> str:
            raise AssertionError("nothing is run again")

        tools = [a_tool("write", write), a_look()]
        async with a_host(db, ["answer"], tools=tools, options=options(rule)) as host:
            events = await until_turns_end(host, "s", 2)
            [closed] = [e for e in events if isinstance(e, TurnInterrupted)]
            assert closed.reason.startswith(word)
            ended = db.turns.get(closed.turn_id)
            assert ended is not None
            assert ended.reason == closed.reason
            assert f"[cut off here: {closed.reason}]" in words(db, "s", "assistant")
            assert said(db, "s")[-2:] == [("user", "next"), ("assistant", "answer")]

    wait(scenario())


@pytest.mark.clause("I7")
def test_an_open_call_that_changes_nothing_does_not_keep_a_turn_from_being_resumed(
    db: SessionDB, wait: Wait
) -> None:
    turn = cut_off(db, "s", tool="look")

    async def scenario() -> None:
        async with a_host(db, ["done"], tools=[a_look()], options=options("resume")) as host:
            await until_turns_end(host, "s")
            ended = db.turns.get(turn)
            assert ended is not None
            assert ended.state == "completed"
            assert "No result is on record" in words(db, "s", "tool")[0]

    wait(scenario())


@pytest.mark.clause("I7")
def test_a_call_that_still_waited_for_its_approval_has_not_begun_and_its_turn_is_resumed(
    db: SessionDB, wait: Wait
) -> None:
    turn = cut_off(db, "s", tool="write")
    lease = db.hold_session("s", "a process that died")
    assert lease is not None
    asked = ApprovalAsked(
        session_id="s",
        turn_id=turn,
        ask_id="a1",
        call_id="c1",
        subject="f",
        subject_kind="write",
        reason="",
        destructive=False,
        seconds=600,
    )
    db.asks.put("a1", turn, asked.to_json(), lease=lease)
    db.let_go_of_session("s", "a process that died")

    async def scenario() -> None:
        async def write(*_: object) -> str:
            raise AssertionError("nothing is run again")

        tools = [a_tool("write", write)]
        async with a_host(db, ["done"], tools=tools, options=options("resume")) as host:
            await until_turns_end(host, "s")
            ended = db.turns.get(turn)
            assert ended is not None
            assert ended.state == "completed"
            assert await host.overview.asks("s") == []

    wait(scenario())


@pytest.mark.clause("I7")
def test_a_turn_that_ends_its_process_each_time_is_resumed_three_times_and_then_closed(
    db: SessionDB, wait: Wait
) -> None:
    turn = cut_off(db, "s", "next")
    for _ in range(3):
        db.turns.resume(turn)

    async def scenario() -> None:
        async with a_host(db, ["answer"], options=options("resume")) as host:
            events = await until_turns_end(host, "s", 2)
            [closed] = [e for e in events if isinstance(e, TurnInterrupted)]
            assert closed.reason == "its process ended 4 times in this turn; it was not tried again"
            assert words(db, "s", "assistant")[-1] == "answer"

    wait(scenario())


@pytest.mark.clause("I7", "I2")
def test_a_cut_off_turn_that_was_interrupted_is_closed_and_the_interrupt_is_next(
    db: SessionDB, wait: Wait
) -> None:
    turn = cut_off(db, "s")
    db.inbox.put("s", {"role": "user", "content": "stop"}, mode="interrupt", addressed_to=turn)

    async def scenario() -> None:
        async with a_host(db, ["stopped"], options=options("resume")) as host:
            events = await until_turns_end(host, "s", 2)
            [closed] = [e for e in events if isinstance(e, TurnInterrupted)]
            assert closed.reason == "the person interrupted"
            assert said(db, "s")[-2:] == [("user", "stop"), ("assistant", "stopped")]

    wait(scenario())


@pytest.mark.clause("I7")
def test_a_new_message_to_a_cut_off_turn_waits_until_that_one_is_resumed(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, ["first", "second"], options=options("resume")) as host:
            await until(lambda: host._recovery.done)  # noqa: SLF001
            # Left by a process that dies while this one runs: no look has found it yet.
            cut_off(db, "s")
            await host.send("s", "new")
            await until(lambda: words(db, "s", "assistant") == ["first", "second"])
            assert words(db, "s", "user") == ["cut off", "new"]

    wait(scenario())


@pytest.mark.clause("I7")
def test_where_a_person_is_asked_a_new_message_closes_the_turn_with_a_word_and_resume_runs_what_waits(
    db: SessionDB, wait: Wait
) -> None:
    cut_off(db, "s")
    cut_off(db, "t", "behind it")

    async def scenario() -> None:
        def model(_: str) -> ScriptedModel:
            return ScriptedModel(["one", "two"])

        async with a_host(db, model) as host:
            await host.send("s", "new")
            await until_turns_end(host, "s", 2)
            word = "[cut off here: its process ended in the middle of this turn]"
            assert words(db, "s", "assistant") == [word, "one"]
            await host.commands.resume("t")
            await until(lambda: words(db, "t", "assistant") == ["one", "two"])
            assert words(db, "t", "user") == ["cut off", "behind it"]

    wait(scenario())


@pytest.mark.clause("I7")
def test_a_host_that_recovers_offers_nothing_and_says_that_the_turn_is_not_run_here(
    db: SessionDB, wait: Wait
) -> None:
    cut_off(db, "s")
    # Another process has it, and nobody can prove that this one died.
    assert db.hold_session("s", "a process of another machine") is not None

    async def scenario() -> None:
        async with a_host(db, ["one"], options=options("resume")) as host:
            await until(lambda: host._recovery.done)  # noqa: SLF001
            assert (await host.overview.session_status("s")).state == "elsewhere"
            assert await host.commands.unfinished("s") is None
            db.let_go_of_session("s", "a process of another machine")
            assert (await host.overview.session_status("s")).state in ("elsewhere", "running", "idle")
            await until(lambda: words(db, "s", "assistant") == ["one"])

    wait(scenario())


@pytest.mark.clause("I7")
def test_the_subagents_of_a_turn_that_is_taken_over_are_closed(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, ["one"], options=options("resume")) as host:
            await until(lambda: host._recovery.done)  # noqa: SLF001
            cut_off(db, "s")
            db.create_session("child", source="delegate", parent="s", relation="delegate")
            child = db.turns.open("child", {"role": "user", "content": "count"})
            await until(lambda: words(db, "s", "assistant") == ["one"])
            ended = db.turns.get(child.id)
            assert ended is not None
            assert ended.state == "interrupted"

    wait(scenario())
