"""The dirty mark is the store's: it survives a crash, and every process sees the same one."""

import pytest

from holdfast.memory import SessionLifecycle
from holdfast.sessions import SessionDB
from holdfast.testing import ProcessDied
from holdfast.testing.faults import Moment
from tests.memory.lifecycle.lifecycle_harness import LONG, SID, FakeAgent, in_thread
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import completed_turn, crashing


def started(db: SessionDB, turns: int = 0, sid: str = SID) -> SessionDB:
    db.create_session(sid, source="test")
    for _ in range(turns):
        completed_turn(db, sid)
    return db


def numbers(db: SessionDB, sid: str = SID) -> tuple[int, int]:
    session = db.get_session(sid)
    assert session is not None
    return session.generation, session.committed_generation


@pytest.mark.clause("L1")
def test_a_turn_that_is_open_or_failed_is_not_committed(database: Database) -> None:
    db = started(database.open())
    life, agent = SessionLifecycle(db), FakeAgent()
    turn = db.turns.open(SID, {"role": "user", "content": "why?"})
    assert life.commit_session_memory(SID, agent) is False
    db.turns.fail(turn.id, "the model is down")
    assert life.commit_session_memory(SID, agent) is False
    assert agent.calls == 0


@pytest.mark.clause("L13")
@pytest.mark.parametrize("marked", [True, False], ids=["after the mark", "before the mark"])
def test_after_a_crash_the_next_start_finds_and_commits_what_is_uncommitted(
    database: Database, marked: bool
) -> None:
    before = started(database.open(), turns=2)
    started(before, turns=1, sid="clean")
    started(before, sid="idle")
    lost = SessionLifecycle(before)
    assert lost.commit_session_memory("clean", FakeAgent()) is True
    if marked:
        assert lost.mark_turn_completed(SID, FakeAgent("lost with its process")) == 2

    db = database.open()
    life, fresh = SessionLifecycle(db), FakeAgent("fresh")
    assert life.recover() == [SID]
    assert life.has_uncommitted_work(SID)
    assert life.commit_session_memory(SID, fresh, wait=True) is True
    assert (fresh.calls, numbers(db), life.recover()) == (1, (2, 2), [])
    assert SessionLifecycle(database.open()).recover() == []


@pytest.mark.clause("L13")
def test_a_failed_commit_is_found_again_after_a_restart(database: Database) -> None:
    db, agent = started(database.open(), turns=1), FakeAgent()
    agent.next_outcomes = [RuntimeError("down")]
    life = SessionLifecycle(db)
    life.mark_turn_completed(SID, agent)
    assert life.commit_session_memory(SID) is False
    assert SessionLifecycle(database.open()).recover() == [SID]


@pytest.mark.clause("L13")
def test_what_is_marked_committed_is_the_generation_at_which_the_commit_began(database: Database) -> None:
    db, agent = started(database.open(), turns=2), FakeAgent()
    life = SessionLifecycle(db)
    life.mark_turn_completed(SID, agent)
    agent.hold()
    commit = in_thread(lambda: life.commit_session_memory(SID, agent))
    assert agent.entered.wait(LONG)
    completed_turn(db, SID)
    assert life.mark_turn_completed(SID, agent) == 3
    agent.release()
    assert commit.result(LONG) is True
    assert numbers(db) == (3, 2)
    assert SessionLifecycle(database.open()).recover() == [SID]
    assert life.commit_session_memory(SID) is True
    assert numbers(db) == (3, 3)


@pytest.mark.clause("L13")
@pytest.mark.parametrize(("moment", "calls", "left"), [("before", 2, True), ("after", 1, False)])
def test_a_crash_while_a_commit_is_recorded_repeats_it_or_not_but_never_loses_it(
    database: Database, moment: Moment, calls: int, left: bool
) -> None:
    whole = started(database.open(), turns=1)
    db, engine = crashing(whole)
    agent = FakeAgent()
    life = SessionLifecycle(db)
    life.mark_turn_completed(SID, agent)
    engine.arm(moment)
    with pytest.raises(ProcessDied):
        life.commit_session_memory(SID)
    assert (SessionLifecycle(whole).recover() == [SID]) is left
    # The same holds for a process that survived: it asks the store again before it commits.
    assert life.commit_session_memory(SID) is left
    assert (agent.calls, life.has_uncommitted_work(SID), numbers(whole)) == (calls, False, (1, 1))


@pytest.mark.clause("L13")
def test_leftovers_of_a_crash_are_committed_with_the_next_boundary_of_the_session(database: Database) -> None:
    db, agent = started(database.open(), turns=3), FakeAgent()
    life = SessionLifecycle(database.open())
    life.register_agent(SID, agent)
    completed_turn(db, SID)
    assert life.mark_turn_completed(SID) == 4
    assert life.commit_session_memory(SID) is True
    assert (agent.calls, numbers(db)) == (1, (4, 4))


def test_what_another_process_has_committed_is_not_committed_again(database: Database) -> None:
    here, there = SessionLifecycle(started(database.open(), turns=1)), SessionLifecycle(database.open())
    mine, theirs = FakeAgent("mine"), FakeAgent("theirs")
    here.mark_turn_completed(SID, mine)
    assert there.commit_session_memory(SID, theirs) is True
    assert here.has_uncommitted_work(SID) is False
    assert here.commit_session_memory(SID) is False
    assert here.drain_all_on_shutdown() == []
    assert (mine.calls, theirs.calls) == (0, 1)


def test_an_agent_is_not_closed_under_its_commit_even_if_another_process_was_faster(
    database: Database,
) -> None:
    here, there = SessionLifecycle(started(database.open(), turns=1)), SessionLifecycle(database.open())
    agent = FakeAgent()
    here.mark_turn_completed(SID, agent)
    agent.hold()
    commit = in_thread(lambda: here.commit_session_memory(SID))
    assert agent.entered.wait(LONG)
    assert there.commit_session_memory(SID, FakeAgent("there")) is True
    assert here.has_uncommitted_work(SID) is False
    assert here.evict_agent(SID, agent, close=agent.close, timeout=0) is False
    agent.release()
    assert commit.result(LONG) is True
    assert here.evict_agent(SID, agent, close=agent.close) is True
    assert agent.closed_after == 1


def test_a_mark_repeated_for_the_same_turn_is_the_same_generation(database: Database) -> None:
    life, agent = SessionLifecycle(started(database.open(), turns=1)), FakeAgent()
    assert [life.mark_turn_completed(SID, agent) for _ in range(3)] == [1, 1, 1]
    assert life.commit_session_memory(SID) is True
    assert life.mark_turn_completed(SID, agent) == 1
    assert life.commit_session_memory(SID) is False
    assert agent.calls == 1


def test_a_mark_that_comes_after_the_turn_was_seen_still_names_its_owner(database: Database) -> None:
    db, first, second = started(database.open(), turns=1), FakeAgent("first"), FakeAgent("second")
    life = SessionLifecycle(db)
    life.mark_turn_completed(SID, first)
    completed_turn(db, SID)
    assert life.has_uncommitted_work(SID)
    life.mark_turn_completed(SID, second)
    assert life.commit_session_memory(SID, first) is True
    assert (first.calls, second.calls) == (1, 0)
    assert life.commit_session_memory(SID, first) is True
    assert (first.calls, second.calls, numbers(db)) == (1, 1, (2, 2))


def test_a_session_may_become_known_to_the_store_later(database: Database) -> None:
    db, agent = database.open(), FakeAgent()
    life = SessionLifecycle(db)
    assert [life.mark_turn_completed(SID, agent), life.mark_turn_completed(SID, agent)] == [1, 2]
    started(db, turns=1)
    assert life.mark_turn_completed(SID, agent) == 1
    assert life.commit_session_memory(SID, wait=True) is True
    assert (agent.calls, life.has_uncommitted_work(SID), numbers(db)) == (2, False, (1, 1))


def test_a_store_that_fails_fails_the_commit_and_keeps_the_work(database: Database) -> None:
    db, agent = started(database.open(), turns=1), FakeAgent()
    life = SessionLifecycle(db)
    life.mark_turn_completed(SID, agent)
    db.close()
    assert life.commit_session_memory(SID) is False
    assert agent.calls == 0
    assert life.mark_turn_completed(SID, agent) > 0, "a late mark raises into nobody"
    assert SessionLifecycle(database.open()).recover() == [SID]


def test_without_a_store_there_is_nothing_to_recover() -> None:
    life = SessionLifecycle()
    life.mark_turn_completed(SID)
    assert life.recover() == []
