"""The durable machines, each beside its model, with crashes before and after every commit."""

from collections.abc import Callable, Iterator
from typing import cast

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.sessions.machines.journal_machine import JournalMachine
from tests.sessions.machines.lease_machine import LeaseMachine
from tests.sessions.machines.outbox_machine import OutboxMachine
from tests.sessions.machines.profiles import long, short
from tests.sessions.machines.schedule_machine import ScheduleMachine
from tests.sessions.machines.store_processes import NewDatabase, postgres_databases, sqlite_databases

Machine = Callable[[NewDatabase], RuleBasedStateMachine]


@pytest.fixture
def sqlite_database() -> Iterator[NewDatabase]:
    with sqlite_databases() as new_database:
        yield new_database


@pytest.fixture
def postgres_database(postgres: str) -> Iterator[NewDatabase]:
    with postgres_databases(postgres) as new_database:
        yield new_database


def run(machine: Machine, new_database: NewDatabase, profile: settings) -> None:
    # Anything that makes a machine will do, whatever the annotation says.
    maker = cast(type[RuleBasedStateMachine], lambda: machine(new_database))
    run_state_machine_as_test(maker, settings=profile)


durable_machines = pytest.mark.parametrize(
    "machine",
    [
        pytest.param(JournalMachine, marks=pytest.mark.clause("D1", "D10", "C6", "C7", "I1")),
        pytest.param(LeaseMachine, marks=pytest.mark.clause("C3", "C5")),
        pytest.param(OutboxMachine, marks=pytest.mark.clause("D1", "D2", "D3", "M6")),
        ScheduleMachine,
    ],
)


@pytest.mark.timeout(900)
@durable_machines
def test_a_short_story_on_sqlite_ends_as_the_model_says(
    machine: Machine, sqlite_database: NewDatabase
) -> None:
    run(machine, sqlite_database, short(8))


@pytest.mark.slow
@pytest.mark.timeout(900)
@durable_machines
def test_a_short_story_on_postgres_ends_as_the_model_says(
    machine: Machine, postgres_database: NewDatabase
) -> None:
    run(machine, postgres_database, short(4))


@pytest.mark.soak
@pytest.mark.timeout(900)
@durable_machines
def test_hundreds_of_random_stories_on_sqlite_end_as_the_model_says(
    machine: Machine, sqlite_database: NewDatabase
) -> None:
    run(machine, sqlite_database, long(300))


@pytest.mark.soak
@pytest.mark.timeout(900)
@durable_machines
def test_random_stories_on_postgres_end_as_the_model_says(
    machine: Machine, postgres_database: NewDatabase
) -> None:
    run(machine, postgres_database, long(30))
