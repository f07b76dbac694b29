"""Work belongs to the agent it was done under, whatever agent is there when it is committed."""

import pytest

from tests.memory.lifecycle.lifecycle_harness import LONG, SID, FakeAgent, LifecycleHarness, start_commit


@pytest.mark.clause("L5")
def test_a_replacement_waits_until_the_dirty_work_is_committed_by_its_owner(
    harness: LifecycleHarness,
) -> None:
    old, new = FakeAgent("old"), FakeAgent("new")
    harness.life.register_agent(SID, old)
    harness.complete()
    harness.life.register_agent(SID, new)
    assert harness.life.commit_session_memory(SID) is True
    assert (old.calls, new.calls, harness.dirty()) == (1, 0, False)
    harness.complete()
    assert harness.life.commit_session_memory(SID) is True
    assert (old.calls, new.calls) == (1, 1)


@pytest.mark.clause("L5")
def test_the_oldest_segment_goes_first_by_its_owner_even_when_the_new_agent_is_passed(
    harness: LifecycleHarness,
) -> None:
    old, new = FakeAgent("old"), FakeAgent("new")
    old.next_outcomes = [RuntimeError("down")]
    harness.life.register_agent(SID, old)
    harness.complete()
    assert harness.life.commit_session_memory(SID) is False
    harness.life.register_agent(SID, new)
    harness.complete()
    assert harness.life.commit_session_memory(SID, new) is True
    assert (old.calls, new.calls, harness.dirty()) == (2, 0, True)
    assert harness.life.commit_session_memory(SID, old) is True
    assert (old.calls, new.calls, harness.dirty()) == (2, 1, False)


@pytest.mark.clause("L5")
def test_a_later_segment_never_overtakes_one_that_fails(harness: LifecycleHarness) -> None:
    old, new = FakeAgent("old"), FakeAgent("new")
    old.next_outcomes = [RuntimeError("down"), False]
    harness.complete(agent=old)
    harness.complete(agent=new)
    assert harness.life.commit_session_memory(SID, new) is False
    assert harness.life.commit_session_memory(SID, new, wait=True) is False
    assert (old.calls, new.calls) == (2, 0)


@pytest.mark.clause("L5")
def test_an_agent_that_comes_back_has_a_segment_of_its_own_behind_the_other(
    harness: LifecycleHarness,
) -> None:
    one, other = FakeAgent("one"), FakeAgent("other")
    for agent in (one, other, one):
        harness.complete(agent=agent)
    assert [(harness.life.commit_session_memory(SID), one.calls, other.calls) for _ in range(4)] == [
        (True, 1, 0),
        (True, 1, 1),
        (True, 2, 1),
        (False, 2, 1),
    ]


@pytest.mark.clause("L5")
def test_a_turn_completed_under_the_replacement_during_a_commit_is_the_replacements(
    harness: LifecycleHarness,
) -> None:
    old, new = FakeAgent("old"), FakeAgent("new")
    harness.life.register_agent(SID, old)
    harness.complete()
    commit = start_commit(harness, old)
    harness.life.register_agent(SID, new)
    harness.complete()
    old.release()
    assert commit.result(LONG) is True
    assert harness.life.commit_session_memory(SID, old) is True
    assert (old.calls, new.calls, harness.dirty()) == (1, 1, False)


@pytest.mark.clause("L6")
@pytest.mark.parametrize("named", [True, False], ids=["marked with its agent", "marked without an agent"])
def test_unregistering_does_not_hide_dirty_work(harness: LifecycleHarness, named: bool) -> None:
    agent = FakeAgent()
    harness.life.register_agent(SID, agent)
    harness.complete(agent=agent if named else None)
    harness.life.unregister_agent(SID)
    assert harness.dirty()
    assert harness.life.commit_session_memory(SID, agent) is True
    assert (agent.calls, harness.dirty()) == (1, False)


@pytest.mark.clause("L6")
def test_work_that_is_nobodys_is_found_by_the_agent_passed_in(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    harness.complete()
    harness.complete()
    assert harness.life.commit_session_memory(SID, agent) is True
    assert (agent.calls, harness.dirty()) == (1, False)


def test_work_that_is_nobodys_is_committed_by_an_agent_registered_later(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    harness.complete()
    assert harness.life.commit_session_memory(SID) is False
    harness.life.register_agent(SID, agent)
    assert harness.life.commit_session_memory(SID) is True
    assert agent.calls == 1


def test_work_that_is_nobodys_does_not_block_the_work_behind_it(harness: LifecycleHarness) -> None:
    agent = FakeAgent()
    harness.complete()
    harness.complete(agent=agent)
    assert harness.life.commit_session_memory(SID) is True
    assert (agent.calls, harness.dirty()) == (1, False)


def test_an_agent_whose_truth_value_is_false_is_still_an_agent(harness: LifecycleHarness) -> None:
    class Empty(FakeAgent):
        def __len__(self) -> int:
            return 0

    agent = Empty()
    harness.complete(agent=agent)
    assert harness.life.commit_session_memory(SID) is True
    assert agent.calls == 1
