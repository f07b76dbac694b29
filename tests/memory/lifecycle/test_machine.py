"""The lifecycle in_thread its model, with commits that fail, hang and die, and processes that crash."""

from collections.abc import Iterator
from typing import cast

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.memory.lifecycle.lifecycle_machine import LifecycleMachine
from tests.sessions.machines.profiles import long, short
from tests.sessions.machines.store_processes import NewDatabase, postgres_databases, sqlite_databases

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.clause("L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L13"),
]


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
    maker = cast(type[RuleBasedStateMachine], lambda: LifecycleMachine(new_database))
    run_state_machine_as_test(maker, settings=profile)


def test_a_short_story_on_sqlite_ends_as_the_model_says(sqlite_database: NewDatabase) -> None:
    run(sqlite_database, short(40))


@pytest.mark.slow
def test_a_short_story_on_postgres_ends_as_the_model_says(postgres_database: NewDatabase) -> None:
    run(postgres_database, short(6))


@pytest.mark.soak
def test_hundreds_of_random_stories_on_sqlite_end_as_the_model_says(sqlite_database: NewDatabase) -> None:
    run(sqlite_database, long(300))


@pytest.mark.soak
def test_random_stories_on_postgres_end_as_the_model_says(postgres_database: NewDatabase) -> None:
    run(postgres_database, long(30))
