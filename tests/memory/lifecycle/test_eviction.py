"""A cache evicts an agent only after its work, and closes it only after its last commit."""

import gc

import pytest

from holdfast.memory.tracked_session import TrackedSession
from holdfast.testing import FakeClock
from tests.memory.lifecycle.lifecycle_harness import (
    LONG,
    SID,
    FakeAgent,
    LifecycleHarness,
    in_thread,
    start_commit,
)


@pytest.mark.clause("L8")
def test_eviction_commits_then_closes_then_drops_the_handle(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    harness.life.register_agent(SID, agent)
    harness.complete()
    assert harness.life.evict_agent(SID, agent, close=agent.close) is True
    assert (agent.calls, agent.closed_after, harness.dirty()) == (1, 1, False)
    harness.complete()
    assert harness.life.commit_session_memory(SID) is False
    assert harness.life.commit_session_memory(SID, wait=True) is False
    assert agent.calls == 1
    assert harness.dirty()


@pytest.mark.clause("L8")
def test_eviction_waits_for_a_commit_in_flight_and_commits_what_came_meanwhile(
    harness: LifecycleHarness,
) -> None:
    clock = FakeClock()
    life = harness.restarted_with(clock)
    agent = FakeAgent()
    life.register_agent(SID, agent)
    harness.complete()
    commit = start_commit(harness, agent)
    harness.complete()
    eviction = in_thread(lambda: life.evict_agent(SID, agent, close=agent.close))
    assert clock.wait_for_waiters()
    assert not agent.is_closed()
    agent.release()
    assert (commit.result(LONG), eviction.result(LONG)) == (True, True)
    assert (agent.calls, agent.closed_after, harness.dirty()) == (2, 2, False)


@pytest.mark.clause("L8")
def test_an_eviction_whose_commit_fails_closes_nothing_and_keeps_the_handle(
    harness: LifecycleHarness,
) -> None:
    agent = FakeAgent()
    agent.next_outcomes = [RuntimeError("down")]
    harness.life.register_agent(SID, agent)
    harness.complete()
    assert harness.life.evict_agent(SID, agent, close=agent.close) is False
    assert (agent.closed_after, harness.dirty()) == (None, True)
    harness.complete()
    assert harness.life.evict_agent(SID, agent, close=agent.close) is True
    assert (agent.calls, agent.closed_after, harness.dirty()) == (2, 2, False)


@pytest.mark.clause("L8")
def test_an_eviction_that_waits_too_long_closes_nothing(harness: LifecycleHarness) -> None:
    clock = FakeClock()
    life = harness.restarted_with(clock)
    agent = FakeAgent()
    harness.complete(agent=agent)
    stuck = start_commit(harness, agent)
    eviction = in_thread(lambda: life.evict_agent(SID, agent, close=agent.close))
    assert clock.wait_for_waiters()
    clock.advance(10)
    assert eviction.result(LONG) is False
    assert not agent.is_closed()
    agent.release()
    assert stuck.result(LONG) is True


@pytest.mark.clause("L8")
def test_a_clean_agent_is_closed_without_a_commit(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    harness.life.register_agent(SID, agent)
    assert harness.life.evict_agent(SID, agent, close=agent.close) is True
    assert (agent.calls, agent.closed_after) == (0, 0)


def test_eviction_does_not_drop_the_replacement(harness: LifecycleHarness) -> None:
    old, new = FakeAgent("old"), FakeAgent("new")
    harness.life.register_agent(SID, old)
    harness.complete()
    harness.life.register_agent(SID, new)
    harness.complete()
    assert harness.life.evict_agent(SID, old, close=old.close) is True
    assert (old.calls, new.calls, harness.dirty()) == (1, 0, True)
    harness.complete()
    assert harness.life.commit_session_memory(SID) is True
    assert (new.calls, harness.dirty()) == (1, False)


def test_an_agent_is_not_closed_while_it_owes_work_of_an_earlier_session(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    agent.next_outcomes = [RuntimeError("down")]
    harness.complete("parent", agent)
    harness.life.register_agent("child", agent)
    assert harness.life.evict_agent("child", agent, close=agent.close) is False
    assert not agent.is_closed()
    assert harness.life.evict_agent("child", agent, close=agent.close) is True
    assert (agent.calls, agent.closed_after, harness.dirty("parent")) == (2, 2, False)


def test_eviction_also_commits_work_that_is_nobodys(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    harness.complete()
    harness.life.register_agent(SID, agent)
    assert harness.life.evict_agent(SID, agent, close=agent.close) is True
    assert (agent.calls, harness.dirty()) == (1, False)


def test_a_turn_completed_during_the_last_commit_is_committed_before_the_close(
    harness: LifecycleHarness,
) -> None:
    class Busy(FakeAgent):
        def commit_memory_session(self) -> bool | None:
            if self.calls < 3:
                harness.complete(agent=self)
            return super().commit_memory_session()

    agent = Busy()
    harness.complete(agent=agent)
    assert harness.life.evict_agent(SID, agent, close=agent.close) is True
    assert (agent.calls, agent.closed_after, harness.dirty()) == (4, 4, False)


def tracked() -> int:
    gc.collect()
    return sum(isinstance(each, TrackedSession) for each in gc.get_objects())


@pytest.mark.clause("L8")
def test_nothing_is_kept_of_sessions_whose_agents_were_evicted(harness: LifecycleHarness) -> None:
    before = tracked()
    for number in range(50):
        agent, sid = FakeAgent(), f"evicted-{number}"
        harness.life.register_agent(sid, agent)
        harness.complete(sid)
        assert harness.life.evict_agent(sid, agent) is True
        assert harness.life.has_uncommitted_work(sid) is False
        assert harness.life.commit_session_memory(sid, agent, wait=True) is False
    assert tracked() == before


@pytest.mark.clause("L8")
def test_nothing_is_kept_of_sessions_whose_agents_were_unregistered(harness: LifecycleHarness) -> None:
    before = tracked()
    for number in range(50):
        agent, sid = FakeAgent(), f"left-{number}"
        harness.life.register_agent(sid, agent)
        harness.complete(sid)
        harness.life.unregister_agent(sid)
        assert harness.dirty(sid)
        assert harness.life.commit_session_memory(sid) is True
    assert tracked() == before


@pytest.mark.clause("L8")
def test_a_generation_does_not_go_back_after_an_eviction(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    harness.life.register_agent(SID, agent)
    first = harness.complete()
    assert harness.life.evict_agent(SID, agent) is True
    assert harness.complete() > first
