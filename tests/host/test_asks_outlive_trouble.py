"""A call that waits for a person is asked about again, whatever cut its turn off before it began."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from holdfast.core.errors import StoreFault
from holdfast.core.events import ApprovalAsked, Event
from holdfast.core.messages import text_of
from holdfast.host import HostOptions, SessionHost
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Operation, Transaction
from holdfast.testing import Call, ScriptedModel
from holdfast.testing.faults import EngineProxy
from holdfast.tools.contract import ApprovalRequest, Tool, ToolContext, ToolResult
from tests.agent.agent_fixtures import Hold, a_tool, until
from tests.host.host_fixtures import host_parts

T = TypeVar("T")
Wait = Callable[[Awaitable[Any]], Any]
OPTIONS = HostOptions(poll_seconds=0.02, shutdown_seconds=3.0, after_crash="resume")


def dangerous(ran: list[str]) -> Tool:
    async def work(context: ToolContext, _: dict[str, Any]) -> ToolResult:
        if await context.person.approve(ApprovalRequest("command", "rm -rf build", "it deletes files")):
            ran.append("rm")
        return ToolResult("done")

    return a_tool("dangerous", work)


def looking(hold: Hold) -> Tool:
    async def work(_: ToolContext, __: dict[str, Any]) -> str:
        return str(await hold(None))

    return replace(a_tool("look", work), changes=False)


class Asked:
    """What a host asks, as it asks it."""

    def __init__(self, host: SessionHost) -> None:
        self._ids: asyncio.Queue[str] = asyncio.Queue()
        host.watch(self._note)

    def _note(self, event: Event) -> None:
        if isinstance(event, ApprovalAsked):
            self._ids.put_nowait(event.ask_id)

    async def next(self) -> str:
        async with asyncio.timeout(60):
            return await self._ids.get()


def answers(db: SessionDB) -> list[str]:
    return [text_of(each) for each in db.get_messages("s") if each["role"] == "assistant"]


@pytest.mark.clause("G4")
def test_a_lease_that_is_lost_while_a_call_waits_costs_no_question(db: SessionDB, wait: Wait) -> None:
    ran: list[str] = []

    async def scenario() -> None:
        hold = Hold()
        tools = [dangerous(ran), looking(hold)]
        script = [[Call("dangerous"), Call("look")], "All done."]
        async with SessionHost(
            replace(host_parts(db, script, tools=tools, options=OPTIONS), closes_store=False)
        ) as host:
            asked = Asked(host)
            await host.send("s", "clean up")
            await asked.next()
            await hold.reached.wait()
            lost = db.leases.current("session:s")
            assert lost is not None
            assert db.leases.release(lost)
            hold.opened.set()  # its result can't be stored any more, which ends the turn here
            assert await host.answer("s", await asked.next(), "yes")
            await until(lambda: answers(db)[-1:] == ["All done."])
        assert ran == ["rm"]

    wait(scenario())


class FailingResumption(EngineProxy):
    """Fails once at the step that puts on record that a turn goes on."""

    failed = False

    def changed(self, work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        if self.failed or not isinstance(work, Operation) or work.name != "resume_turn":
            return work
        self.failed = True

        def fail(tx: Transaction) -> T:
            work(tx)
            raise StoreFault("the store", "it could not be written")

        return fail


@pytest.mark.clause("G4")
def test_a_turn_that_can_not_go_on_at_once_still_asks_again(db: SessionDB, wait: Wait) -> None:
    ran: list[str] = []

    async def scenario() -> None:
        parts = host_parts(db, [Call("dangerous")], tools=[dangerous(ran)], options=OPTIONS)
        async with SessionHost(replace(parts, closes_store=False)) as host:
            asks = Asked(host)
            await host.send("s", "clean up")
            asked = await asks.next()
        assert not db.asks.answer(asked, "yes", lease_name="session:s")
        engine = FailingResumption(db._engine)  # noqa: SLF001 - a store is built on an engine, and keeps it
        again = host_parts(
            SessionDB.on(engine),
            lambda _: ScriptedModel(["All done."]),
            tools=[dangerous(ran)],
            options=OPTIONS,
        )
        async with SessionHost(replace(again, closes_store=False)) as host:
            assert await host.answer("s", await Asked(host).next(), "yes")
            await until(lambda: answers(db)[-1:] == ["All done."])
        assert engine.failed
        assert ran == ["rm"]

    wait(scenario())


@pytest.mark.clause("G4")
def test_an_answer_counts_before_its_turn_is_left_to_another_process_or_not_at_all(
    db: SessionDB, wait: Wait
) -> None:
    ran: list[str] = []

    async def scenario() -> None:
        parts = host_parts(db, [Call("dangerous")], tools=[dangerous(ran)], options=OPTIONS)
        async with SessionHost(replace(parts, closes_store=False)) as host:
            asks = Asked(host)
            await host.send("s", "clean up")
            asked = await asks.next()
            [turn] = db.turns.unfinished()
            [withheld] = db.asks.withhold(turn.id)
            assert (withheld.id, withheld.state) == (asked, "open")
            assert not await host.answer("s", asked, "yes")
            assert await host.overview.asks("s") == []
        assert ran == []

    wait(scenario())
