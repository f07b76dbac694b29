"""A conversation's runner walks its table with real hosts, whatever happens in whatever order."""

import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from typing import cast

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from holdfast.core.clock import SystemClock
from holdfast.sessions import Engine, SessionDB
from holdfast.sessions.postgres import PostgresEngine
from holdfast.sessions.sqlite import SqliteEngine
from tests.host.runner_machine import RunnerMachine
from tests.sessions.databases import PostgresPlace
from tests.sessions.machines.profiles import long, short
from tests.sessions.machines.store_processes import MEMORY_DISK

pytestmark = [pytest.mark.timeout(900), pytest.mark.clause("I1", "I3", "I7")]

NewStore = Callable[[], Callable[[], Engine]]
"""Makes a store of its own, and returns what opens it."""
EMPTIED = "truncate sessions, turns, messages, inbox, outbox, leases, deletions restart identity cascade"


@pytest.fixture
def sqlite_stores() -> Iterator[NewStore]:
    room = MEMORY_DISK if MEMORY_DISK.is_dir() else None
    with tempfile.TemporaryDirectory(dir=room, prefix="holdfast-") as folder:
        numbers = count()

        def new_store() -> Callable[[], Engine]:
            path = f"{folder}/{next(numbers)}.db"
            return lambda: SqliteEngine(path, clock=SystemClock(), patience=30)

        yield new_store


@pytest.fixture
def postgres_stores(postgres: str) -> Iterator[NewStore]:
    place = PostgresPlace(postgres)
    SessionDB.open(place.url).close()

    def new_store() -> Callable[[], Engine]:
        place.connection.execute(EMPTIED)
        return lambda: PostgresEngine(place.url, patience=30)

    yield new_store
    place.drop()


def walk(new_store: NewStore, profile: settings) -> None:
    # Anything that makes a machine will do, whatever the annotation says.
    maker = cast(type[RuleBasedStateMachine], lambda: RunnerMachine(new_store))
    run_state_machine_as_test(maker, settings=profile)


def test_a_short_walk_on_sqlite_keeps_every_promise(sqlite_stores: NewStore) -> None:
    walk(sqlite_stores, short(10))


@pytest.mark.slow
def test_a_short_walk_on_postgres_keeps_every_promise(postgres_stores: NewStore) -> None:
    walk(postgres_stores, short(4))


@pytest.mark.soak
def test_long_random_walks_on_sqlite_keep_every_promise(sqlite_stores: NewStore) -> None:
    walk(sqlite_stores, long(60))


@pytest.mark.soak
def test_long_random_walks_on_postgres_keep_every_promise(postgres_stores: NewStore) -> None:
    walk(postgres_stores, long(10))
