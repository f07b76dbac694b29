"""The write lanes under failure, latency, duplication, crash and restart, one step at a time."""

import logging
from collections.abc import Iterator
from typing import cast

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.memory.lanes.lanes_machine import LanesMachine
from tests.sessions.machines.playground import NewGround, postgres_grounds, sqlite_grounds
from tests.sessions.machines.profiles import long, short

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.clause("M2", "M6", "D1", "D2", "D3", "D4", "D8"),
]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of failures on purpose would bury the one that matters."""
    caplog.set_level(logging.CRITICAL, logger="holdfast.memory")


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
    maker = cast(type[RuleBasedStateMachine], lambda: LanesMachine(new_ground))
    run_state_machine_as_test(maker, settings=profile)


def test_a_short_story_on_sqlite_loses_nothing(sqlite_ground: NewGround) -> None:
    run(sqlite_ground, short(15))


@pytest.mark.slow
def test_a_short_story_on_postgres_loses_nothing(postgres_ground: NewGround) -> None:
    run(postgres_ground, short(3))


@pytest.mark.slow
def test_hundreds_of_random_stories_on_sqlite_lose_nothing(sqlite_ground: NewGround) -> None:
    run(sqlite_ground, long(300))


@pytest.mark.slow
def test_random_stories_on_postgres_lose_nothing(postgres_ground: NewGround) -> None:
    run(postgres_ground, long(30))
