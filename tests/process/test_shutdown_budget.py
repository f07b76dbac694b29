"""One deadline for everything that drains."""

import math
import threading

import pytest

from holdfast.process import ShutdownBudget, StageTime
from holdfast.testing.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_what_one_drain_spends_the_next_does_not_get(clock: FakeClock) -> None:
    budget = ShutdownBudget(5.0, clock)
    assert budget.allow(3.0) == 3.0
    clock.advance(3.5)
    assert budget.spent == pytest.approx(3.5)
    assert budget.remaining() == pytest.approx(1.5)
    assert budget.allow(3.0) == pytest.approx(1.5)
    assert budget.allow(-1.0) == 0.0
    clock.advance(2.0)
    assert budget.remaining() == budget.allow(3.0) == 0.0


def test_a_budget_expires_at_its_deadline(clock: FakeClock) -> None:
    budget = ShutdownBudget(5.0, clock)
    seen = []
    for _ in range(3):
        seen.append(budget.expired)
        clock.advance(2.5)
    assert seen == [False, False, True]


def test_a_budget_of_nothing_is_expired_from_the_start(clock: FakeClock) -> None:
    assert ShutdownBudget(0, clock).expired


@pytest.mark.parametrize("seconds", [-0.1, math.inf, math.nan])
def test_a_budget_that_is_no_time_is_refused(clock: FakeClock, seconds: float) -> None:
    with pytest.raises(ValueError, match=f"not {seconds}"):
        ShutdownBudget(seconds, clock)


@pytest.mark.clause("X3")
def test_other_threads_can_read_what_is_waited_for(clock: FakeClock) -> None:
    budget = ShutdownBudget(5.0, clock)
    seen = [budget.waiting_for]
    with budget.stage("memory lanes"), budget.stage("store"), budget.stage("memory lanes"):
        clock.advance(1.0)
        seen.append(budget.waiting_for)
    seen.append(budget.waiting_for)
    assert seen == [(), ("memory lanes", "store", "memory lanes"), ()]
    assert [stage.name for stage in budget.stages] == ["memory lanes", "store", "memory lanes"]


def test_a_stage_that_fails_has_ended_too(clock: FakeClock) -> None:
    budget = ShutdownBudget(5.0, clock)

    def drain() -> None:
        with budget.stage("store"):
            clock.advance(2.0)
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        drain()
    assert budget.waiting_for == ()
    assert budget.stages == (StageTime("store", 2.0),)


def test_a_wait_ends_when_its_event_is_set(clock: FakeClock) -> None:
    done = threading.Event()
    done.set()
    assert ShutdownBudget(5.0, clock).wait(done)
    assert ShutdownBudget(0.0, clock).wait(done)


@pytest.mark.parametrize(("budget_s", "at_most"), [(5.0, math.inf), (60.0, 5.0)])
def test_a_wait_ends_with_its_time_or_with_the_budget(
    clock: FakeClock, budget_s: float, at_most: float
) -> None:
    budget = ShutdownBudget(budget_s, clock)
    answers: list[bool] = []
    waiter = threading.Thread(
        target=lambda: answers.append(budget.wait(threading.Event(), at_most)), daemon=True
    )
    waiter.start()
    assert clock.wait_for_waiters()
    clock.advance(4.0)
    assert clock.wait_for_waiters()
    assert answers == []
    clock.advance(1.0)
    waiter.join(20)
    assert answers == [False]


@pytest.mark.clause("X4")
def test_skipping_what_is_left_ends_a_wait_that_is_under_way(clock: FakeClock) -> None:
    budget = ShutdownBudget(60.0, clock)
    answers: list[bool] = []
    waiter = threading.Thread(target=lambda: answers.append(budget.wait(threading.Event())), daemon=True)
    waiter.start()
    assert clock.wait_for_waiters()
    budget.expire()
    clock.advance(0.1)
    waiter.join(20)
    assert answers == [False]
    assert budget.expired
    assert budget.remaining() == 0.0
