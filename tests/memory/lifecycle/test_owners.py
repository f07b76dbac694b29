"""Work belongs to the agent it was done under, whatever agent is there when it is committed."""

import pytest

from tests.memory.lifecycle.worlds import LONG, SID, FakeAgent, World, in_flight


@pytest.mark.clause("L5")
def test_a_replacement_waits_until_the_dirty_work_is_committed_by_its_owner(world: World) -> None:
    old, new = FakeAgent("old"), FakeAgent("new")
    world.life.register_agent(SID, old)
    world.complete()
    world.life.register_agent(SID, new)
    assert world.life.commit_session_memory(SID) is True
    assert (old.calls, new.calls, world.dirty()) == (1, 0, False)
    world.complete()
    assert world.life.commit_session_memory(SID) is True
    assert (old.calls, new.calls) == (1, 1)


@pytest.mark.clause("L5")
def test_the_oldest_segment_goes_first_by_its_owner_even_when_the_new_agent_is_passed(world: World) -> None:
    old, new = FakeAgent("old"), FakeAgent("new")
    old.next_outcomes = [RuntimeError("down")]
    world.life.register_agent(SID, old)
    world.complete()
    assert world.life.commit_session_memory(SID) is False
    world.life.register_agent(SID, new)
    world.complete()
    assert world.life.commit_session_memory(SID, new) is True
    assert (old.calls, new.calls, world.dirty()) == (2, 0, True)
    assert world.life.commit_session_memory(SID, old) is True
    assert (old.calls, new.calls, world.dirty()) == (2, 1, False)


@pytest.mark.clause("L5")
def test_a_later_segment_never_overtakes_one_that_fails(world: World) -> None:
    old, new = FakeAgent("old"), FakeAgent("new")
    old.next_outcomes = [RuntimeError("down"), False]
    world.complete(agent=old)
    world.complete(agent=new)
    assert world.life.commit_session_memory(SID, new) is False
    assert world.life.commit_session_memory(SID, new, wait=True) is False
    assert (old.calls, new.calls) == (2, 0)


@pytest.mark.clause("L5")
def test_an_agent_that_comes_back_has_a_segment_of_its_own_behind_the_other(world: World) -> None:
    one, other = FakeAgent("one"), FakeAgent("other")
    for agent in (one, other, one):
        world.complete(agent=agent)
    assert [(world.life.commit_session_memory(SID), one.calls, other.calls) for _ in range(4)] == [
        (True, 1, 0),
        (True, 1, 1),
        (True, 2, 1),
        (False, 2, 1),
    ]


@pytest.mark.clause("L5")
def test_a_turn_completed_under_the_replacement_during_a_commit_is_the_replacements(world: World) -> None:
    old, new = FakeAgent("old"), FakeAgent("new")
    world.life.register_agent(SID, old)
    world.complete()
    commit = in_flight(world, old)
    world.life.register_agent(SID, new)
    world.complete()
    old.release()
    assert commit.result(LONG) is True
    assert world.life.commit_session_memory(SID, old) is True
    assert (old.calls, new.calls, world.dirty()) == (1, 1, False)


@pytest.mark.clause("L6")
@pytest.mark.parametrize("named", [True, False], ids=["marked with its agent", "marked without an agent"])
def test_unregistering_does_not_hide_dirty_work(world: World, named: bool) -> None:
    agent = FakeAgent()
    world.life.register_agent(SID, agent)
    world.complete(agent=agent if named else None)
    world.life.unregister_agent(SID)
    assert world.dirty()
    assert world.life.commit_session_memory(SID, agent) is True
    assert (agent.calls, world.dirty()) == (1, False)


@pytest.mark.clause("L6")
def test_work_that_is_nobodys_is_found_by_the_agent_passed_in(world: World) -> None:
    agent = FakeAgent()
    world.complete()
    world.complete()
    assert world.life.commit_session_memory(SID, agent) is True
    assert (agent.calls, world.dirty()) == (1, False)


def test_work_that_is_nobodys_is_committed_by_an_agent_registered_later(world: World) -> None:
    agent = FakeAgent()
    world.complete()
    assert world.life.commit_session_memory(SID) is False
    world.life.register_agent(SID, agent)
    assert world.life.commit_session_memory(SID) is True
    assert agent.calls == 1


def test_work_that_is_nobodys_does_not_block_the_work_behind_it(world: World) -> None:
    agent = FakeAgent()
    world.complete()
    world.complete(agent=agent)
    assert world.life.commit_session_memory(SID) is True
    assert (agent.calls, world.dirty()) == (1, False)


def test_an_agent_whose_truth_value_is_false_is_still_an_agent(world: World) -> None:
    class Empty(FakeAgent):
        def __len__(self) -> int:
            return 0

    agent = Empty()
    world.complete(agent=agent)
    assert world.life.commit_session_memory(SID) is True
    assert agent.calls == 1
