"""`SessionDB.run`: named operations from an event loop, each one transaction, on either engine."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import InvalidInput, SessionExists, SessionNotFound, StoreClosed
from holdfast.process import DaemonPool
from holdfast.sessions import SessionDB
from holdfast.sessions.codec import encode
from holdfast.sessions.contract import Session, SessionStart, Transaction
from holdfast.sessions.conversation_operations import (
    begin_conversation,
    claim_conversation,
    release_conversation,
    release_if_idle,
    send_message,
)
from holdfast.sessions.operations import operation
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.sessions.transcripts import create_session, create_session_row, insert_message
from holdfast.sessions.turn_operations import TurnCompletion, complete_unless_steered, take_next
from tests.sessions.store_fixtures import LONG, Outcome, assistant, contents, user

T = TypeVar("T")


@pytest.fixture
def pool() -> Iterator[DaemonPool]:
    pool = DaemonPool("store", workers=2, backlog=100)
    yield pool
    assert pool.close(LONG) == []


def run(work: Awaitable[T]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(LONG):
            return await work

    return asyncio.run(limited())


@operation
def begin(session_id: str, *said: str) -> Callable[[Transaction], str]:
    """A session with messages; a session that is there already is refused after they were stored in it."""

    def work(tx: Transaction) -> str:
        known = tx.queries.get_session(id=session_id) is not None
        if not known:
            create_session_row(tx, SessionStart(session_id, "cli"), None, None)
        for text in said:
            insert_message(tx, session_id, None, encode(user(text)))
        if known:
            raise SessionExists(session_id)
        return session_id

    return work


class Gate:
    """Holds the writer inside a unit of work until it is opened."""

    def __init__(self, engine: SqliteEngine) -> None:
        self.begun, self.opened = threading.Event(), threading.Event()
        self._first = Outcome(lambda: engine.write(self._hold))
        assert self.begun.wait(LONG)

    def _hold(self, _: Transaction) -> None:
        self.begun.set()
        assert self.opened.wait(LONG)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[SqliteEngine]:
    engine = SqliteEngine(str(tmp_path / "holdfast.db"), clock=SystemClock(), patience=LONG)
    yield engine
    engine.close()


# on every engine


def test_an_operation_gives_its_result_once_it_is_committed(db: SessionDB, pool: DaemonPool) -> None:
    assert run(db.run(pool, begin, "s", "one", "two")) == "s"
    assert contents(db.get_messages("s")) == ["one", "two"]


@pytest.mark.clause("D1")
def test_an_operation_that_fails_raises_its_error_and_leaves_nothing(db: SessionDB, pool: DaemonPool) -> None:
    run(db.run(pool, begin, "s", "one"))
    with pytest.raises(SessionExists):
        run(db.run(pool, begin, "s", "never said"))
    assert contents(db.get_messages("s")) == ["one"]


def test_arguments_that_are_refused_leave_nothing(db: SessionDB, pool: DaemonPool) -> None:
    with pytest.raises(InvalidInput, match="source"):
        run(db.run(pool, create_session, "s", source=""))
    assert db.get_session("s") is None


def test_a_closed_store_refuses_an_operation(db: SessionDB, pool: DaemonPool) -> None:
    db.close()
    with pytest.raises(StoreClosed):
        run(db.run(pool, begin, "s"))


def test_a_conversation_begins_with_its_message_and_its_lease(db: SessionDB, pool: DaemonPool) -> None:
    async def scenario() -> None:
        begun = await db.run(
            pool,
            begin_conversation,
            SessionStart("s", "cli"),
            user("hello"),
            history=[user("before"), assistant("yes")],
            holder="me",
            lease_seconds=10.0,
        )
        assert begun.claim is not None
        assert begun.claim.state.first() == begun.message
        assert begun.claim.state.messages == 2
        assert db.session_holder("s") == "me"
        assert await db.run(pool, claim_conversation, "s", "you", 10.0) is None

    run(scenario())


def test_a_lease_goes_only_when_nothing_waits(db: SessionDB, pool: DaemonPool) -> None:
    db.create_session("s", source="cli")
    lease = db.hold_session("s", "me")
    assert lease is not None

    async def scenario() -> None:
        sent = await db.run(pool, send_message, "s", user("one"), "queue")
        found = await db.run(pool, release_if_idle, "s", lease, parked=0, recovers=True)
        assert (found.released, found.state.first()) == (False, sent)
        assert db.session_holder("s") == "me"
        # What is parked waits for a person's word; it is no reason to hold the conversation.
        found = await db.run(
            pool, release_if_idle, "s", lease, parked=sent.id, recovers=True, completed=["s", "gone"]
        )
        assert found.released
        assert [session.id for session in found.completed] == ["s"]
        assert db.session_holder("s") is None

    run(scenario())


def test_an_open_turn_is_a_reason_to_hold_on_for_a_process_that_recovers(
    db: SessionDB, pool: DaemonPool
) -> None:
    db.create_session("s", source="cli")
    lease = db.hold_session("s", "me")
    assert lease is not None
    db.turns.open("s", user("cut off"))

    async def scenario() -> None:
        assert not (await db.run(pool, release_if_idle, "s", lease, parked=0, recovers=True)).released
        assert (await db.run(pool, release_if_idle, "s", lease, parked=0, recovers=False)).released

    run(scenario())


def test_a_turn_is_completed_unless_somebody_wants_to_join_it(db: SessionDB, pool: DaemonPool) -> None:
    db.create_session("s", source="cli")
    first = db.inbox.put("s", user("one"))

    async def scenario() -> None:
        turn, message = await db.run(pool, take_next, "s", "t", first.id)
        assert (turn.id, message) == ("t", user("one"))
        steer = db.inbox.put("s", user("and this"), mode="steer")
        later = db.inbox.put("s", user("next"))
        ending = TurnCompletion(assistant("done"))
        assert await db.run(pool, complete_unless_steered, "t", ending) == [steer]
        assert db.turns.running("s") is not None
        db.turns.join("t", steer.id)
        done = await db.run(pool, complete_unless_steered, "t", ending)
        assert not isinstance(done, list)
        assert done.state == "completed"
        assert [each.id for each in db.inbox.waiting("s")] == [later.id]

    run(scenario())


@pytest.mark.clause("I3")
def test_an_interrupt_is_addressed_to_the_turn_that_runs(db: SessionDB, pool: DaemonPool) -> None:
    db.create_session("s", source="cli")
    turn = db.turns.open("s", user("one"))

    async def scenario() -> None:
        sent = await db.run(pool, send_message, "s", user("stop"), "interrupt", "key")
        assert sent.addressed_to == turn.id
        db.turns.complete(turn.id)
        assert (await db.run(pool, send_message, "s", user("stop"), "interrupt")).addressed_to is None
        assert (await db.run(pool, send_message, "s", user("stop"), "interrupt", "key")).id == sent.id

    run(scenario())


# where the engine has a writer of its own


@pytest.mark.clause("D1")
def test_operations_that_share_a_commit_succeed_and_fail_each_for_itself(
    engine: SqliteEngine, pool: DaemonPool
) -> None:
    db = SessionDB.on(engine)
    db.create_session("taken", source="cli")
    gate = Gate(engine)

    async def scenario() -> list[Any]:
        asked = [
            asyncio.ensure_future(db.run(pool, begin, "a", "one", "two")),
            asyncio.ensure_future(db.run(pool, begin, "taken", "never said")),
            asyncio.ensure_future(db.run(pool, begin, "b", "one", "two")),
        ]
        await asyncio.sleep(0)  # noqa: TID251 - each is submitted
        gate.opened.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    first, second, third = run(scenario())
    assert (first, third) == ("a", "b")
    assert isinstance(second, SessionExists)
    assert contents(db.get_messages("a")) == contents(db.get_messages("b")) == ["one", "two"]
    assert contents(db.get_messages("taken")) == []


@pytest.mark.clause("D1")
def test_nobody_hears_of_an_operation_before_its_commit(engine: SqliteEngine, pool: DaemonPool) -> None:
    seen: list[Session | None] = []

    async def scenario() -> None:
        await SessionDB.on(engine).run(pool, begin, "s")
        # Another connection sees only what is committed.
        other = SessionDB(engine.location)
        seen.append(other.get_session("s"))
        other.close()

    run(scenario())
    assert seen != [None]


def test_an_operation_runs_on_no_thread_but_the_writers(engine: SqliteEngine, pool: DaemonPool) -> None:
    @operation
    def thread_name() -> Callable[[Transaction], str]:
        return lambda _: threading.current_thread().name

    assert run(SessionDB.on(engine).run(pool, thread_name)) == "holdfast-writer"
    assert pool.stats().completed == 0


def test_an_operation_nobody_awaits_any_more_is_done_to_its_end(
    engine: SqliteEngine, pool: DaemonPool
) -> None:
    db = SessionDB.on(engine)
    gate = Gate(engine)

    async def scenario() -> None:
        asked = asyncio.create_task(db.run(pool, begin, "s", "one", "two"))
        await asyncio.sleep(0)  # noqa: TID251 - it is submitted
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        gate.opened.set()

    run(scenario())
    db.create_session("after", source="cli")  # the writer takes its work in order
    assert contents(db.get_messages("s")) == ["one", "two"]


def test_an_operation_whose_failure_nobody_awaits_is_logged(
    engine: SqliteEngine, pool: DaemonPool, caplog: pytest.LogCaptureFixture
) -> None:
    db = SessionDB.on(engine)
    gate = Gate(engine)

    async def scenario() -> None:
        lost = asyncio.create_task(db.run(pool, release_conversation, "nowhere", None))
        await asyncio.sleep(0)  # noqa: TID251 - it is submitted
        lost.cancel()
        after = asyncio.create_task(db.run(pool, begin, "s"))
        await asyncio.sleep(0)  # noqa: TID251 - it is submitted
        gate.opened.set()
        await after

    run(scenario())
    assert "store.abandoned_operation_failed" in caplog.text


def test_an_operation_left_by_a_closed_loop_disturbs_no_other(engine: SqliteEngine, pool: DaemonPool) -> None:
    db = SessionDB.on(engine)
    gate = Gate(engine)

    async def leave() -> None:
        asked = asyncio.create_task(db.run(pool, begin, "s", "one", "two"))
        await asyncio.sleep(0)  # noqa: TID251 - it is submitted
        asked.cancel()

    run(leave())
    gate.opened.set()
    assert run(db.run(pool, begin, "other")) == "other"
    assert contents(db.get_messages("s")) == ["one", "two"]


def test_a_store_in_memory_takes_operations(pool: DaemonPool) -> None:
    with SessionDB(":memory:") as db:
        assert run(db.run(pool, begin, "s", "one", "two")) == "s"
        assert db.conversations.state("s").messages == 2
        with pytest.raises(SessionNotFound):
            db.conversations.state("nowhere")


def test_operations_that_wait_when_the_store_closes_are_done(engine: SqliteEngine, pool: DaemonPool) -> None:
    db = SessionDB.on(engine)
    gate = Gate(engine)

    async def scenario() -> list[Any]:
        asked = [asyncio.ensure_future(db.run(pool, begin, name)) for name in ("a", "b")]
        await asyncio.sleep(0)  # noqa: TID251 - both are submitted
        closing = threading.Thread(target=engine.close)
        closing.start()
        gate.opened.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    assert run(scenario()) == ["a", "b"]  # what was submitted before is finished
