"""`SessionDB.visit`: calls from an event loop, each in as few steps as its engine can."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import SessionExists, SessionNotFound, StoreClosed
from holdfast.process import DaemonPool
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Transaction
from holdfast.sessions.sqlite import SqliteEngine
from tests.sessions.steps import LONG, Outcome, contents, user

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


def begin(db: SessionDB, session_id: str) -> str:
    db.create_session(session_id, source="cli")
    db.append_message(session_id, user("one"))
    db.append_message(session_id, user("two"))
    return session_id


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


def test_a_visit_gives_what_its_call_returned_and_tells_then_first(db: SessionDB, pool: DaemonPool) -> None:
    told: list[str] = []

    async def scenario() -> None:
        assert await db.visit(pool, lambda: begin(db, "s"), told.append) == "s"
        assert told == ["s"]

    run(scenario())
    assert contents(db.get_messages("s")) == ["one", "two"]


def test_a_visit_reads_what_it_has_written_itself(db: SessionDB, pool: DaemonPool) -> None:
    def call() -> tuple[int, str]:
        begin(db, "s")
        return db.look("s").messages, db.live_end("s")

    assert run(db.visit(pool, call)) == (2, "s")


def test_a_visit_that_fails_raises_its_error_and_then_hears_nothing(db: SessionDB, pool: DaemonPool) -> None:
    told: list[Any] = []
    with pytest.raises(SessionNotFound):
        run(db.visit(pool, lambda: db.live_end("nowhere"), told.append))
    assert told == []


def test_a_closed_store_refuses_a_visit(db: SessionDB, pool: DaemonPool) -> None:
    db.close()
    with pytest.raises(StoreClosed):
        run(db.visit(pool, lambda: begin(db, "s")))


# where the engine has a writer of its own


@pytest.mark.clause("D1")
def test_a_visit_that_fails_leaves_nothing_of_itself(engine: SqliteEngine, pool: DaemonPool) -> None:
    db = SessionDB.on(engine)

    def call() -> None:
        begin(db, "s")
        begin(db, "s")

    with pytest.raises(SessionExists):
        run(db.visit(pool, call))
    assert db.get_session("s") is None


@pytest.mark.clause("D1")
def test_visits_that_share_a_commit_succeed_and_fail_each_for_itself(
    engine: SqliteEngine, pool: DaemonPool
) -> None:
    db = SessionDB.on(engine)
    db.create_session("taken", source="cli")
    gate = Gate(engine)
    told: list[str] = []

    def spoilt() -> str:
        db.append_message("taken", user("never said"))
        return begin(db, "taken")

    async def scenario() -> list[Any]:
        calls: list[Callable[[], str]] = [partial(begin, db, "a"), spoilt, partial(begin, db, "b")]
        visits = [asyncio.ensure_future(db.visit(pool, call, told.append)) for call in calls]
        await asyncio.sleep(0)  # noqa: TID251 - each is submitted
        gate.opened.set()
        return await asyncio.gather(*visits, return_exceptions=True)

    first, second, third = run(scenario())
    assert (first, third) == ("a", "b")
    assert isinstance(second, SessionExists)
    assert told == ["a", "b"]
    assert contents(db.get_messages("a")) == contents(db.get_messages("b")) == ["one", "two"]
    assert contents(db.get_messages("taken")) == []


@pytest.mark.clause("D1")
def test_nobody_hears_of_a_visit_before_its_commit(engine: SqliteEngine, pool: DaemonPool) -> None:
    db = SessionDB.on(engine)
    seen: list[object] = []

    def then(_: str) -> None:
        # Another connection sees only what is committed.
        other = SessionDB(engine.location)
        seen.append(other.get_session("s"))
        other.close()

    run(db.visit(pool, lambda: begin(db, "s"), then))
    assert seen != [None]


def test_a_visit_runs_on_no_thread_but_the_writers(engine: SqliteEngine, pool: DaemonPool) -> None:
    db = SessionDB.on(engine)
    assert run(db.visit(pool, lambda: threading.current_thread().name)) == "holdfast-writer"
    assert pool.stats().completed == 0


def test_a_visit_nobody_awaits_any_more_is_made_to_its_end(engine: SqliteEngine, pool: DaemonPool) -> None:
    db = SessionDB.on(engine)
    gate = Gate(engine)
    told: list[str] = []

    async def scenario() -> None:
        visit = asyncio.create_task(db.visit(pool, lambda: begin(db, "s"), told.append))
        await asyncio.sleep(0)  # noqa: TID251 - it is submitted
        visit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await visit
        gate.opened.set()

    run(scenario())
    db.create_session("after", source="cli")  # the writer takes its work in order
    assert told == ["s"]
    assert contents(db.get_messages("s")) == ["one", "two"]


def test_a_visit_whose_failure_nobody_awaits_is_logged(
    engine: SqliteEngine, pool: DaemonPool, caplog: pytest.LogCaptureFixture
) -> None:
    db = SessionDB.on(engine)
    gate = Gate(engine)

    async def scenario() -> None:
        lost = asyncio.create_task(db.visit(pool, lambda: db.live_end("nowhere")))
        await asyncio.sleep(0)  # noqa: TID251 - it is submitted
        lost.cancel()
        after = asyncio.create_task(db.visit(pool, lambda: begin(db, "s")))
        await asyncio.sleep(0)  # noqa: TID251 - it is submitted
        gate.opened.set()
        await after

    run(scenario())
    assert "store.abandoned_visit_failed" in caplog.text


def test_a_visit_left_by_a_closed_loop_disturbs_no_other(engine: SqliteEngine, pool: DaemonPool) -> None:
    db = SessionDB.on(engine)
    gate = Gate(engine)

    async def leave() -> None:
        visit = asyncio.create_task(db.visit(pool, lambda: begin(db, "s")))
        await asyncio.sleep(0)  # noqa: TID251 - it is submitted
        visit.cancel()

    run(leave())
    gate.opened.set()
    assert run(db.visit(pool, lambda: begin(db, "other"))) == "other"
    assert contents(db.get_messages("s")) == ["one", "two"]


def test_what_then_raises_goes_to_who_awaits_the_visit(engine: SqliteEngine, pool: DaemonPool) -> None:
    db = SessionDB.on(engine)

    def then(_: str) -> None:
        raise RuntimeError("not told")

    with pytest.raises(RuntimeError, match="not told"):
        run(db.visit(pool, lambda: begin(db, "s"), then))
    assert contents(db.get_messages("s")) == ["one", "two"]


def test_a_store_in_memory_takes_visits(pool: DaemonPool) -> None:
    with SessionDB(":memory:") as db:
        assert run(db.visit(pool, lambda: begin(db, "s"))) == "s"
        assert db.look("s").messages == 2


def test_visits_that_wait_when_the_store_closes_are_made_or_refused(
    engine: SqliteEngine, pool: DaemonPool
) -> None:
    db = SessionDB.on(engine)
    gate = Gate(engine)

    async def scenario() -> list[Any]:
        visits = [asyncio.ensure_future(db.visit(pool, partial(begin, db, name))) for name in ("a", "b")]
        await asyncio.sleep(0)  # noqa: TID251 - both are submitted
        closing = threading.Thread(target=engine.close)
        closing.start()
        gate.opened.set()
        return await asyncio.gather(*visits, return_exceptions=True)

    assert run(scenario()) == ["a", "b"]  # what was submitted before is finished
