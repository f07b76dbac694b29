"""Between a look and a step, and at the very moment of a commit: nothing falls through."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import OutcomeUnknown, StoreFault
from holdfast.core.events import (
    SessionRotated,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
)
from holdfast.models.contract import ModelRequest
from holdfast.process import DaemonPool
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import (
    ClaimedConversation,
    Engine,
    Operation,
    ReleasedConversation,
    Transaction,
)
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing import ScriptedModel
from holdfast.testing.faults import EngineProxy
from tests.agent.agent_fixtures import Hold, HoldingEngine, until
from tests.host.host_fixtures import ENDS, a_host, until_turns_end

T = TypeVar("T")
Wait = Callable[[Awaitable[Any]], Any]


class Fickle(EngineProxy):
    """A person who takes a message back right after the runner has seen that it is next, once."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.unwanted = 0

    async def run(self, operation: Operation[T], pool: DaemonPool) -> T:
        result = await super().run(operation, pool)
        if isinstance(result, ClaimedConversation | ReleasedConversation):
            first = result.state.first()
            if first is not None and first.id == self.unwanted:
                SessionDB.on(self._engine).inbox.withdraw(self.unwanted)
        return result


@pytest.mark.clause("I1")
def test_a_message_withdrawn_between_the_look_and_the_taking_stops_nobody(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        engine = Fickle(db._engine)  # noqa: SLF001 - a store is built on an engine, and keeps it
        async with a_host(SessionDB.on(engine), [hold, "last"]) as host:
            await host.send("s", "first")
            await hold.reached.wait()
            # As another process does it: nobody pokes this runner.
            unwanted = db.inbox.put("s", {"role": "user", "content": "never mind"})
            db.inbox.put("s", {"role": "user", "content": "third"})
            engine.unwanted = unwanted.id
            hold.opened.set()
            await until(lambda: db.get_messages("s")[-1]["content"] == "last")
            assert [m["content"] for m in db.get_messages("s") if m["role"] == "user"] == ["first", "third"]
            withdrawn = db.inbox.get(unwanted.id)
            assert withdrawn is not None
            assert withdrawn.state == "withdrawn"

    wait(scenario())


class FailingClaims(EngineProxy):
    """Fails at the first claim, when all of it but the commit is done."""

    failed = False

    def changed(self, work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        if self.failed or not isinstance(work, Operation) or work.name != "claim_conversation":
            return work
        self.failed = True

        def fail(tx: Transaction) -> T:
            work(tx)
            raise StoreFault("the store", "a look failed")

        return fail


@pytest.mark.clause("I1")
def test_a_claim_that_fails_after_it_took_the_lease_blocks_nobody(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        engine = FailingClaims(db._engine)  # noqa: SLF001 - a store is built on an engine, and keeps it
        async with a_host(SessionDB.on(engine), ["heard"]) as host:
            await host.send("s", "first")
            await until(lambda: [m["content"] for m in db.get_messages("s")] == ["first", "heard"])
        assert engine.failed

    wait(scenario())


def test_a_turn_whose_lease_was_lost_and_that_nobody_took_is_closed_here(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold, "again"]) as host:
            await host.send("s", "first")
            await hold.reached.wait()
            lost = db.leases.current("session:s")
            assert lost is not None
            assert db.leases.release(lost)
            hold.opened.set()
            events = await until_turns_end(host, "s")
            assert isinstance(events[-1], TurnFailed)
            await until(lambda: not db.turns.unfinished())
            # Its whole answer was there, and is stored and shown after all.
            assert db.turns.get(events[-1].turn_id).state == "completed"  # type: ignore[union-attr]
            assert "held" in str(db.get_messages("s")[-1]["content"])
            await until(lambda: db.session_holder("s") is None)
            await host.send("s", "second")
            ends = [each for each in await until_turns_end(host, "s", 3) if isinstance(each, ENDS)]
            assert [type(each) for each in ends] == [TurnFailed, TurnCompleted, TurnCompleted]
            assert ends[0].turn_id == ends[1].turn_id != ends[2].turn_id

    wait(scenario())


def test_a_turn_whose_lease_another_took_for_a_moment_is_closed_after_it(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold]) as host:
            await host.send("s", "first")
            await hold.reached.wait()
            lost = db.leases.current("session:s")
            assert lost is not None
            db.leases.release(lost)
            assert db.hold_session("s", "thief") is not None
            hold.opened.set()
            await until_turns_end(host, "s")
            assert db.turns.unfinished()
            db.let_go_of_session("s", "thief")
            await until(lambda: not db.turns.unfinished())

    wait(scenario())


@pytest.mark.clause("I2")
def test_an_interrupt_in_the_moment_of_a_rotation_still_shows_it(wait: Wait) -> None:
    async def scenario() -> None:
        engine = HoldingEngine(SqliteEngine(":memory:", clock=SystemClock(), patience=5.0))
        with SessionDB.on(engine) as db:
            rotate = db.rotate

            def slow(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
                engine.hold_next_write()
                return rotate(*args, **kwargs)

            db.rotate = slow  # type: ignore[method-assign]
            async with a_host(db, lambda _: ScriptedModel(["long " * 300] * 9, context_window=1_500)) as host:
                await host.new_session(session_id="s")
                turns, ending = 0, asyncio.create_task(until_turns_end(host, "s", 1))
                while not engine.reached.is_set():
                    turns += 1
                    ending = asyncio.create_task(until_turns_end(host, "s", turns))
                    await host.send("s", f"question {turns}")
                    await until(lambda: ending.done() or engine.reached.is_set())  # noqa: B023
                assert await host.interrupt("s")
                engine.opened.set()
                events = await ending
                rotated = [event for event in events if isinstance(event, SessionRotated)]
                assert [event.child_id for event in rotated] == [db.sessions.live_end("s")]
                assert rotated[0].session_id == "s"
                assert isinstance(events[-1], TurnInterrupted)
                assert events[-1].session_id == db.sessions.live_end("s")

    wait(scenario())


class UnsureEngine(EngineProxy):
    """An engine whose connection breaks right after a chosen write is stored, and then stays so."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._break = False
        self._failing = 0
        self._failing_reads = 0

    def break_after_next_write(self, failing: int = 0) -> None:
        self._break, self._failing = True, failing

    def changed(self, work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        self._fail()
        return work

    def done(self, work: Callable[[Transaction], T]) -> None:
        if self._break:
            self._break, self._failing_reads = False, self._failing
            raise OutcomeUnknown("here", "the connection broke")

    def read(self, work: Callable[[Transaction], T]) -> T:
        self._fail()
        return super().read(work)

    def _fail(self) -> None:
        if self._failing_reads:
            self._failing_reads -= 1
            raise OutcomeUnknown("here", "still broken")


@pytest.mark.clause("D1")
@pytest.mark.parametrize("failing", [0, 1, 2, 5])
def test_a_completion_whose_outcome_was_not_heard_is_shown_once_it_is_known(wait: Wait, failing: int) -> None:
    async def scenario() -> None:
        engine = UnsureEngine(SqliteEngine(":memory:", clock=SystemClock(), patience=5.0))

        def answer(_: ModelRequest) -> str:
            engine.break_after_next_write(failing)
            return "the answer"

        with SessionDB.on(engine, lease_seconds=1.0) as db:
            async with a_host(db, [answer, "next"]) as host:
                await host.send("s", "first")
                events = await until_turns_end(host, "s")
                assert isinstance(events[-1], TurnCompleted)
                assert events[-1].final_response == "the answer"
                assert db.sessions.uncommitted() == ["s"]
                await until(lambda: db.session_holder("s") is None)
                await host.send("s", "second")
                later = await until_turns_end(host, "s", 2)
                assert [e.final_response for e in later if isinstance(e, TurnCompleted)] == [
                    "the answer",
                    "next",
                ]

    wait(scenario())
