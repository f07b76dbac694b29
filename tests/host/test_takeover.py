"""A server takes over what a dead process left, and leaves what a living one goes on with."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent import AgentOptions, SessionAgent
from holdfast.core.clock import SystemClock
from holdfast.core.errors import InvalidInput, LeaseLost
from holdfast.core.events import (
    SessionMoved,
    SessionSnapshot,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnUnfinished,
)
from holdfast.host import HostOptions, SessionHost
from holdfast.host.contract import Numbered
from holdfast.host.holders import FORGOTTEN_LEASES, ExpiredLeases
from holdfast.process import holder_name
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Lease
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing import FakeClock, ScriptedModel
from tests.agent.agent_fixtures import HoldingEngine, until
from tests.host.host_fixtures import ENDS, a_host, until_recovered, until_turns_end
from tests.host.host_processes import Start, host_processes
from tests.host.test_pauses import locked_by_another_program
from tests.host.test_two_processes import sound
from tests.host.transcripts import said
from tests.sessions.store_fixtures import assistant, hold_lease, user

Wait = Callable[[Awaitable[Any]], Any]
RESUMES = HostOptions(poll_seconds=0.02, shutdown_seconds=3.0, after_crash="resume")
LEASE = 4.0


def left_by(db: SessionDB, holder: str, seconds: float = 0.01) -> str:
    """A turn that this holder runs, whose lease runs out and is not renewed."""
    db.create_session("s", source="test")
    lease = hold_lease(db, "session:s", holder, ttl_seconds=seconds)
    return db.turns.under(lease).open("s", {"role": "user", "content": "hello"}).id


async def look(host: SessionHost) -> bool:
    """Let the host look once; whether it goes on with the conversation."""
    takeover = host._recovery._takeover  # noqa: SLF001
    assert takeover is not None
    await takeover.look()
    return "s" in host._conversations.opened  # noqa: SLF001


@pytest.mark.clause("I7")
def test_a_lease_that_ran_out_is_left_for_one_more_to_a_holder_that_lives_on_this_machine(
    db: SessionDB, wait: Wait
) -> None:
    left_by(db, holder_name())

    async def scenario() -> None:
        await until(lambda: db.leases.current("session:s") is None)
        clock = FakeClock()
        async with a_host(db, ["one"], options=RESUMES, agent_options=AgentOptions(clock=clock)) as host:
            for _ in range(3):
                assert not await look(host)
                clock.advance(db.lease_seconds / 3 + 0.1)
            await look(host)
            await until(lambda: said(db, "s")[-1] == ("assistant", "one"))

    wait(scenario())


@pytest.mark.clause("I7")
def test_of_two_looks_at_once_the_first_to_see_that_a_lease_ran_out_counts(wait: Wait) -> None:
    async def scenario() -> None:
        engine = HoldingEngine(SqliteEngine(":memory:", clock=SystemClock(), patience=5.0))
        with SessionDB.on(engine) as db:
            holder, clock = holder_name(), FakeClock()
            left_by(db, holder)
            await until(lambda: db.leases.current("session:s") is None)
            expired = ExpiredLeases(db, clock)
            engine.hold_next_write()
            late = asyncio.create_task(asyncio.to_thread(expired.holder_of, "s"))
            await until(engine.reached.is_set)
            assert expired.holder_of("s") == holder
            clock.advance(db.lease_seconds - 1)
            engine.opened.set()
            assert await late == holder
            clock.advance(2)
            assert expired.holder_of("s") is None

    wait(scenario())


def test_expired_leases_of_long_ago_are_not_kept_in_mind(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        me, clock = holder_name(), FakeClock()
        expired = ExpiredLeases(db, clock)
        for number in range(3):
            hold_lease(db, f"session:{number}", me, ttl_seconds=0.01)
            db.create_session(str(number), source="test")
            await until(lambda: db.leases.current(f"session:{number}") is None)  # noqa: B023
        assert expired.holder_of("0") == expired.holder_of("1") == me
        clock.advance(db.lease_seconds + 1)
        assert expired.holder_of("0") is None, "its time is over, as long as it is kept in mind"
        clock.advance(FORGOTTEN_LEASES * db.lease_seconds)
        assert expired.holder_of("2") == me
        assert list(expired._seen) == ["session:2"]  # noqa: SLF001

    wait(scenario())


@pytest.mark.clause("I7")
def test_a_host_that_stood_still_waits_until_others_that_did_have_renewed_their_leases(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        async with a_host(db, ["one"], options=RESUMES, agent_options=AgentOptions(clock=clock)) as host:
            await look(host)
            clock.advance(3600)
            left_by(db, "another machine:1:2:3:4")
            await until(lambda: db.leases.current("session:s") is None)
            assert not await look(host)
            clock.advance(db.lease_seconds / 4)
            assert not await look(host), "the others may be about to renew"
            # A look of the host's own that was under way meanwhile may have given them this time anew.
            while not await look(host):
                clock.advance(db.lease_seconds / 4)
            await until(lambda: said(db, "s")[-1] == ("assistant", "one"))

    wait(scenario())


@pytest.mark.clause("I7", "D11")
@pytest.mark.parametrize("holder", [holder_name(), "another machine:1:2:3:4"], ids=["here", "elsewhere"])
def test_no_lease_is_taken_from_a_holder_that_could_not_renew_it_while_the_store_was_locked(
    store_url: str, wait: Wait, holder: str
) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        with SessionDB.open(store_url, patience=0.2) as db:
            async with a_host(db, ["one"], options=RESUMES, agent_options=AgentOptions(clock=clock)) as host:
                await look(host)
                left_by(db, holder, seconds=1.0)
                with locked_by_another_program(store_url):
                    await until(lambda: db.leases.current("session:s") is None)
                    for _ in range(4):
                        assert not await look(host)
                        clock.advance(db.lease_seconds / 3)
                assert not await look(host), "it can be renewed only now"

    wait(scenario())


@pytest.mark.clause("I7")
def test_a_lease_of_another_machine_that_ran_out_is_taken_at_once(db: SessionDB, wait: Wait) -> None:
    left_by(db, "another machine:1:2:3:4")

    async def scenario() -> None:
        await until(lambda: db.leases.current("session:s") is None)
        async with a_host(
            db, ["one"], options=RESUMES, agent_options=AgentOptions(clock=FakeClock())
        ) as host:
            await until(lambda: said(db, "s")[-1] == ("assistant", "one"))
            assert "s" in host._conversations.opened  # noqa: SLF001

    wait(scenario())


@pytest.mark.clause("I7")
def test_a_start_offers_no_turn_and_ends_no_subagent_of_a_process_that_lives(
    db: SessionDB, wait: Wait
) -> None:
    left_by(db, holder_name())
    db.create_session("child", source="delegate", parent="s", relation="delegate")
    db.turns.open("child", {"role": "user", "content": "count"})

    async def scenario() -> None:
        await until(lambda: db.leases.current("session:s") is None)
        shown: list[object] = []
        async with a_host(db, agent_options=AgentOptions(clock=FakeClock())) as host:
            host.watch(shown.append)
            status = await until_recovered(host)
            assert not [event for event in shown if isinstance(event, TurnUnfinished)]
            assert status.unfinished == []
            assert await host.commands.unfinished("s") is None
            assert db.turns.running("child") is not None

    wait(scenario())


@pytest.mark.slow
@pytest.mark.clause("D11", "I7")
def test_a_turn_whose_process_slept_goes_on_there_beside_a_server_and_its_end_is_shown_once(
    store_url: str, tmp_path: Path, wait: Wait
) -> None:
    async def scenario() -> None:
        gate = tmp_path / "gate"
        with SessionDB.open(store_url) as db:
            async with host_processes(store_url, tmp_path) as start:
                a = await start(lease=LEASE)
                await start(lease=LEASE, host={"after_crash": "resume"})
                await a.do("new_session", session_id="s")
                await a.do("follow", session_id="s")
                await a.do("send", session_id="s", text=f"hold {gate}")
                await until(lambda: db.session_holder("s") is not None and bool(db.turns.unfinished()))
                a.pause()
                await until(lambda: db.session_holder("s") is None)
                # The server looks four times a lease: it sees that this one has run out.
                hold_lease(db, "mark", "test", ttl_seconds=LEASE * 3 / 8)
                await until(lambda: db.leases.current("mark") is None)
                gate.touch()
                a.wake()
                (done,) = await a.shows("s", "TurnCompleted")
                assert done["final_response"] == f"held {gate}"
                assert a.events("s", "TurnFailed", "TurnInterrupted") == []
                sound(db, "s")
                await a.close()

    wait(scenario())


@pytest.mark.clause("D11")
def test_a_turn_that_another_process_completed_is_not_shown_to_end_twice(
    store_url: str, tmp_path: Path, wait: Wait
) -> None:
    async def scenario(start: Start, db: SessionDB) -> None:
        gate = tmp_path / "gate"
        a = await start(lease=1.0)
        await a.do("new_session", session_id="s")
        await a.do("follow", session_id="s")
        await a.do("send", session_id="s", text=f"hold {gate}")
        await until(lambda: bool(db.turns.unfinished()))
        (turn,) = db.turns.unfinished()
        a.pause()
        await start(lease=1.0, host={"after_crash": "resume"})
        gate.touch()
        await until(lambda: not db.turns.unfinished())
        ended = db.turns.get(turn.id)
        assert ended is not None
        assert ended.state == "completed"
        a.wake()
        await a.shows("s", "TurnFailed")
        await a.do("send", session_id="s", text="next")
        (done,) = await a.shows("s", "TurnCompleted")
        assert done["final_response"] == "echo next"
        ends = a.events("s", "TurnFailed", "TurnCompleted", "TurnInterrupted")
        assert [each["kind"] for each in ends if each["turn_id"] == turn.id] == ["TurnFailed"]
        sound(db, "s")

    async def played() -> None:
        with SessionDB.open(store_url) as db:
            async with host_processes(store_url, tmp_path) as start:
                await scenario(start, db)

    wait(played())


def taken_by_another(db: SessionDB) -> HeldLease:
    """The lease of the conversation, as if its holder had stood still until another machine took it."""
    lease = db.leases.current("session:s")
    assert lease is not None
    db.leases.release(lease)
    return hold_lease(db, "session:s", "another machine:1:2:3:4", ttl_seconds=60)


@pytest.mark.clause("D11")
def test_turns_of_the_process_that_took_a_conversation_over_are_shown_where_it_was_lost(
    db: SessionDB, wait: Wait
) -> None:
    gate = asyncio.Event()

    async def answer(_: object) -> str:
        await gate.wait()
        return "too late"

    async def scenario() -> None:
        db.create_session("s", source="test")
        async with a_host(db, [answer]) as host, aclosing(host.events("s", after=0)) as events:
            await host.send("s", "first")
            await until(lambda: bool(db.turns.unfinished()))
            (own,) = db.turns.unfinished()
            lease = taken_by_another(db)
            turns = db.turns.under(lease)
            turns.interrupt(own.id, "taken over", [assistant("")])
            other = turns.open("s", {"role": "user", "content": "second"}).id
            turns.complete(other, assistant("answered elsewhere"))
            db.leases.let_go(lease)
            gate.set()
            ends = [await next_end(events), await next_end(events)]
            assert [(each.turn_id, type(each)) for each in ends] == [
                (own.id, TurnFailed),
                (other, TurnCompleted),
            ]

    wait(scenario())


def answer_elsewhere(db: SessionDB, text: str) -> str:
    """A turn that another machine runs to its end; its id."""
    lease = hold_lease(db, "session:s", "another machine:1:2:3:4", ttl_seconds=60)
    turns = db.turns.under(lease)
    turn = turns.open("s", user(text)).id
    turns.complete(turn, assistant(f"answer to {text}"))
    db.leases.let_go(lease)
    return turn


@pytest.mark.clause("I7", "N1")
@pytest.mark.parametrize("returns", [False, True], ids=["a new reader", "one that was here before"])
def test_a_reader_begins_with_a_snapshot_and_is_told_no_turn_of_before_that_another_process_ran(
    db: SessionDB, wait: Wait, returns: bool
) -> None:
    async def scenario() -> None:
        db.create_session("s", source="test")
        async with a_host(db, ["one"]) as host:
            await host.send("s", "first")
            await until_turns_end(host, "s")
            seen = [each.number async for each in first_of(host.events("s"))]
            await until(lambda: not host._conversations.opened["s"].is_served)  # noqa: SLF001
            answer_elsewhere(db, "while nobody reads")
            async with aclosing(host.events("s", after=seen[0] if returns else None)) as events:
                assert isinstance((await anext(events)).event, SessionSnapshot)
                following = asyncio.create_task(next_end(events))
                await until(lambda: host._conversations.opened["s"].state == "following")  # noqa: SLF001
                turn = answer_elsewhere(db, "while somebody reads")
                assert (await following).turn_id == turn

    wait(scenario())


async def first_of(events: AsyncGenerator[Numbered, None]) -> AsyncIterator[Numbered]:
    async with aclosing(events):
        yield await anext(events)


async def next_end(events: AsyncIterator[Numbered]) -> TurnCompleted | TurnFailed | TurnInterrupted:
    async for numbered in events:
        if isinstance(numbered.event, ENDS):
            return numbered.event
    raise AssertionError("the stream ended first")


@pytest.mark.clause("D11", "I7")
def test_a_process_whose_lease_was_taken_before_it_acts_leaves_the_turn_that_runs_elsewhere(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        db.create_session("s", source="test")
        lease = hold_lease(db, "session:s", "this machine:1:2:3:4", ttl_seconds=60)
        agent = SessionAgent(ScriptedModel([]), db, "s")
        agent.lease = lease
        other = taken_by_another(db)
        turn = db.turns.under(other).open("s", {"role": "user", "content": "second"})
        with pytest.raises(LeaseLost):
            await agent.drop()
        db.turns.under(other).complete(turn.id, assistant("answered elsewhere"))
        db.leases.let_go(other)
        with pytest.raises(LeaseLost):
            await agent.drop()
        agent.lease = None
        with pytest.raises(InvalidInput, match="no turn is unfinished"):
            await agent.drop()
        await agent.close()

    wait(scenario())


@pytest.mark.clause("I7", "L14")
def test_a_look_for_what_is_not_committed_holds_no_conversation_so_its_turn_can_be_continued(
    db: SessionDB, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_by(db, "another machine:1:2:3:4")
    db.create_session("t", source="test")
    gone = hold_lease(db, "session:t", "another machine:1:2:3:4", ttl_seconds=60)
    turns = db.turns.under(gone)
    turns.complete(turns.open("t", user("hello")).id, assistant("hi"))
    db.leases.let_go(gone)
    assert db.sessions.uncommitted() == ["t"]
    held: list[str] = []
    acquire = db.leases.acquire

    def noting(name: str, holder: str, *, ttl_seconds: float) -> Lease | None:
        held.append(name)
        return acquire(name, holder, ttl_seconds=ttl_seconds)

    monkeypatch.setattr(db.leases, "acquire", noting)

    async def scenario() -> None:
        async with a_host(db) as host:
            await until_recovered(host)
            assert db.sessions.uncommitted() == [], "it has looked"
            assert not [name for name in held if name.startswith("session:")]

    wait(scenario())


@pytest.mark.clause("I7")
def test_the_turn_of_an_agent_used_as_a_library_is_left_to_it(
    store_url: str, db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        begun: list[bool] = []

        async def answer(_: object) -> str:
            begun.append(True)
            await until(lambda: len(begun) > 1)
            return "answer of the library"

        with SessionDB.open(store_url) as own:
            agent = SessionAgent(ScriptedModel([answer]), own, "s")
            async with a_host(db, ["answer of the host"] * 3, options=RESUMES) as host, a_host(db) as asks:
                running = agent.stream("hello")
                first = await anext(running)
                assert not await look(host)
                assert await asks.commands.unfinished("s") is None
                begun.append(True)
                async for _ in running:
                    pass
                assert said(db, "s")[-1] == ("assistant", "answer of the library")
                assert db.session_holder("s") is None, "between its turns the session is free"
                assert first.session_id == "s"
                await host.send("s", "and here")
                await until(lambda: said(db, "s")[-1] == ("assistant", "answer of the host"))
            await agent.close()

    wait(scenario())


@pytest.mark.clause("I7")
def test_who_only_reads_a_conversation_leaves_what_waits_there_to_a_holder_that_lives(
    db: SessionDB, wait: Wait
) -> None:
    turn = left_by(db, holder_name())

    async def scenario() -> None:
        await until(lambda: db.leases.current("session:s") is None)
        clock = FakeClock()
        async with (
            a_host(db, ["one"], agent_options=AgentOptions(clock=clock)) as host,
            aclosing(host.events("s", after=0)) as events,
        ):
            moved = (await anext(events)).event
            assert isinstance(moved, SessionMoved)
            assert moved.elsewhere
            stream = host._conversations.opened["s"].stream  # noqa: SLF001
            # The reader looks once for each of these at least, the last time after it may run the first.
            for count in (1, 2, 3):
                db.inbox.put("s", {"role": "user", "content": "next"})
                await until(lambda count=count: stream.waiting >= count)  # type: ignore[misc]
                clock.advance(1.0)
            still = db.turns.get(turn)
            assert still is not None
            assert still.state == "running"

    wait(scenario())
