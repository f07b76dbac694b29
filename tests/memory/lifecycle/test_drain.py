"""Shutdown commits what it can within its time, and says what is left."""

import subprocess
import sys
import time

import pytest

from holdfast.testing import FakeClock
from tests.memory.lifecycle.worlds import LONG, SID, Died, FakeAgent, World, beside, in_flight, until


@pytest.mark.clause("L7")
def test_shutdown_waits_for_a_commit_in_flight_and_flushes_what_came_meanwhile(world: World) -> None:
    clock = FakeClock()
    life = world.restarted_with(clock)
    agent = FakeAgent()
    world.complete(agent=agent)
    commit = in_flight(world, agent)
    world.complete(agent=agent)
    drain = beside(life.drain_all_on_shutdown)
    assert clock.wait_for_waiters(2)
    assert (drain.done(), agent.calls) == (False, 1)
    agent.release()
    assert (commit.result(LONG), drain.result(LONG)) == (True, [])
    assert (agent.calls, world.dirty()) == (2, False)


@pytest.mark.clause("L7")
def test_shutdown_gives_up_on_a_commit_that_is_stuck_and_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    life = world.restarted_with(clock)
    stuck, well = FakeAgent("stuck"), FakeAgent("well")
    world.complete("stuck", stuck)
    world.complete("well", well)
    commit = in_flight(world, stuck, "stuck")
    drain = beside(life.drain_all_on_shutdown)
    until(lambda: not world.life.has_uncommitted_work("well"))
    assert clock.wait_for_waiters(2)
    clock.advance(10)
    assert drain.result(LONG) == ["stuck"]
    assert (world.dirty("stuck"), world.dirty("well")) == (True, False)
    assert [record.__dict__["sessions"] for record in caplog.records] == [["stuck"]]
    stuck.release()
    assert commit.result(LONG) is True


@pytest.mark.clause("L7")
def test_shutdown_is_bounded_when_its_own_commit_is_stuck(world: World) -> None:
    clock = FakeClock()
    life = world.restarted_with(clock)
    agent = FakeAgent()
    agent.hold()
    world.complete(agent=agent)
    drain = beside(lambda: life.drain_all_on_shutdown(timeout=2))
    assert agent.entered.wait(LONG)
    assert clock.wait_for_waiters()
    clock.advance(2)
    assert drain.result(LONG) == [SID]
    agent.release()


def test_shutdown_commits_every_dirty_session_and_every_segment(world: World) -> None:
    agents = [FakeAgent(str(number)) for number in range(24)]
    for number, agent in enumerate(agents):
        world.complete(f"s{number % 12}", agent)
    world.life.unregister_agent("s3")
    assert world.life.drain_all_on_shutdown() == []
    assert [agent.calls for agent in agents] == [1] * 24
    assert world.life.drain_all_on_shutdown() == []


@pytest.mark.clause("L7")
def test_a_session_that_is_dirty_again_while_another_drains_is_drained_again(world: World) -> None:
    quick = FakeAgent("quick")

    class Slow(FakeAgent):
        def commit_memory_session(self) -> bool | None:
            until(lambda: not world.life.has_uncommitted_work("quick"))
            world.complete("quick", quick)
            return super().commit_memory_session()

    world.complete("slow", Slow())
    world.complete("quick", quick)
    assert world.life.drain_all_on_shutdown() == []
    assert (quick.calls, world.dirty("quick")) == (2, False)


@pytest.mark.parametrize("failure", [RuntimeError("down"), False, Died()])
def test_a_session_that_fails_at_shutdown_stays_dirty_and_stops_no_other(
    world: World, failure: BaseException | bool
) -> None:
    bad, good, unowned = FakeAgent("bad"), FakeAgent("good"), "unowned"
    bad.next_outcomes = [failure]
    world.complete("bad", bad)
    world.complete(unowned)
    world.complete("good", good)
    assert sorted(world.life.drain_all_on_shutdown()) == ["bad", unowned]
    assert (bad.calls, good.calls) == (1, 1)
    assert world.life.drain_all_on_shutdown() == [unowned]


EXITING = """
import atexit, threading
from holdfast.memory import SessionLifecycle

life = SessionLifecycle(commit_timeout=0.2)

class Agent:
    def commit_memory_session(self):
        {body}

life.mark_turn_completed("s1", Agent())
{end}
"""


def run_child(body: str, end: str) -> tuple[str, float]:
    began = time.monotonic()
    script = EXITING.format(body=body, end=end)
    child = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=LONG, check=True
    )
    return child.stdout, time.monotonic() - began


@pytest.mark.clause("L7")
def test_the_drain_works_while_the_interpreter_exits() -> None:
    out, _ = run_child("print('committed')", "atexit.register(life.drain_all_on_shutdown)")
    assert out == "committed\n"


@pytest.mark.clause("L7", "X1")
def test_a_commit_that_is_stuck_for_ever_does_not_keep_the_process_alive() -> None:
    out, took = run_child("threading.Event().wait()", "print(life.drain_all_on_shutdown())")
    assert out == "['s1']\n"
    assert took < 8
