"""The end of a host: bounded by its budget whatever hangs, plain about what is owed, and nothing lost."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import CommandInterrupted, HostClosed
from holdfast.core.events import TurnCompleted, TurnInterrupted
from holdfast.host import HostOptions, SessionHost
from holdfast.memory import MemoryManager
from holdfast.models.contract import ModelRequest
from holdfast.process import ShutdownBudget
from holdfast.sessions import SessionDB
from holdfast.testing import Call, ScriptedModel
from holdfast.testing.providers import RecordingProvider
from holdfast.tools.contract import ToolContext
from tests.agent.agent_fixtures import DEADLINE, Hold, a_tool, until
from tests.host.hanging_provider import HangingProvider, memory_with, run_turns
from tests.host.host_fixtures import QUICK, a_host, until_turns_end
from tests.host.test_memory import QUICK_RECALL

Wait = Callable[[Awaitable[Any]], Any]
BUDGET = 1.0
GRACE = 1.5
"""What a loaded machine may add to the budget."""


async def closed_in_time(host: SessionHost) -> list[str]:
    began = time.monotonic()
    owed = await host.close(ShutdownBudget(BUDGET, SystemClock()))
    assert time.monotonic() - began < BUDGET + GRACE
    return owed


@pytest.mark.clause("M5", "D9", "D1")
def test_closing_with_a_wedged_provider_says_what_is_owed_and_the_next_start_delivers_it(
    store_url: str, wait: Wait, wedged: Callable[..., HangingProvider]
) -> None:
    async def scenario() -> None:
        db = SessionDB.open(store_url)
        provider = wedged("sync_turns", "on_session_end")
        host = a_host(db, ["one", "two"], memory=memory_with(db, provider), agent_options=QUICK_RECALL)
        async with host:
            await host.new_session(session_id="s")
            await run_turns(host, "s", "first", "second")
            owed = await closed_in_time(host)
            assert await host.close() == owed
        assert any("2 turns are owed to recording" in line for line in owed)
        assert any("1 session is not committed" in line for line in owed)

        again = SessionDB.open(store_url)
        assert again.outbox.backlog("recording").owed == 2
        assert again.sessions.uncommitted() == ["s"]
        again.close()

    wait(scenario())


@pytest.mark.slow
@pytest.mark.clause("D1", "L13")
def test_what_a_wedged_provider_was_owed_at_the_end_reaches_it_after_the_next_start(
    store_url: str, wedged: Callable[..., HangingProvider]
) -> None:
    async def scenario() -> None:
        db = SessionDB.open(store_url)
        provider = wedged("sync_turns", "on_session_end")
        host = a_host(db, ["one", "two"], memory=memory_with(db, provider), agent_options=QUICK_RECALL)
        async with host:
            await host.new_session(session_id="s")
            await run_turns(host, "s", "first", "second")
        again = SessionDB.open(store_url, lease_seconds=1.0)
        fresh = HangingProvider()
        async with a_host(again, memory=memory_with(again, fresh)):
            # The claim of the process before runs out by itself; until then a commit fails and is repeated.
            await until(lambda: fresh.said("s") == ["first", "second"])
            await until(lambda: again.sessions.uncommitted() == [])
        assert fresh.committed() == [["first", "one", "second", "two"]]

    asyncio.run(asyncio.wait_for(scenario(), 90))


@pytest.mark.clause("M5", "M7")
def test_a_commit_that_hangs_leaves_another_provider_its_deliveries(
    store_url: str, wait: Wait, wedged: Callable[..., HangingProvider]
) -> None:
    async def scenario() -> None:
        db = SessionDB.open(store_url)
        healthy, gate = RecordingProvider("healthy"), threading.Event()
        memory = memory_with(db, wedged("on_session_end"))
        healthy.before = lambda _: assert_opened(gate)
        memory.add_provider(healthy)
        async with a_host(db, ["one"], memory=memory) as host:
            await host.new_session(session_id="s")
            await run_turns(host, "s", "first")
            budget = ShutdownBudget(BUDGET, SystemClock())
            closing = asyncio.create_task(host.close(budget))
            await until(lambda: any(stage.name == "memory commits" for stage in budget.stages))
            gate.set()
            owed = await closing
        assert healthy.said("s") == ["first"]
        assert not any("healthy" in line for line in owed)

    wait(scenario())


def assert_opened(gate: threading.Event) -> None:
    assert gate.wait(DEADLINE)


@pytest.mark.clause("X1", "D10")
def test_closing_with_wedged_blocking_tools_on_every_thread_is_bounded(store_url: str, wait: Wait) -> None:
    gate = threading.Event()
    calls = 40  # more than the host has threads for tools

    async def wedged_tool(context: ToolContext, arguments: dict[str, Any]) -> str:
        return str(await context.off_loop(gate.wait, DEADLINE))

    async def scenario() -> None:
        db = SessionDB.open(store_url)
        script = [[Call("wedged", id=f"c{number}") for number in range(calls)]]
        async with a_host(db, script, tools=[a_tool("wedged", wedged_tool)]) as host:
            await host.send("s", "go")
            await until(lambda: len(db.get_messages("s")) == 2)
            await host.send("s", "and then this")
            assert await closed_in_time(host) == []
        again = SessionDB.open(store_url)
        (turn,) = [m for m in again.sessions.read("s") if m.message["role"] == "user"]
        stopped = again.turns.get(turn.turn_id or "")
        assert stopped is not None
        assert stopped.state == "interrupted"
        assert [m.message["content"] for m in again.inbox.waiting("s")] == ["and then this"]
        again.close()

    try:
        wait(scenario())
    finally:
        gate.set()


@pytest.mark.clause("M5", "I2")
def test_closing_in_mid_stream_keeps_what_had_come_and_ends_the_readers(store_url: str, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()

        class Halfway(ScriptedModel):
            async def stream(self, request: ModelRequest) -> Any:  # noqa: ANN401
                async for piece in super().stream(request):
                    yield piece
                    await hold()

        db = SessionDB.open(store_url)
        async with a_host(db, lambda _: Halfway(["half whole"])) as host:
            await host.send("s", "go")
            reading = asyncio.create_task(events_of(host, "s"))
            await hold.reached.wait()
            await closed_in_time(host)
            assert isinstance((await reading)[-1], TurnInterrupted)
        again = SessionDB.open(store_url)
        last = again.get_messages("s")[-1]
        assert str(last["content"]).startswith("half")
        assert "the program is ending" in str(last["content"])
        again.close()

    wait(scenario())


async def events_of(host: SessionHost, session: str) -> list[Any]:
    return [numbered.event async for numbered in host.events(session, after=0)]


@pytest.mark.clause("M5", "I6")
def test_a_compaction_that_hangs_is_interrupted_by_a_person_and_by_the_end(
    store_url: str, wait: Wait
) -> None:
    async def scenario() -> None:
        db = SessionDB.open(store_url)
        hold = Hold()
        model = ScriptedModel(["long " * 800, "long " * 800, hold, hold], context_window=3_200)
        async with a_host(db, lambda _: model) as host:
            await host.new_session(session_id="s")
            await run_turns(host, "s", "talk", "go on")
            for stop in (lambda: host.interrupt("s"), lambda: closed_in_time(host)):
                compacting = asyncio.create_task(host.commands.compact("s"))
                await hold.reached.wait()
                assert await stop() in (True, [])
                with pytest.raises((CommandInterrupted, HostClosed)):
                    await compacting
                hold.reached.clear()
        again = SessionDB.open(store_url)
        assert again.children("s") == []
        assert again.get_compression_lock_holder("s") is None
        again.close()

    wait(scenario())


@pytest.mark.clause("M5")
def test_a_store_that_hangs_can_not_hold_up_the_end(wait: Wait, tmp_path: Any) -> None:  # noqa: ANN401
    gate = threading.Event()

    async def scenario() -> None:
        db = SessionDB(tmp_path / "holdfast.db")
        async with a_host(db, ["one"]) as host:
            await host.new_session(session_id="s")
            await run_turns(host, "s", "first")
            closing = db.close
            db.close = lambda: (gate.wait(DEADLINE), closing())[1]  # type: ignore[method-assign]
            await closed_in_time(host)

    try:
        wait(scenario())
    finally:
        gate.set()


def test_a_second_close_waits_for_the_first_and_what_comes_after_is_refused(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold]) as host:
            await host.send("s", "go")
            await hold.reached.wait()
            both = await asyncio.gather(host.close(), host.close())
            assert both[0] == both[1]
            calls: list[Callable[[], Awaitable[Any]]] = [
                lambda: host.send("s", "late"),
                lambda: host.send("new", "late"),
                lambda: host.interrupt("s"),
                host.new_session,
                lambda: host.commands.clear("s"),
                lambda: host.records.branch("s"),
                lambda: host.commands.truncate("s", before=0),
                lambda: host.commands.retry("s"),
                lambda: host.commands.resume("s"),
                lambda: host.commands.drop("s"),
                lambda: host.commands.compact("s"),
                lambda: host.records.waiting("s"),
                lambda: host.commands.run_waiting("s"),
                lambda: host.answer("s", "ask", "late"),
                host.records.sessions,
                lambda: host.records.search("word"),
                host.overview.status,
                lambda: host.overview.session_status("s"),
                lambda: host.overview.context("s"),
                lambda: anext(host.overview.changes()),
                lambda: host.memory.search("word"),
                host.models,
                lambda: host.switch_model("other"),
                lambda: events_of(host, "s"),
            ]
            for call in calls:
                with pytest.raises(HostClosed):
                    await call()

    wait(scenario())


def test_a_message_sent_while_the_host_closes_is_stored_or_refused(store_url: str, wait: Wait) -> None:
    async def scenario() -> None:
        db = SessionDB.open(store_url)
        host = a_host(db, lambda _: ScriptedModel(), options=HostOptions(poll_seconds=0.02))
        accepted: list[str] = []

        async def talk(number: int) -> None:
            for count in range(50):
                text = f"{number}-{count}"
                try:
                    await host.send(f"s{number}", text)
                except HostClosed:
                    return
                accepted.append(text)

        async with host:
            talking = [asyncio.create_task(talk(number)) for number in range(4)]
            await until(lambda: len(accepted) > 10)
            await host.close()
            await asyncio.gather(*talking)
        again = SessionDB.open(store_url)
        kept = [
            str(message["content"])
            for number in range(4)
            for message in [
                *again.get_messages(f"s{number}"),
                *(each.message for each in again.inbox.waiting(f"s{number}")),
            ]
            if message["role"] == "user"
        ]
        assert sorted(kept) == sorted(set(kept))
        assert set(accepted) <= set(kept)
        again.close()

    wait(scenario())


@pytest.mark.clause("D9")
def test_a_clean_end_owes_nothing(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        memory = MemoryManager(db)
        provider = RecordingProvider()
        memory.add_provider(provider)
        async with a_host(db, ["one"], memory=memory, options=QUICK) as host:
            await host.send("s", "first")
            events = await until_turns_end(host, "s")
            assert isinstance(events[-1], TurnCompleted)
            assert await host.close() == []
        assert provider.said() == ["first"]

    wait(scenario())
