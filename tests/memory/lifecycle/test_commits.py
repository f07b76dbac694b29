"""A boundary commits the completed turns: once, truthfully, and without losing what comes meanwhile."""

import logging
import threading

import pytest

from holdfast.memory import SessionLifecycle
from holdfast.testing import FakeClock
from tests.memory.lifecycle.lifecycle_harness import (
    LONG,
    SID,
    Died,
    FakeAgent,
    LifecycleHarness,
    in_thread,
    start_commit,
)


@pytest.mark.clause("L1")
def test_a_registered_session_without_a_completed_turn_commits_nothing(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    harness.life.register_agent(SID, agent)
    assert not harness.dirty()
    assert harness.life.commit_session_memory(SID) is False
    assert harness.life.commit_session_memory(SID, agent, wait=True) is False
    assert agent.calls == 0


@pytest.mark.clause("L2")
def test_any_number_of_completed_turns_is_one_commit(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    harness.life.register_agent(SID, agent)
    assert [harness.complete(), harness.complete(agent=agent), harness.complete()] == [1, 2, 3]
    assert harness.dirty()
    assert harness.life.commit_session_memory(SID) is True
    assert not harness.dirty()
    assert agent.calls == 1


@pytest.mark.clause("L2")
def test_a_second_commit_with_nothing_new_is_a_no_op(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    harness.complete(agent=agent)
    assert harness.life.commit_session_memory(SID) is True
    assert harness.life.commit_session_memory(SID) is False
    assert harness.life.commit_session_memory(SID, agent, wait=True) is False
    assert agent.calls == 1


@pytest.mark.clause("L2")
def test_turns_on_both_sides_of_a_failed_commit_are_one_commit(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    harness.complete(agent=agent)
    agent.next_outcomes = [RuntimeError("down")]
    commit = start_commit(harness, agent)
    harness.complete(agent=agent)
    agent.release()
    assert commit.result(LONG) is False
    assert harness.life.commit_session_memory(SID) is True
    assert not harness.dirty()
    assert agent.calls == 2


@pytest.mark.clause("L3")
@pytest.mark.parametrize("wait", [False, True])
def test_a_late_commit_does_not_clear_a_turn_completed_while_it_ran(
    harness: LifecycleHarness, wait: bool
) -> None:
    agent = FakeAgent()
    harness.life.register_agent(SID, agent)
    harness.complete(agent=agent)
    agent.hold()
    late = in_thread(lambda: harness.life.commit_session_memory(SID, wait=wait))
    assert agent.entered.wait(LONG)
    assert harness.complete() == 2
    agent.release()
    assert late.result(LONG) is True
    assert (agent.calls, harness.dirty()) == (1, True)
    assert harness.life.commit_session_memory(SID) is True
    assert (agent.calls, harness.dirty()) == (2, False)


@pytest.mark.clause("L4")
@pytest.mark.parametrize("failure", [RuntimeError("the provider is down"), False], ids=["raises", "False"])
def test_a_failed_commit_keeps_the_mark_and_the_registered_handle(
    harness: LifecycleHarness, failure: BaseException | bool, caplog: pytest.LogCaptureFixture
) -> None:
    agent = FakeAgent()
    agent.next_outcomes = [failure]
    harness.life.register_agent(SID, agent)
    harness.complete()
    with caplog.at_level(logging.WARNING, "holdfast.memory.lifecycle"):
        assert harness.life.commit_session_memory(SID) is False
    assert [record.__dict__["session"] for record in caplog.records] == [SID]
    assert harness.dirty()
    assert harness.life.commit_session_memory(SID) is True
    assert (agent.calls, harness.dirty()) == (2, False)


@pytest.mark.clause("L4")
def test_a_failed_commit_keeps_the_handle_that_was_passed_in(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    agent.next_outcomes = [RuntimeError("down"), False]
    harness.complete()
    assert harness.life.commit_session_memory(SID) is False
    assert agent.calls == 0
    assert harness.life.commit_session_memory(SID, agent) is False
    assert harness.life.commit_session_memory(SID, FakeAgent("another")) is False
    assert harness.dirty()
    assert harness.life.commit_session_memory(SID) is True
    assert (agent.calls, harness.dirty()) == (3, False)


@pytest.mark.clause("L4")
def test_the_handle_that_failed_survives_a_replacement_and_an_unregistration(
    harness: LifecycleHarness,
) -> None:
    old, new = FakeAgent("old"), FakeAgent("new")
    old.next_outcomes = [RuntimeError("down")]
    harness.life.register_agent(SID, old)
    harness.complete()
    assert harness.life.commit_session_memory(SID) is False
    harness.life.register_agent(SID, new)
    harness.life.unregister_agent(SID)
    assert harness.life.commit_session_memory(SID) is True
    assert (old.calls, new.calls) == (2, 0)


@pytest.mark.clause("L4")
@pytest.mark.parametrize("death", [Died(), KeyboardInterrupt(), SystemExit(3)])
def test_nothing_stays_in_flight_after_an_exception_that_nobody_catches(
    harness: LifecycleHarness, death: BaseException
) -> None:
    agent = FakeAgent()
    agent.next_outcomes = [death]
    harness.complete()
    with pytest.raises(type(death)):
        harness.life.commit_session_memory(SID, agent)
    assert harness.dirty()
    assert harness.life.commit_session_memory(SID) is True
    assert (agent.calls, harness.dirty()) == (2, False)


def test_a_waiter_goes_on_when_the_commit_it_waits_for_dies(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    agent.next_outcomes = [Died()]
    harness.complete(agent=agent)
    dying = start_commit(harness, agent)
    waiting = in_thread(lambda: harness.life.commit_session_memory(SID, wait=True))
    agent.release()
    assert isinstance(dying.exception(LONG), Died)
    assert waiting.result(LONG) is True
    assert (agent.calls, harness.dirty()) == (2, False)


def test_a_second_commit_does_not_wait_for_one_in_flight_unless_told_to(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    harness.complete(agent=agent)
    first = start_commit(harness, agent)
    assert harness.life.commit_session_memory(SID) is False
    assert harness.life.commit_session_memory(SID, FakeAgent()) is False
    agent.release()
    assert first.result(LONG) is True
    assert agent.calls == 1


def test_a_commit_that_waits_commits_what_is_left(harness: LifecycleHarness) -> None:
    agent, new = FakeAgent(), FakeAgent("new")
    harness.complete(agent=agent)
    first = start_commit(harness, agent)
    harness.complete(agent=agent)
    harness.complete(agent=new)
    second = in_thread(lambda: harness.life.commit_session_memory(SID, wait=True))
    agent.release()
    assert (first.result(LONG), second.result(LONG)) == (True, True)
    assert (agent.calls, new.calls, harness.dirty()) == (2, 1, False)


def test_a_commit_that_waited_for_all_there_was_has_committed_nothing(harness: LifecycleHarness) -> None:
    clock = FakeClock()
    life = harness.restarted_with(clock)
    agent = FakeAgent()
    harness.complete(agent=agent)
    first = start_commit(harness, agent)
    second = in_thread(lambda: life.commit_session_memory(SID, wait=True))
    assert clock.wait_for_waiters()
    agent.release()
    assert (first.result(LONG), second.result(LONG)) == (True, False)
    assert agent.calls == 1


def test_a_commit_that_waits_gives_up_in_the_end(harness: LifecycleHarness) -> None:
    clock = FakeClock()
    life = harness.restarted_with(clock)
    agent = FakeAgent()
    harness.complete(agent=agent)
    stuck = start_commit(harness, agent)
    waiting = in_thread(lambda: life.commit_session_memory(SID, wait=True, timeout=3))
    assert clock.wait_for_waiters()
    clock.advance(3)
    assert waiting.result(LONG) is False
    assert harness.dirty()
    agent.release()
    assert stuck.result(LONG) is True


def test_a_waiting_commit_says_no_when_one_of_several_segments_fails(harness: LifecycleHarness) -> None:
    first, second, third = FakeAgent("first"), FakeAgent("second"), FakeAgent("third")
    second.next_outcomes = [RuntimeError("down")]
    for agent in (first, second, third):
        harness.complete(agent=agent)
    assert harness.life.commit_session_memory(SID, wait=True) is False
    assert [agent.calls for agent in (first, second, third)] == [1, 1, 0]
    assert harness.life.commit_session_memory(SID, wait=True) is True
    assert [agent.calls for agent in (first, second, third)] == [1, 2, 1]
    assert not harness.dirty()


def test_a_commit_that_asks_for_another_of_its_own_session_is_not_waited_for(
    harness: LifecycleHarness,
) -> None:
    answers: list[bool] = []

    class Nested(FakeAgent):
        def commit_memory_session(self) -> bool | None:
            answers.append(harness.life.commit_session_memory(SID, wait=True))
            return super().commit_memory_session()

    harness.complete(agent=Nested())
    assert harness.life.commit_session_memory(SID) is True
    assert answers == [False]


def test_no_lock_is_held_while_an_agent_commits(harness: LifecycleHarness) -> None:
    slow, quick = FakeAgent("slow"), FakeAgent("quick")
    harness.complete(agent=slow)
    commit = start_commit(harness, slow)
    harness.life.register_agent(SID, quick)
    assert harness.complete() == 2
    assert harness.dirty()
    harness.complete("s2", quick)
    assert harness.life.commit_session_memory("s2") is True
    harness.life.unregister_agent(SID)
    slow.release()
    assert commit.result(LONG) is True


def test_one_commit_at_a_time_under_many_threads(harness: LifecycleHarness) -> None:
    class Alone(FakeAgent):
        inside = threading.Lock()

        def commit_memory_session(self) -> bool | None:
            assert self.inside.acquire(blocking=False)
            try:
                return super().commit_memory_session()
            finally:
                self.inside.release()

    agent = Alone()
    harness.life.register_agent(SID, agent)
    for turns in range(1, 6):
        harness.complete()
        commits = [in_thread(lambda: harness.life.commit_session_memory(SID, wait=True)) for _ in range(4)]
        assert sorted(commit.result(LONG) for commit in commits) == [False, False, False, True]
        assert (agent.calls, harness.dirty()) == (turns, False)


@pytest.mark.clause("L12")
@pytest.mark.parametrize("sid", ["", None])
def test_an_empty_session_id_is_a_safe_no_op(harness: LifecycleHarness, sid: str | None) -> None:
    life, agent = harness.life, FakeAgent()
    answers = [
        life.register_agent(sid, agent),  # type: ignore[func-returns-value]
        life.unregister_agent(sid),  # type: ignore[func-returns-value]
        life.mark_turn_completed(sid, agent),
        life.has_uncommitted_work(sid),
        life.commit_session_memory(sid, agent, wait=True),
    ]
    assert answers == [None, None, 0, False, False]
    assert life.evict_agent(sid, agent, close=agent.close) is False
    assert life.drain_all_on_shutdown() == []
    assert (agent.calls, agent.closed_after) == (0, None)


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan")])
def test_a_timeout_that_bounds_nothing_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="a number of seconds"):
        SessionLifecycle(commit_timeout=seconds)
