"""The lifecycle beside its model, with commits that fail, hang and die, and processes that crash."""

from collections.abc import Iterator
from typing import cast

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.memory.lifecycle.lifecycle_machine import LifecycleMachine
from tests.sessions.machines.playground import NewGround, postgres_grounds, sqlite_grounds
from tests.sessions.machines.profiles import long, short

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.clause("L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L13"),
]


@pytest.fixture
def sqlite_ground() -> Iterator[NewGround]:
    with sqlite_grounds() as new_ground:
        yield new_ground


@pytest.fixture
def postgres_ground(postgres: str) -> Iterator[NewGround]:
    with postgres_grounds(postgres) as new_ground:
        yield new_ground


def run(new_ground: NewGround, profile: settings) -> None:
    # Anything that makes a machine will do, whatever the annotation says.
    maker = cast(type[RuleBasedStateMachine], lambda: LifecycleMachine(new_ground))
    run_state_machine_as_test(maker, settings=profile)


def test_a_short_story_on_sqlite_ends_as_the_model_says(sqlite_ground: NewGround) -> None:
    run(sqlite_ground, short(40))


@pytest.mark.slow
def test_a_short_story_on_postgres_ends_as_the_model_says(postgres_ground: NewGround) -> None:
    run(postgres_ground, short(6))


@pytest.mark.slow
def test_hundreds_of_random_stories_on_sqlite_end_as_the_model_says(sqlite_ground: NewGround) -> None:
    run(sqlite_ground, long(300))


@pytest.mark.slow
def test_random_stories_on_postgres_end_as_the_model_says(postgres_ground: NewGround) -> None:
    run(postgres_ground, long(30))
