"""What a start finds of a turn that lost its process, and how a person goes on with it."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from holdfast.core.events import (
    SessionSnapshot,
    TurnCompleted,
    TurnInterrupted,
    TurnUnfinished,
)
from holdfast.host import HostOptions, SessionHost
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from tests.agent.agent_fixtures import until
from tests.host.host_fixtures import a_host, until_turns_end
from tests.host.transcripts import said

Wait = Callable[[Awaitable[Any]], Any]


@pytest.mark.clause("D10", "I1")
def test_a_start_offers_the_cut_off_turn_and_runs_no_waiting_message_by_itself(
    db: SessionDB, wait: Wait
) -> None:
    db.create_session("s", source="test")
    turn = db.turns.open("s", {"role": "user", "content": "cut off"})
    db.inbox.put("s", {"role": "user", "content": "waiting"})
    db.create_session("t", source="test")
    db.inbox.put("t", {"role": "user", "content": "waiting too"})

    async def scenario() -> None:
        async with a_host(db, lambda _: ScriptedModel(["one", "two", "three"])) as host:
            reading = host.events("s", after=0)
            async for numbered in reading:
                if isinstance(numbered.event, TurnUnfinished):
                    assert numbered.event.turn_id == turn.id
                    break
            await until(lambda: host._recovery.done)  # noqa: SLF001
            # Reading, and looking at how it stands, runs nothing.
            assert (await host.overview.session_status("s")).state == "unfinished"
            status = await host.overview.status()
            assert (sorted(status.waiting), status.unfinished) == (["s", "t"], ["s"])
            await host.commands.resume("s")
            assert said(db, "s")[:2] == [("user", "cut off"), ("assistant", "one")]
            # A person who decides about the turn means what waits behind it too.
            await until(lambda: len(db.get_messages("s")) == 4)
            await reading.aclose()
            assert len(await host.records.waiting("t")) == 1
            # A person who speaks there means the earlier words too.
            await host.send("t", "and this")
            await until_turns_end(host, "t", 2)
            assert [text for role, text in said(db, "t") if role == "user"] == ["waiting too", "and this"]

    wait(scenario())


@pytest.mark.clause("D10")
def test_a_cut_off_turn_is_not_shown_as_one_that_runs_elsewhere(db: SessionDB, wait: Wait) -> None:
    db.create_session("s", source="test")
    db.turns.open("s", {"role": "user", "content": "cut off"})

    async def scenario() -> None:
        async with a_host(db) as host, aclosing(host.events("s", after=0)) as stream:
            assert isinstance((await anext(stream)).event, TurnUnfinished)
            # Another process stores a message: once it is counted, this host has looked at what others do.
            db.inbox.put("s", {"role": "user", "content": "from elsewhere"})
            while (shown := await snapshot(host)).waiting == 0:
                await until(lambda: True)
            assert shown.turn_id == ""
            assert (await host.overview.session_status("s")).state == "unfinished"

    async def snapshot(host: SessionHost) -> SessionSnapshot:
        async with aclosing(host.events("s")) as stream:
            event = (await anext(stream)).event
            assert isinstance(event, SessionSnapshot)
            return event

    wait(scenario())


@pytest.mark.clause("D10")
def test_a_host_that_takes_over_closes_the_cut_off_turn_and_runs_what_waits(
    db: SessionDB, wait: Wait
) -> None:
    db.create_session("s", source="test")
    db.turns.open("s", {"role": "user", "content": "cut off"})
    db.inbox.put("s", {"role": "user", "content": "waiting"})

    async def scenario() -> None:
        options = HostOptions(poll_seconds=0.02, after_crash="close")
        async with a_host(db, ["one"], options=options) as host:
            events = await until_turns_end(host, "s", 2)
            ends = [e for e in events if isinstance(e, (TurnInterrupted, TurnCompleted))]
            assert [type(end).__name__ for end in ends] == ["TurnInterrupted", "TurnCompleted"]
            roles = [role for role, _ in said(db, "s")]
            assert roles == ["user", "assistant", "user", "assistant"]

    wait(scenario())


def test_dropping_a_cut_off_turn_says_so_and_clearing_does_it_too(db: SessionDB, wait: Wait) -> None:
    for session in ("s", "t", "r"):
        db.create_session(session, source="test")
        db.turns.open(session, {"role": "user", "content": "cut off"})

    async def scenario() -> None:
        async with a_host(db, ["again"]) as host:
            await host.commands.drop("s")
            assert isinstance((await until_turns_end(host, "s"))[-1], TurnInterrupted)
            assert await host.commands.unfinished("s") is None
            assert await host.commands.clear("t") != "t"
            assert await host.commands.retry("r") == "r"
            await until_turns_end(host, "r", 2)
            assert said(db, "r")[-2:] == [("user", "cut off"), ("assistant", "again")]

    wait(scenario())
