"""A conversation is deleted while people speak in it: each word is deleted with the rest, or kept and run."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import PoolSaturated, StoreUnreachable
from holdfast.host import SessionHost
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Operation, Transaction
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing.faults import EngineProxy, Moment, name_of
from tests.agent.agent_fixtures import DEADLINE, Hold, until
from tests.host.host_fixtures import QUICK, a_host, host_parts, until_turns_end

pytestmark = pytest.mark.clause("I1")

T = TypeVar("T")
Wait = Callable[[Awaitable[Any]], Any]


class DeletingEngine(EngineProxy):
    """An engine that stops right before or after one operation, or fails once a deletion is stored."""

    fails = False
    is_broken = False

    def __init__(self, engine: SqliteEngine) -> None:
        super().__init__(engine)
        self._held: tuple[str, Moment] | None = None
        self.reached = threading.Event()
        self.opened = threading.Event()

    def hold(self, moment: Moment, name: str) -> None:
        """Hold the next operation of this name, until it is opened."""
        self._held = name, moment

    def changed(self, work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        if self.is_broken:
            raise StoreUnreachable("the store", "it is broken")
        return work

    def write(self, work: Callable[[Transaction], T]) -> T:
        self._wait_at(name_of(work), "before")
        result = super().write(work)
        self.is_broken = self.fails and name_of(work) == "delete_conversation"
        self._wait_at(name_of(work), "after")
        return result

    async def run(self, operation: Operation[T], pool: DaemonPool) -> T:
        await off_loop(pool, self._wait_at, operation.name, "before")
        try:
            return await super().run(operation, pool)
        finally:
            await off_loop(pool, self._wait_at, operation.name, "after")

    def _wait_at(self, name: str, moment: Moment) -> None:
        if self._held == (name, moment):
            self._held = None
            self.reached.set()
            assert self.opened.wait(DEADLINE)


@pytest.fixture
def engine(tmp_path: Path) -> DeletingEngine:
    return DeletingEngine(SqliteEngine(f"{tmp_path}/holdfast.db", clock=SystemClock(), patience=30))


@pytest.fixture
def db(engine: DeletingEngine) -> Iterator[SessionDB]:
    with SessionDB.on(engine) as opened:
        yield opened


def test_a_conversation_that_begins_again_before_its_deletion_returns_is_kept_and_held(
    engine: DeletingEngine, db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        hold = Hold()
        parts = host_parts(db, ["one", hold, "three"], options=replace(QUICK, agents=0))
        async with SessionHost(parts) as host:
            await host.send("s", "first")
            await until_turns_end(host, "s")
            engine.hold("after", "delete_conversation")
            deleting = asyncio.create_task(host.delete("s", force=True))
            assert await off_loop(parts.pools.work, engine.reached.wait, DEADLINE)
            await host.send("s", "second")
            await hold.reached.wait()
            engine.opened.set()
            await deleting
            assert db.hold_session("s", "another process") is None
            assert (await host.overview.status()).running == ["s"]
            assert host._conversations.agents.victims() == []  # noqa: SLF001 - none is idle
            assert await host.interrupt("s", "third")
            await until(lambda: _said(db) == ["second", "third"])

    wait(scenario())


def test_a_message_on_its_way_while_its_conversation_is_deleted_and_begins_again_runs(
    engine: DeletingEngine, db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        parts = host_parts(db, ["one", "two"])
        async with SessionHost(parts) as host:
            await host.send("s", "first")
            await until_turns_end(host, "s")
            engine.hold("before", "send_message")
            sending = asyncio.create_task(host.send("s", "second"))
            assert await off_loop(parts.pools.work, engine.reached.wait, DEADLINE)
            await host.delete("s", force=True)
            db.create_session("s", source="another process")
            engine.opened.set()
            await sending
            await until(lambda: _said(db) == ["second"])

    wait(scenario())


def test_a_message_that_is_accepted_before_its_host_knows_of_the_deletion_runs(
    engine: DeletingEngine, db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        parts = host_parts(db, ["one", "two"])
        async with SessionHost(parts) as host:
            await host.send("s", "first")
            await until_turns_end(host, "s")
            engine.hold("after", "delete_conversation")
            deleting = asyncio.create_task(host.delete("s", force=True))
            assert await off_loop(parts.pools.work, engine.reached.wait, DEADLINE)
            db.create_session("s", source="another process")
            await host.send("s", "second")
            engine.opened.set()
            await deleting
            await until(lambda: _said(db) == ["second"])

    wait(scenario())


def test_a_late_word_of_a_deletion_keeps_no_lease_of_the_conversation_that_began_since(
    engine: DeletingEngine, db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        hold = Hold()
        parts = host_parts(db, ["one", hold, "three"])
        async with SessionHost(parts) as host:
            await host.send("s", "first")
            await until_turns_end(host, "s")
            await until(lambda: db.session_holder("s") is None)
            db.delete_session("s", force=True)
            engine.hold("after", "send_message")
            late = asyncio.create_task(host.send("s", "third"))
            assert await off_loop(parts.pools.work, engine.reached.wait, DEADLINE)
            db.create_session("s", source="another process")
            await host.send("s", "second")
            await hold.reached.wait()
            engine.opened.set()
            await late
            hold.opened.set()
            await until(lambda: _said(db) == ["second", "third"])

    wait(scenario())


def test_a_deletion_that_is_stored_is_reported_as_done_whatever_happens_to_the_store_then(
    engine: DeletingEngine, db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        async with a_host(db, ["one", "two"]) as host:
            await host.send("s", "first")
            await until_turns_end(host, "s")
            engine.fails = True
            await host.delete("s", force=True)
            engine.is_broken = False
            assert db.get_session("s") is None

    wait(scenario())


def test_a_deletion_that_is_interrupted_too_late_is_reported_as_done(
    engine: DeletingEngine, db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        parts = host_parts(db, ["one", "two"])
        async with SessionHost(parts) as host:
            await host.send("s", "first")
            await until_turns_end(host, "s")
            engine.hold("before", "delete_conversation")
            deleting = asyncio.create_task(host.delete("s", force=True))
            assert await off_loop(parts.pools.work, engine.reached.wait, DEADLINE)
            assert await host.interrupt("s")
            engine.opened.set()
            await deleting
            assert db.get_session("s") is None
            await host.send("s", "second")
            await until(lambda: _said(db) == ["second"])

    wait(scenario())


def test_outputs_that_stay_behind_are_no_reason_to_report_a_deletion_as_failed(
    db: SessionDB, wait: Wait
) -> None:
    def full(_: str) -> None:
        raise PoolSaturated("work", 1, 1)

    async def scenario() -> None:
        async with SessionHost(replace(host_parts(db, ["one"]), forget_outputs=full)) as host:
            await host.send("s", "first")
            await until_turns_end(host, "s")
            await host.delete("s", force=True)
            assert db.get_session("s") is None

    wait(scenario())


def test_what_a_deleted_conversation_kept_is_removed_before_the_next_one_of_its_name_runs(
    engine: DeletingEngine, db: SessionDB, wait: Wait
) -> None:
    begun: list[bool] = []

    async def scenario() -> None:
        def forget(_: str) -> None:
            begun.append("s" in host._conversations.opened)  # noqa: SLF001

        parts = replace(host_parts(db, ["one", "two"]), forget_outputs=forget)
        async with SessionHost(parts) as host:
            await host.send("s", "first")
            await until_turns_end(host, "s")
            engine.hold("after", "delete_conversation")
            deleting = asyncio.create_task(host.delete("s", force=True))
            assert await off_loop(parts.pools.work, engine.reached.wait, DEADLINE)
            db.create_session("s", source="another process")
            await host.send("s", "second")
            engine.opened.set()
            await deleting
            await until(lambda: _said(db) == ["second"])
            assert begun == [False]

    wait(scenario())


def _said(db: SessionDB) -> list[Any]:
    return [each["content"] for each in db.get_messages("s") if each["role"] == "user"]
