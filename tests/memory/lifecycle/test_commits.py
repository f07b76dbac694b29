"""A boundary commits the completed turns: once, truthfully, and without losing what comes meanwhile."""

import logging
import threading

import pytest

from holdfast.memory import SessionLifecycle
from holdfast.testing import FakeClock
from tests.memory.lifecycle.worlds import LONG, SID, Died, FakeAgent, World, beside, in_flight


@pytest.mark.clause("L1")
def test_a_registered_session_without_a_completed_turn_commits_nothing(world: World) -> None:
    agent = FakeAgent()
    world.life.register_agent(SID, agent)
    assert not world.dirty()
    assert world.life.commit_session_memory(SID) is False
    assert world.life.commit_session_memory(SID, agent, wait=True) is False
    assert agent.calls == 0


@pytest.mark.clause("L2")
def test_any_number_of_completed_turns_is_one_commit(world: World) -> None:
    agent = FakeAgent()
    world.life.register_agent(SID, agent)
    assert [world.complete(), world.complete(agent=agent), world.complete()] == [1, 2, 3]
    assert world.dirty()
    assert world.life.commit_session_memory(SID) is True
    assert not world.dirty()
    assert agent.calls == 1


@pytest.mark.clause("L2")
def test_a_second_commit_with_nothing_new_is_a_no_op(world: World) -> None:
    agent = FakeAgent()
    world.complete(agent=agent)
    assert world.life.commit_session_memory(SID) is True
    assert world.life.commit_session_memory(SID) is False
    assert world.life.commit_session_memory(SID, agent, wait=True) is False
    assert agent.calls == 1


@pytest.mark.clause("L2")
def test_turns_on_both_sides_of_a_failed_commit_are_one_commit(world: World) -> None:
    agent = FakeAgent()
    world.complete(agent=agent)
    agent.next_outcomes = [RuntimeError("down")]
    commit = in_flight(world, agent)
    world.complete(agent=agent)
    agent.release()
    assert commit.result(LONG) is False
    assert world.life.commit_session_memory(SID) is True
    assert not world.dirty()
    assert agent.calls == 2


@pytest.mark.clause("L3")
@pytest.mark.parametrize("wait", [False, True])
def test_a_late_commit_does_not_clear_a_turn_completed_while_it_ran(world: World, wait: bool) -> None:
    agent = FakeAgent()
    world.life.register_agent(SID, agent)
    world.complete(agent=agent)
    agent.hold()
    late = beside(lambda: world.life.commit_session_memory(SID, wait=wait))
    assert agent.entered.wait(LONG)
    assert world.complete() == 2
    agent.release()
    assert late.result(LONG) is True
    assert (agent.calls, world.dirty()) == (1, True)
    assert world.life.commit_session_memory(SID) is True
    assert (agent.calls, world.dirty()) == (2, False)


@pytest.mark.clause("L4")
@pytest.mark.parametrize("failure", [RuntimeError("the provider is down"), False], ids=["raises", "False"])
def test_a_failed_commit_keeps_the_mark_and_the_registered_handle(
    world: World, failure: BaseException | bool, caplog: pytest.LogCaptureFixture
) -> None:
    agent = FakeAgent()
    agent.next_outcomes = [failure]
    world.life.register_agent(SID, agent)
    world.complete()
    with caplog.at_level(logging.WARNING, "holdfast.memory.lifecycle"):
        assert world.life.commit_session_memory(SID) is False
    assert [record.__dict__["session"] for record in caplog.records] == [SID]
    assert world.dirty()
    assert world.life.commit_session_memory(SID) is True
    assert (agent.calls, world.dirty()) == (2, False)


@pytest.mark.clause("L4")
def test_a_failed_commit_keeps_the_handle_that_was_passed_in(world: World) -> None:
    agent = FakeAgent()
    agent.next_outcomes = [RuntimeError("down"), False]
    world.complete()
    assert world.life.commit_session_memory(SID) is False
    assert agent.calls == 0
    assert world.life.commit_session_memory(SID, agent) is False
    assert world.life.commit_session_memory(SID, FakeAgent("another")) is False
    assert world.dirty()
    assert world.life.commit_session_memory(SID) is True
    assert (agent.calls, world.dirty()) == (3, False)


@pytest.mark.clause("L4")
def test_the_handle_that_failed_survives_a_replacement_and_an_unregistration(world: World) -> None:
    old, new = FakeAgent("old"), FakeAgent("new")
    old.next_outcomes = [RuntimeError("down")]
    world.life.register_agent(SID, old)
    world.complete()
    assert world.life.commit_session_memory(SID) is False
    world.life.register_agent(SID, new)
    world.life.unregister_agent(SID)
    assert world.life.commit_session_memory(SID) is True
    assert (old.calls, new.calls) == (2, 0)


@pytest.mark.clause("L4")
@pytest.mark.parametrize("death", [Died(), KeyboardInterrupt(), SystemExit(3)])
def test_nothing_stays_in_flight_after_an_exception_that_nobody_catches(
    world: World, death: BaseException
) -> None:
    agent = FakeAgent()
    agent.next_outcomes = [death]
    world.complete()
    with pytest.raises(type(death)):
        world.life.commit_session_memory(SID, agent)
    assert world.dirty()
    assert world.life.commit_session_memory(SID) is True
    assert (agent.calls, world.dirty()) == (2, False)


def test_a_waiter_goes_on_when_the_commit_it_waits_for_dies(world: World) -> None:
    agent = FakeAgent()
    agent.next_outcomes = [Died()]
    world.complete(agent=agent)
    dying = in_flight(world, agent)
    waiting = beside(lambda: world.life.commit_session_memory(SID, wait=True))
    agent.release()
    assert isinstance(dying.exception(LONG), Died)
    assert waiting.result(LONG) is True
    assert (agent.calls, world.dirty()) == (2, False)


def test_a_second_commit_does_not_wait_for_one_in_flight_unless_told_to(world: World) -> None:
    agent = FakeAgent()
    world.complete(agent=agent)
    first = in_flight(world, agent)
    assert world.life.commit_session_memory(SID) is False
    assert world.life.commit_session_memory(SID, FakeAgent()) is False
    agent.release()
    assert first.result(LONG) is True
    assert agent.calls == 1


def test_a_commit_that_waits_commits_what_is_left(world: World) -> None:
    agent, new = FakeAgent(), FakeAgent("new")
    world.complete(agent=agent)
    first = in_flight(world, agent)
    world.complete(agent=agent)
    world.complete(agent=new)
    second = beside(lambda: world.life.commit_session_memory(SID, wait=True))
    agent.release()
    assert (first.result(LONG), second.result(LONG)) == (True, True)
    assert (agent.calls, new.calls, world.dirty()) == (2, 1, False)


def test_a_commit_that_waited_for_all_there_was_has_committed_nothing(world: World) -> None:
    clock = FakeClock()
    life = world.restarted_with(clock)
    agent = FakeAgent()
    world.complete(agent=agent)
    first = in_flight(world, agent)
    second = beside(lambda: life.commit_session_memory(SID, wait=True))
    assert clock.wait_for_waiters()
    agent.release()
    assert (first.result(LONG), second.result(LONG)) == (True, False)
    assert agent.calls == 1


def test_a_commit_that_waits_gives_up_in_the_end(world: World) -> None:
    clock = FakeClock()
    life = world.restarted_with(clock)
    agent = FakeAgent()
    world.complete(agent=agent)
    stuck = in_flight(world, agent)
    waiting = beside(lambda: life.commit_session_memory(SID, wait=True, timeout=3))
    assert clock.wait_for_waiters()
    clock.advance(3)
    assert waiting.result(LONG) is False
    assert world.dirty()
    agent.release()
    assert stuck.result(LONG) is True


def test_a_waiting_commit_says_no_when_one_of_several_segments_fails(world: World) -> None:
    first, second, third = FakeAgent("first"), FakeAgent("second"), FakeAgent("third")
    second.next_outcomes = [RuntimeError("down")]
    for agent in (first, second, third):
        world.complete(agent=agent)
    assert world.life.commit_session_memory(SID, wait=True) is False
    assert [agent.calls for agent in (first, second, third)] == [1, 1, 0]
    assert world.life.commit_session_memory(SID, wait=True) is True
    assert [agent.calls for agent in (first, second, third)] == [1, 2, 1]
    assert not world.dirty()


def test_a_commit_that_asks_for_another_of_its_own_session_is_not_waited_for(world: World) -> None:
    answers: list[bool] = []

    class Nested(FakeAgent):
        def commit_memory_session(self) -> bool | None:
            answers.append(world.life.commit_session_memory(SID, wait=True))
            return super().commit_memory_session()

    world.complete(agent=Nested())
    assert world.life.commit_session_memory(SID) is True
    assert answers == [False]


def test_no_lock_is_held_while_an_agent_commits(world: World) -> None:
    slow, quick = FakeAgent("slow"), FakeAgent("quick")
    world.complete(agent=slow)
    commit = in_flight(world, slow)
    world.life.register_agent(SID, quick)
    assert world.complete() == 2
    assert world.dirty()
    world.complete("s2", quick)
    assert world.life.commit_session_memory("s2") is True
    world.life.unregister_agent(SID)
    slow.release()
    assert commit.result(LONG) is True


def test_one_commit_at_a_time_under_many_threads(world: World) -> None:
    class Alone(FakeAgent):
        inside = threading.Lock()

        def commit_memory_session(self) -> bool | None:
            assert self.inside.acquire(blocking=False)
            try:
                return super().commit_memory_session()
            finally:
                self.inside.release()

    agent = Alone()
    world.life.register_agent(SID, agent)
    for turns in range(1, 6):
        world.complete()
        commits = [beside(lambda: world.life.commit_session_memory(SID, wait=True)) for _ in range(4)]
        assert sorted(commit.result(LONG) for commit in commits) == [False, False, False, True]
        assert (agent.calls, world.dirty()) == (turns, False)


@pytest.mark.clause("L12")
@pytest.mark.parametrize("sid", ["", None])
def test_an_empty_session_id_is_a_safe_no_op(world: World, sid: str | None) -> None:
    life, agent = world.life, FakeAgent()
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
