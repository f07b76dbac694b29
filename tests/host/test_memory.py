"""Memory through the host: a turn only marks, boundaries commit in the background, a crash loses nothing."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.agent import AgentOptions
from holdfast.core.errors import SessionNotFound
from holdfast.core.events import (
    TurnCompleted,
    TurnUnfinished,
)
from holdfast.host import HostOptions
from holdfast.memory import SessionLifecycle
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from holdfast.testing.providers import RecordingProvider
from tests.agent.agent_fixtures import DEADLINE, Hold, until
from tests.host.hanging_provider import HangingProvider, memory_with, run_turns
from tests.host.host_fixtures import QUICK, a_host, until_recovered, until_turns_end

Wait = Callable[[Awaitable[Any]], Any]
QUICK_RECALL = AgentOptions(recall_seconds=0.05)


@pytest.mark.clause("M1")
def test_the_session_is_idle_and_goes_on_while_its_provider_hangs(
    db: SessionDB, wait: Wait, wedged: Callable[..., HangingProvider]
) -> None:
    async def scenario() -> None:
        provider = wedged("initialize", "sync_turns", "prefetch", "on_session_end")
        async with a_host(
            db,
            ["one", "two"],
            memory=memory_with(db, provider),
            options=replace(QUICK, shutdown_seconds=0.5),
            agent_options=QUICK_RECALL,
        ) as host:
            await host.send("s", "first")
            await host.send("s", "second")
            events = await until_turns_end(host, "s", 2)
            assert [e.final_response for e in events if isinstance(e, TurnCompleted)] == ["one", "two"]
            assert provider.reached.is_set()
            assert not provider.turns
            assert (await host.overview.status()).memory[0].owed == 2

    wait(scenario())


@pytest.mark.clause("M1")
def test_the_session_is_idle_in_the_moment_its_answer_is_shown(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, ["one"]) as host:
            await host.send("s", "first")
            async for numbered in host.events("s", after=0):
                if isinstance(numbered.event, TurnCompleted):
                    assert host._conversations.opened["s"].running_turn is None  # noqa: SLF001 - at once
                    assert (await host.overview.session_status("s")).state == "idle"
                    assert not await host.interrupt("s")
                    assert await host.commands.retry("s") != "s"
                    break

    wait(scenario())


@pytest.mark.clause("L10")
def test_a_completed_turn_is_marked_and_nothing_is_committed_there(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        provider = HangingProvider()
        hold = Hold()
        script = ["fine", hold, ValueError("the model broke")]
        async with a_host(db, script, memory=memory_with(db, provider)) as host:
            await host.new_session(session_id="s")
            await run_turns(host, "s", "one")
            assert SessionLifecycle(db).has_uncommitted_work("s")
            await host.new_session(session_id="interrupted")
            await host.send("interrupted", "two")
            await hold.reached.wait()
            await host.interrupt("interrupted")
            await until_turns_end(host, "interrupted")
            await host.new_session(session_id="failed")
            await run_turns(host, "failed", "three")
            assert db.sessions.uncommitted() == ["s"]
            assert provider.committed() == []

    wait(scenario())


@pytest.mark.clause("L10")
def test_an_ephemeral_turn_leaves_no_mark(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        provider = HangingProvider()
        options = AgentOptions(ephemeral=True)
        async with a_host(db, ["hm"], memory=memory_with(db, provider), agent_options=options) as host:
            await host.new_session(session_id="s")
            await run_turns(host, "s", "between us")
            assert db.sessions.uncommitted() == []
            await host.new_session("s")
        assert provider.committed() == []
        assert provider.turns == []

    wait(scenario())


@pytest.mark.clause("L11", "L9")
@pytest.mark.parametrize("boundary", ["new session", "clear"])
def test_a_boundary_commits_the_session_before_it_in_the_background(
    db: SessionDB, wait: Wait, wedged: Callable[..., HangingProvider], boundary: str
) -> None:
    async def scenario() -> None:
        provider = wedged("on_session_end")
        async with a_host(db, ["yes", "later"], memory=memory_with(db, provider)) as host:
            await host.new_session(session_id="s")
            await run_turns(host, "s", "remember this")
            fresh = await (host.commands.clear("s") if boundary == "clear" else host.new_session("s"))
            await until(provider.reached.is_set)
            # The provider hangs in the commit, and a turn runs to its end.
            await run_turns(host, fresh, "go on")
            assert "s" in db.sessions.uncommitted()
            provider.gate.set()
            await until(lambda: "s" not in db.sessions.uncommitted())
            assert provider.committed() == [["remember this", "yes"]]

    wait(scenario())


def test_a_session_after_an_unknown_one_is_refused_and_not_begun(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db) as host:
            with pytest.raises(SessionNotFound):
                await host.new_session("nowhere", session_id="s")
            assert db.get_session("s") is None

    wait(scenario())


@pytest.mark.clause("L13")
def test_the_next_start_commits_what_a_crash_left_uncommitted_once(db: SessionDB, wait: Wait) -> None:
    db.create_session("s", source="test")
    for number in range(2):
        turn = db.turns.open("s", {"role": "user", "content": f"question {number}"})
        db.turns.complete(turn.id, {"role": "assistant", "content": f"answer {number}"})
    db.rotate("s", "child", [{"role": "user", "content": "a summary"}], carry_from=4)
    turn = db.turns.open("child", {"role": "user", "content": "question 2"})
    db.turns.complete(turn.id, {"role": "assistant", "content": "answer 2"})

    async def scenario() -> None:
        provider = HangingProvider()
        async with a_host(db, memory=memory_with(db, provider)):
            await until(lambda: db.sessions.uncommitted() == [])
        assert provider.committed() == [
            ["question 0", "answer 0", "question 1", "answer 1"],
            ["question 2", "answer 2"],
        ]

    wait(scenario())


@pytest.mark.clause("L2")
def test_what_is_completed_while_a_start_looks_around_waits_for_its_own_boundary(
    db: SessionDB, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, completed, looked = RecordingProvider(), threading.Event(), threading.Event()
    recover = SessionLifecycle.recover

    def late(lifecycle: SessionLifecycle) -> list[str]:
        assert completed.wait(DEADLINE)
        try:
            return recover(lifecycle)
        finally:
            looked.set()

    monkeypatch.setattr(SessionLifecycle, "recover", late)

    async def scenario() -> None:
        async with a_host(db, ["hello"], memory=memory_with(db, provider)) as host:
            await host.send("s", "hi")
            await until_turns_end(host, "s")
            await until(lambda: db.session_holder("s") is None)
            completed.set()
            await until(looked.is_set)
            await until_recovered(host)
            assert db.sessions.uncommitted() == ["s"]

    wait(scenario())


@pytest.mark.clause("L13", "D10")
def test_what_a_process_that_died_a_moment_ago_still_holds_is_recovered_when_its_lease_is_out(
    store_url: str, wait: Wait
) -> None:
    dead = SessionDB.open(store_url, lease_seconds=1.0)
    dead.create_session("s", source="test")
    turn = dead.turns.open("s", {"role": "user", "content": "question"})
    dead.turns.complete(turn.id, {"role": "assistant", "content": "answer"})
    dead.turns.open("s", {"role": "user", "content": "cut off"})
    # What a SIGKILL leaves: a lease that nobody renews.
    assert dead.leases.acquire("session:s", "dead", ttl_seconds=1.0) is not None
    dead.close()

    async def scenario() -> None:
        db = SessionDB.open(store_url, lease_seconds=1.0)
        provider = HangingProvider()
        async with a_host(db, memory=memory_with(db, provider)) as host:
            assert await host.commands.unfinished("s") is None
            async for numbered in host.events("s", after=0):
                if isinstance(numbered.event, TurnUnfinished):
                    break
            await until(lambda: db.sessions.uncommitted() == [])
            assert (await host.overview.session_status("s")).state == "unfinished"
            assert (await host.overview.status()).unfinished == ["s"]
        assert provider.committed() == [["question", "answer"]]

    wait(scenario())


def test_conversations_that_are_long_unused_are_forgotten(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        options = HostOptions(poll_seconds=0.02, idle_seconds=0.5, sweep_seconds=0.05)
        async with a_host(db, lambda _: ScriptedModel(), options=options) as host:
            await asyncio.gather(*(host.send(f"s{number}", "hi") for number in range(20)))
            await until(lambda: all(len(db.get_messages(f"s{number}")) == 2 for number in range(20)))
            await until(lambda: not host._conversations.opened)  # noqa: SLF001 - what would leak

    wait(scenario())
