"""The write lanes under failure, latency, duplication, crash and restart, one step at a time."""

import logging
from collections.abc import Iterator
from typing import cast

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.memory.lanes.lanes_machine import LanesMachine
from tests.sessions.machines.profiles import long, short
from tests.sessions.machines.store_processes import NewDatabase, postgres_databases, sqlite_databases

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.clause("M2", "M6", "D1", "D2", "D3", "D4", "D8"),
]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of failures on purpose would bury the one that matters."""
    caplog.set_level(logging.CRITICAL, logger="holdfast.memory")


@pytest.fixture
def sqlite_database() -> Iterator[NewDatabase]:
    with sqlite_databases() as new_database:
        yield new_database


@pytest.fixture
def postgres_database(postgres: str) -> Iterator[NewDatabase]:
    with postgres_databases(postgres) as new_database:
        yield new_database


def run(new_database: NewDatabase, profile: settings) -> None:
    # Anything that makes a machine will do, whatever the annotation says.
    maker = cast(type[RuleBasedStateMachine], lambda: LanesMachine(new_database))
    run_state_machine_as_test(maker, settings=profile)


def test_a_short_story_on_sqlite_loses_nothing(sqlite_database: NewDatabase) -> None:
    run(sqlite_database, short(15))


@pytest.mark.slow
def test_a_short_story_on_postgres_loses_nothing(postgres_database: NewDatabase) -> None:
    run(postgres_database, short(3))


@pytest.mark.soak
def test_hundreds_of_random_stories_on_sqlite_lose_nothing(sqlite_database: NewDatabase) -> None:
    run(sqlite_database, long(300))


@pytest.mark.soak
def test_random_stories_on_postgres_lose_nothing(postgres_database: NewDatabase) -> None:
    run(postgres_database, long(30))
