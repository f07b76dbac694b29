"""Agents that are no longer kept warm leave on nobody's turn, few at a time, and take nothing along."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.agent import Pools
from holdfast.agent.contract import TOOL_THREADS
from holdfast.host import HostOptions, SessionHost
from holdfast.host.agent_cache import AT_ONCE, MOST_BEYOND
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from holdfast.testing.scripted_model import Delay
from tests.agent.agent_fixtures import until
from tests.host.hanging_provider import HangingProvider, memory_with, run_turns
from tests.host.host_fixtures import QUICK, a_host

Wait = Callable[[Awaitable[Any]], Any]
CROWD = 40
"""More than the threads that commits share with turns."""
LONG_ANSWER = ["It takes ", Delay(600.0), "long."]
SWEEPING = HostOptions(poll_seconds=0.02, shutdown_seconds=2.0, agents=1, sweep_seconds=0.02)


def keeping_none(db: SessionDB, provider: HangingProvider, tool_threads: int = TOOL_THREADS) -> SessionHost:
    """A host that keeps no agent warm once it is swept, which is when a test wants it."""
    memory, options = memory_with(db, provider), replace(QUICK, agents=0)
    pools = Pools(tool_threads=tool_threads)
    return a_host(db, lambda _: ScriptedModel(["yes"] * 2), memory=memory, options=options, pools=pools)


def names(number: int) -> list[str]:
    return [f"s{each}" for each in range(number)]


async def spoken_in(host: SessionHost, *sessions: str) -> None:
    """Begin these sessions with a turn each."""
    for session in sessions:
        await host.new_session(session_id=session)
        await run_turns(host, session, "hello")


@pytest.mark.clause("L8", "L9")
def test_a_victim_of_the_cache_is_committed_on_nobodys_turn(
    db: SessionDB, wait: Wait, wedged: Callable[..., HangingProvider]
) -> None:
    async def scenario() -> None:
        provider = wedged("on_session_end")

        def model(session: str) -> ScriptedModel:
            return ScriptedModel([f"{session} {number}" for number in range(9)])

        async with a_host(db, model, memory=memory_with(db, provider), options=SWEEPING) as host:
            for session in ("a", "b"):
                await host.new_session(session_id=session)
                await run_turns(host, session, "hello")
            await until(provider.reached.is_set)  # `a` is on its way out
            await run_turns(host, "a", "still here?")
            await run_turns(host, "b", "and you?")
            assert [len(db.get_messages(session)) for session in ("a", "b")] == [4, 4]
            provider.gate.set()
            await until(lambda: ["hello", "a 0"] in provider.committed())
            await until(lambda: len(db.sessions.uncommitted()) == 1)
            await until(lambda: len(host._conversations.agents) == 1)  # noqa: SLF001 - what was to shrink

    wait(scenario())


async def swept(host: SessionHost, crowd: int = CROWD) -> None:
    agents = host._conversations.agents  # noqa: SLF001 - what sweeps
    await until(lambda: len(agents.victims()) == crowd)
    await agents.sweep()


async def left_for_new_ones(host: SessionHost) -> None:
    for session in names(CROWD):
        await host.new_session(session)


@pytest.mark.clause("M1", "L8", "L11")
@pytest.mark.parametrize("leave", [swept, left_for_new_ones])
def test_a_crowd_that_leaves_a_wedged_provider_leaves_threads_for_turns(
    db: SessionDB,
    wait: Wait,
    wedged: Callable[..., HangingProvider],
    leave: Callable[[SessionHost], Awaitable[None]],
) -> None:
    async def scenario() -> None:
        provider = wedged("on_session_end")
        async with keeping_none(db, provider) as host:
            await spoken_in(host, *names(CROWD))
            leaving = asyncio.ensure_future(leave(host))
            await until(provider.reached.is_set)
            await spoken_in(host, "late")
            assert host._parts.pools.work.stats().busy <= AT_ONCE  # noqa: SLF001 - what is left for turns
            assert len(provider.committed()) < CROWD
            provider.gate.set()
            await leaving
            await until(lambda: db.sessions.uncommitted() == ["late"])

    wait(scenario())


@pytest.mark.clause("M1", "L8")
@pytest.mark.parametrize(("threads", "most"), [(8, 2), (4, 1), (2, 1)])
def test_a_host_with_few_threads_keeps_some_for_turns_too(
    db: SessionDB, wait: Wait, wedged: Callable[..., HangingProvider], threads: int, most: int
) -> None:
    async def scenario() -> None:
        provider = wedged("on_session_end")
        async with keeping_none(db, provider, threads) as host:
            await spoken_in(host, *names(8))
            leaving = asyncio.ensure_future(swept(host, 8))
            await until(provider.reached.is_set)
            await spoken_in(host, "late")
            assert host._parts.pools.work.stats().busy <= most  # noqa: SLF001 - what is left for turns
            provider.gate.set()
            await leaving
            await until(lambda: db.sessions.uncommitted() == ["late"])

    wait(scenario())


@pytest.mark.clause("L11")
def test_who_leaves_a_conversation_stands_in_no_line_behind_a_sweep(
    db: SessionDB, wait: Wait, wedged: Callable[..., HangingProvider]
) -> None:
    async def scenario() -> None:
        provider = wedged("on_session_end")
        async with keeping_none(db, provider) as host:
            await spoken_in(host, *names(8))
            agents = host._conversations.agents  # noqa: SLF001 - what sweeps
            await until(lambda: len(agents.victims()) == 8)
            sweep = asyncio.create_task(agents.sweep())
            await until(provider.reached.is_set)
            await host.new_session(session_id="left")
            await run_turns(host, "left", "goodbye")
            await host.new_session("left")
            work = host._parts.pools.work  # noqa: SLF001 - who is at work, and not in line
            await until(lambda: any("commit_session_memory" in each for each in work.running()))
            assert sum("evict_agent" in each for each in work.running()) == AT_ONCE - 1
            provider.gate.set()
            await sweep

    wait(scenario())


def test_who_speaks_while_standing_in_line_to_leave_stays(
    db: SessionDB, wait: Wait, wedged: Callable[..., HangingProvider]
) -> None:
    async def scenario() -> None:
        provider = wedged("on_session_end")
        async with keeping_none(db, provider) as host:
            await spoken_in(host, *names(8))
            agents = host._conversations.agents  # noqa: SLF001 - what sweeps
            await until(lambda: len(agents.victims()) == 8)
            last = agents.victims()[-1]
            sweep = asyncio.create_task(agents.sweep())
            await until(provider.reached.is_set)
            await run_turns(host, last, "still here")
            provider.gate.set()
            await sweep
            assert [name for name in names(8) if name in agents] == [last]

    wait(scenario())


def test_conversations_that_are_over_are_kept_up_to_a_number(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        options = replace(QUICK, agents=0, conversations=5, sweep_seconds=0.01)
        async with a_host(db, lambda _: ScriptedModel(["yes"] * 2), options=options) as host:
            await spoken_in(host, *names(CROWD))
            await until(lambda: len(host._conversations.opened) <= 5)  # noqa: SLF001 - what would grow
            # One that was let go is opened again, and nothing of it is lost.
            await run_turns(host, "s0", "hello again")
            assert len(db.get_messages("s0")) == 4

    wait(scenario())


def test_a_crowd_of_messages_on_their_way_loses_no_conversation(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        options = replace(QUICK, conversations=2)
        async with a_host(db, lambda _: ScriptedModel([LONG_ANSWER]), options=options) as host:
            for session in names(CROWD):
                db.create_session(session, source="test")
            await asyncio.gather(*(host.send(session, "hello") for session in names(CROWD)))
            await until(lambda: all(db.turns.running(session) for session in names(CROWD)))
            states = [(await host.overview.session_status(session)).state for session in names(CROWD)]
            assert states == ["running"] * CROWD
            assert all([await host.interrupt(session) for session in names(CROWD)])
            await until(lambda: not any(db.turns.running(session) for session in names(CROWD)))

    wait(scenario())


def test_a_crowd_of_agents_is_swept_before_the_sweep_is_due(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        options = replace(QUICK, agents=0, sweep_seconds=600.0)
        async with a_host(db, lambda _: ScriptedModel(["yes"]), options=options) as host:
            await spoken_in(host, *names(MOST_BEYOND + 1))
            await until(lambda: len(host._conversations.agents) == 0)  # noqa: SLF001 - what would grow

    wait(scenario())


def test_a_conversation_that_is_let_go_is_gone_without_the_collector(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        options = replace(QUICK, agents=0, idle_seconds=0.0, sweep_seconds=0.01)
        async with a_host(db, lambda _: ScriptedModel(["yes"]), options=options) as host:
            await host.new_session(session_id="s")
            here = weakref.ref(host._conversations.opened["s"])  # noqa: SLF001 - what is to be gone
            await run_turns(host, "s", "hello")
            await until(lambda: "s" not in host._conversations.opened)  # noqa: SLF001
            await until(lambda: here() is None)

    gc.collect()
    gc.disable()
    try:
        wait(scenario())
    finally:
        gc.enable()


@pytest.mark.clause("L8")
def test_an_agent_that_could_not_be_committed_stays_for_another_try(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        provider = HangingProvider()
        failures = [OSError("down"), OSError("still down")]

        def fail(call: str) -> None:
            if call == "on_session_end" and failures:
                raise failures.pop()

        provider.noted = fail
        options = HostOptions(poll_seconds=0.02, agents=0, sweep_seconds=0.02)
        async with a_host(db, ["yes"], memory=memory_with(db, provider), options=options) as host:
            await host.new_session(session_id="s")
            await run_turns(host, "s", "hello")
            await until(lambda: not db.sessions.uncommitted())
            assert provider.committed() == [["hello", "yes"]] * 3
            assert not failures
            await until(lambda: len(host._conversations.agents) == 0)  # noqa: SLF001 - what was to shrink

    wait(scenario())
