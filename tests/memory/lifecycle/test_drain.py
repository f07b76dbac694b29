"""Shutdown commits what it can within its time, and says what is left."""

import subprocess
import sys
import time

import pytest

from holdfast.testing import FakeClock
from tests.memory.lifecycle.lifecycle_harness import (
    LONG,
    SID,
    Died,
    FakeAgent,
    LifecycleHarness,
    in_thread,
    start_commit,
    until,
)


@pytest.mark.clause("L7")
def test_shutdown_waits_for_a_commit_in_flight_and_flushes_what_came_meanwhile(
    harness: LifecycleHarness,
) -> None:
    clock = FakeClock()
    life = harness.restarted_with(clock)
    agent = FakeAgent()
    harness.complete(agent=agent)
    commit = start_commit(harness, agent)
    harness.complete(agent=agent)
    drain = in_thread(life.drain_all_on_shutdown)
    assert clock.wait_for_waiters(2)
    assert (drain.done(), agent.calls) == (False, 1)
    agent.release()
    assert (commit.result(LONG), drain.result(LONG)) == (True, [])
    assert (agent.calls, harness.dirty()) == (2, False)


@pytest.mark.clause("L7")
def test_shutdown_gives_up_on_a_commit_that_is_stuck_and_says_so(
    harness: LifecycleHarness, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    life = harness.restarted_with(clock)
    stuck, well = FakeAgent("stuck"), FakeAgent("well")
    harness.complete("stuck", stuck)
    harness.complete("well", well)
    commit = start_commit(harness, stuck, "stuck")
    drain = in_thread(life.drain_all_on_shutdown)
    until(lambda: not harness.life.has_uncommitted_work("well"))
    assert clock.wait_for_waiters(2)
    clock.advance(10)
    assert drain.result(LONG) == ["stuck"]
    assert (harness.dirty("stuck"), harness.dirty("well")) == (True, False)
    assert [record.__dict__["sessions"] for record in caplog.records] == [["stuck"]]
    stuck.release()
    assert commit.result(LONG) is True


@pytest.mark.clause("L7")
def test_shutdown_is_bounded_when_its_own_commit_is_stuck(harness: LifecycleHarness) -> None:
    clock = FakeClock()
    life = harness.restarted_with(clock)
    agent = FakeAgent()
    agent.hold()
    harness.complete(agent=agent)
    drain = in_thread(lambda: life.drain_all_on_shutdown(timeout=2))
    assert agent.entered.wait(LONG)
    assert clock.wait_for_waiters()
    clock.advance(2)
    assert drain.result(LONG) == [SID]
    agent.release()


def test_shutdown_commits_every_dirty_session_and_every_segment(harness: LifecycleHarness) -> None:
    agents = [FakeAgent(str(number)) for number in range(24)]
    for number, agent in enumerate(agents):
        harness.complete(f"s{number % 12}", agent)
    harness.life.unregister_agent("s3")
    assert harness.life.drain_all_on_shutdown() == []
    assert [agent.calls for agent in agents] == [1] * 24
    assert harness.life.drain_all_on_shutdown() == []


@pytest.mark.clause("L7")
def test_a_session_that_is_dirty_again_while_another_drains_is_drained_again(
    harness: LifecycleHarness,
) -> None:
    quick = FakeAgent("quick")

    class Slow(FakeAgent):
        def commit_memory_session(self) -> bool | None:
            until(lambda: not harness.life.has_uncommitted_work("quick"))
            harness.complete("quick", quick)
            return super().commit_memory_session()

    harness.complete("slow", Slow())
    harness.complete("quick", quick)
    assert harness.life.drain_all_on_shutdown() == []
    assert (quick.calls, harness.dirty("quick")) == (2, False)


@pytest.mark.parametrize("failure", [RuntimeError("down"), False, Died()])
def test_a_session_that_fails_at_shutdown_stays_dirty_and_stops_no_other(
    harness: LifecycleHarness, failure: BaseException | bool
) -> None:
    bad, good, unowned = FakeAgent("bad"), FakeAgent("good"), "unowned"
    bad.next_outcomes = [failure]
    harness.complete("bad", bad)
    harness.complete(unowned)
    harness.complete("good", good)
    assert sorted(harness.life.drain_all_on_shutdown()) == ["bad", unowned]
    assert (bad.calls, good.calls) == (1, 1)
    assert harness.life.drain_all_on_shutdown() == [unowned]


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
