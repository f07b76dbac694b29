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
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Engine, Look, Transaction
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing import ScriptedModel
from tests.agent.company import ByItsCallers, Hold, HoldingEngine, until
from tests.host.house import a_host, until_turns_end

T = TypeVar("T")
Wait = Callable[[Awaitable[Any]], Any]


class Fickle:
    """A person who takes a message back right after the runner has looked at it, once."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._look = db.look
        self.unwanted = 0

    def __call__(self, session_id: str) -> Look:
        found = self._look(session_id)
        first = found.first()
        if first is not None and first.id == self.unwanted:
            self._db.inbox.withdraw(self.unwanted)
        return found


@pytest.mark.clause("I1")
def test_a_message_withdrawn_between_the_look_and_the_taking_stops_nobody(
    db: SessionDB, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        hold = Hold()
        look = Fickle(db)
        monkeypatch.setattr(db, "look", look)
        async with a_host(db, [hold, "last"]) as host:
            await host.send("s", "first")
            await hold.reached.wait()
            # As another process does it: nobody pokes this runner.
            unwanted = db.inbox.put("s", {"role": "user", "content": "never mind"})
            db.inbox.put("s", {"role": "user", "content": "third"})
            look.unwanted = unwanted.id
            hold.opened.set()
            await until(lambda: db.get_messages("s")[-1]["content"] == "last")
            assert [m["content"] for m in db.get_messages("s") if m["role"] == "user"] == ["first", "third"]
            withdrawn = db.inbox.get(unwanted.id)
            assert withdrawn is not None
            assert withdrawn.state == "withdrawn"

    wait(scenario())


class Failing:
    """Fails at the first look by who has just begun to hold the conversation."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._look = db.look
        self.failed = False

    def __call__(self, session_id: str) -> Look:
        if not self.failed and self._db.session_holder(session_id) is not None:
            self.failed = True
            raise StoreFault("the store", "a look failed")
        return self._look(session_id)


@pytest.mark.clause("I1")
def test_a_look_that_fails_right_after_the_lease_was_taken_blocks_nobody(
    db: SessionDB, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        look = Failing(db)
        monkeypatch.setattr(db, "look", look)
        async with a_host(db, ["heard"]) as host:
            await host.send("s", "first")
            await until(lambda: [m["content"] for m in db.get_messages("s")] == ["first", "heard"])
        assert look.failed

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
            assert db.turns.get(events[-1].turn_id).state == "failed"  # type: ignore[union-attr]
            assert "held" in str(db.get_messages("s")[-1]["content"])
            await until(lambda: db.session_holder("s") is None)
            # Its end was shown once.
            await host.send("s", "second")
            assert isinstance((await until_turns_end(host, "s", 2))[-1], TurnCompleted)

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
                assert [event.child_id for event in rotated] == [db.live_end("s")]
                assert rotated[0].session_id == "s"
                assert isinstance(events[-1], TurnInterrupted)
                assert events[-1].session_id == db.live_end("s")

    wait(scenario())


class UnsureEngine(ByItsCallers):
    """An engine whose connection breaks right after a chosen write is stored, and then stays so."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._break = False
        self._failing_reads = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the rest is the engine's own
        return getattr(self._engine, name)

    def break_after_next_write(self, failing: int = 0) -> None:
        self._break, self._failing = True, failing

    def write(self, work: Callable[[Transaction], T]) -> T:
        if self._failing_reads:
            self._failing_reads -= 1
            raise OutcomeUnknown("here", "still broken")
        result = self._engine.write(work)
        if self._break:
            self._break, self._failing_reads = False, self._failing
            raise OutcomeUnknown("here", "the connection broke")
        return result

    def read(self, work: Callable[[Transaction], T]) -> T:
        if self._failing_reads:
            self._failing_reads -= 1
            raise OutcomeUnknown("here", "still broken")
        return self._engine.read(work)


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
                assert db.uncommitted_sessions() == ["s"]
                await until(lambda: db.session_holder("s") is None)
                await host.send("s", "second")
                later = await until_turns_end(host, "s", 2)
                assert [e.final_response for e in later if isinstance(e, TurnCompleted)] == [
                    "the answer",
                    "next",
                ]

    wait(scenario())
