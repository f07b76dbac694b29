"""The durable machines, each beside its model, with crashes before and after every commit."""

from collections.abc import Callable, Iterator
from typing import cast

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.sessions.machines.journal_machine import JournalMachine
from tests.sessions.machines.lease_machine import LeaseMachine
from tests.sessions.machines.outbox_machine import OutboxMachine
from tests.sessions.machines.playground import NewGround, postgres_grounds, sqlite_grounds
from tests.sessions.machines.profiles import long, short

Machine = Callable[[NewGround], RuleBasedStateMachine]


@pytest.fixture
def sqlite_ground() -> Iterator[NewGround]:
    with sqlite_grounds() as new_ground:
        yield new_ground


@pytest.fixture
def postgres_ground(postgres: str) -> Iterator[NewGround]:
    with postgres_grounds(postgres) as new_ground:
        yield new_ground


def run(machine: Machine, new_ground: NewGround, profile: settings) -> None:
    # Anything that makes a machine will do, whatever the annotation says.
    maker = cast(type[RuleBasedStateMachine], lambda: machine(new_ground))
    run_state_machine_as_test(maker, settings=profile)


durable_machines = pytest.mark.parametrize(
    "machine",
    [
        pytest.param(JournalMachine, marks=pytest.mark.clause("D1", "D10", "C6", "C7", "I1")),
        pytest.param(LeaseMachine, marks=pytest.mark.clause("C3", "C5")),
        pytest.param(OutboxMachine, marks=pytest.mark.clause("D1", "D2", "D3", "M6")),
    ],
)


@pytest.mark.timeout(900)
@durable_machines
def test_a_short_story_on_sqlite_ends_as_the_model_says(machine: Machine, sqlite_ground: NewGround) -> None:
    run(machine, sqlite_ground, short(8))


@pytest.mark.slow
@pytest.mark.timeout(900)
@durable_machines
def test_a_short_story_on_postgres_ends_as_the_model_says(
    machine: Machine, postgres_ground: NewGround
) -> None:
    run(machine, postgres_ground, short(4))


@pytest.mark.slow
@pytest.mark.timeout(900)
@durable_machines
def test_hundreds_of_random_stories_on_sqlite_end_as_the_model_says(
    machine: Machine, sqlite_ground: NewGround
) -> None:
    run(machine, sqlite_ground, long(300))


@pytest.mark.slow
@pytest.mark.timeout(900)
@durable_machines
def test_random_stories_on_postgres_end_as_the_model_says(
    machine: Machine, postgres_ground: NewGround
) -> None:
    run(machine, postgres_ground, long(30))
