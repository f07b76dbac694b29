"""A cache evicts an agent only after its work, and closes it only after its last commit."""

import pytest

from holdfast.testing import FakeClock
from tests.memory.lifecycle.worlds import LONG, SID, FakeAgent, World, beside, in_flight


@pytest.mark.clause("L8")
def test_eviction_commits_then_closes_then_drops_the_handle(world: World) -> None:
    agent = FakeAgent()
    world.life.register_agent(SID, agent)
    world.complete()
    assert world.life.evict_agent(SID, agent, close=agent.close) is True
    assert (agent.calls, agent.closed_after, world.dirty()) == (1, 1, False)
    world.complete()
    assert world.life.commit_session_memory(SID) is False
    assert world.life.commit_session_memory(SID, wait=True) is False
    assert agent.calls == 1
    assert world.dirty()


@pytest.mark.clause("L8")
def test_eviction_waits_for_a_commit_in_flight_and_commits_what_came_meanwhile(world: World) -> None:
    clock = FakeClock()
    life = world.restarted_with(clock)
    agent = FakeAgent()
    life.register_agent(SID, agent)
    world.complete()
    commit = in_flight(world, agent)
    world.complete()
    eviction = beside(lambda: life.evict_agent(SID, agent, close=agent.close))
    assert clock.wait_for_waiters()
    assert not agent.is_closed()
    agent.release()
    assert (commit.result(LONG), eviction.result(LONG)) == (True, True)
    assert (agent.calls, agent.closed_after, world.dirty()) == (2, 2, False)


@pytest.mark.clause("L8")
def test_an_eviction_whose_commit_fails_closes_nothing_and_keeps_the_handle(world: World) -> None:
    agent = FakeAgent()
    agent.next_outcomes = [RuntimeError("down")]
    world.life.register_agent(SID, agent)
    world.complete()
    assert world.life.evict_agent(SID, agent, close=agent.close) is False
    assert (agent.closed_after, world.dirty()) == (None, True)
    world.complete()
    assert world.life.evict_agent(SID, agent, close=agent.close) is True
    assert (agent.calls, agent.closed_after, world.dirty()) == (2, 2, False)


@pytest.mark.clause("L8")
def test_an_eviction_that_waits_too_long_closes_nothing(world: World) -> None:
    clock = FakeClock()
    life = world.restarted_with(clock)
    agent = FakeAgent()
    world.complete(agent=agent)
    stuck = in_flight(world, agent)
    eviction = beside(lambda: life.evict_agent(SID, agent, close=agent.close))
    assert clock.wait_for_waiters()
    clock.advance(10)
    assert eviction.result(LONG) is False
    assert not agent.is_closed()
    agent.release()
    assert stuck.result(LONG) is True


@pytest.mark.clause("L8")
def test_a_clean_agent_is_closed_without_a_commit(world: World) -> None:
    agent = FakeAgent()
    world.life.register_agent(SID, agent)
    assert world.life.evict_agent(SID, agent, close=agent.close) is True
    assert (agent.calls, agent.closed_after) == (0, 0)


def test_eviction_does_not_drop_the_replacement(world: World) -> None:
    old, new = FakeAgent("old"), FakeAgent("new")
    world.life.register_agent(SID, old)
    world.complete()
    world.life.register_agent(SID, new)
    world.complete()
    assert world.life.evict_agent(SID, old, close=old.close) is True
    assert (old.calls, new.calls, world.dirty()) == (1, 0, True)
    world.complete()
    assert world.life.commit_session_memory(SID) is True
    assert (new.calls, world.dirty()) == (1, False)


def test_an_agent_is_not_closed_while_it_owes_work_of_an_earlier_session(world: World) -> None:
    agent = FakeAgent()
    agent.next_outcomes = [RuntimeError("down")]
    world.complete("parent", agent)
    world.life.register_agent("child", agent)
    assert world.life.evict_agent("child", agent, close=agent.close) is False
    assert not agent.is_closed()
    assert world.life.evict_agent("child", agent, close=agent.close) is True
    assert (agent.calls, agent.closed_after, world.dirty("parent")) == (2, 2, False)


def test_eviction_also_commits_work_that_is_nobodys(world: World) -> None:
    agent = FakeAgent()
    world.complete()
    world.life.register_agent(SID, agent)
    assert world.life.evict_agent(SID, agent, close=agent.close) is True
    assert (agent.calls, world.dirty()) == (1, False)


def test_a_turn_completed_during_the_last_commit_is_committed_before_the_close(world: World) -> None:
    class Busy(FakeAgent):
        def commit_memory_session(self) -> bool | None:
            if self.calls < 3:
                world.complete(agent=self)
            return super().commit_memory_session()

    agent = Busy()
    world.complete(agent=agent)
    assert world.life.evict_agent(SID, agent, close=agent.close) is True
    assert (agent.calls, agent.closed_after, world.dirty()) == (4, 4, False)
