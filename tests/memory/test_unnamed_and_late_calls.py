"""Calls without a session, and calls that come after the end: alike with a store and without one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import MemoryManager, SessionDB, SessionLifecycle
from holdfast.core.errors import BoundaryFailed, MemoryClosed
from holdfast.testing.providers import RecordingProvider
from tests.memory.conftest import MakeManager
from tests.memory.gates import Gate, until

NAMELESS: list[dict[str, Any]] = [{}, {"session_id": ""}, {"session_id": None}]


@pytest.mark.clause("M1", "M2", "M6")
def test_turns_without_a_session_belong_to_one_unnamed_session_of_their_manager_in_order(
    make_manager: MakeManager,
) -> None:
    memory, provider = make_manager(), RecordingProvider()
    memory.add_provider(provider)
    for number in range(9):
        memory.sync_all(f"hi {number}", "hey", **NAMELESS[number % 3])
    memory.sync_all("elsewhere", "hey", session_id="s")
    assert memory.flush_pending(30)
    unnamed = {turn.session_id for turn in provider.turns if turn.user_content != "elsewhere"}
    assert len(unnamed) == 1
    [session] = unnamed
    assert session not in ("", "s")
    assert provider.said(session) == [f"hi {number}" for number in range(9)]
    [status] = memory.status()
    assert (status.owed, status.delivered) == (0, 10)


@pytest.mark.clause("M2")
def test_two_managers_of_one_store_have_two_unnamed_sessions(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "holdfast.db") as db:
        sessions = []
        for _ in range(2):
            memory, provider = MemoryManager(db), RecordingProvider()
            memory.add_provider(provider)
            memory.sync_all("hi", "hey")
            assert memory.flush_pending(30)
            sessions.append(provider.turns[-1].session_id)
            memory.shutdown_all()
    assert len(set(sessions)) == 2


@pytest.mark.clause("M1", "M9")
def test_a_recall_without_a_session_is_prepared_and_given_within_the_unnamed_one(
    make_manager: MakeManager,
) -> None:
    memory, provider = make_manager(), RecordingProvider()
    provider.answers["q"] = "known"
    memory.add_provider(provider)
    for nameless in NAMELESS:
        memory.queue_prefetch_all("q", **nameless)
        assert memory.flush_pending(30)
        assert memory.prefetch_all("q", timeout=30, **nameless) == "known"
    asked = {session for call, (_, session) in provider.calls if call == "prefetch"}
    assert len(asked) == 1
    assert asked != {""}


def test_boundaries_may_come_without_a_session(make_manager: MakeManager) -> None:
    memory, provider = make_manager(), RecordingProvider()
    memory.add_provider(provider)
    said: list[Any] = [{"role": "user", "content": "hi"}]
    for nameless in NAMELESS:
        memory.on_session_end(said, timeout=30, **nameless)
        assert memory.on_pre_compress(said, timeout=30, **nameless) == ""
        memory.on_delegation("task", "result", child_session_id="c", **nameless)
    memory.on_session_switch("next")
    memory.on_session_switch("next", parent_session_id=None)
    assert memory.flush_pending(30)
    kinds = [call for call, _ in provider.calls]
    assert [kinds.count(each) for each in ("on_session_end", "on_delegation", "on_session_switch")] == [
        3,
        3,
        2,
    ]


@pytest.mark.clause("M3", "D4", "D9")
def test_after_the_end_nothing_is_raised_and_nothing_is_called_done(make_manager: MakeManager) -> None:
    memory, provider = make_manager(), RecordingProvider()
    memory.add_provider(provider)
    memory.sync_all("in time", "1", session_id="s")
    assert memory.flush_pending(30)
    assert memory.shutdown_all() == []
    assert memory.flush_pending(0.01) is True
    for nameless in [*NAMELESS, {"session_id": "s"}]:
        memory.queue_prefetch_all("q", **nameless)
        assert memory.prefetch_all("q", timeout=0.01, **nameless) == ""
        assert memory.on_pre_compress([{"role": "user", "content": "x"}], timeout=0.01, **nameless) == ""
        memory.on_delegation("task", "result", child_session_id="c", **nameless)
        with pytest.raises(BoundaryFailed):
            memory.on_session_end([{"role": "user", "content": "x"}], timeout=0.01, **nameless)
    memory.on_session_switch("next", parent_session_id="s")
    assert memory.flush_pending(0.01) is True
    for nameless in [*NAMELESS, {"session_id": "s"}]:
        memory.sync_all("late", "2", **nameless)
        memory.sync_all([{"type": "text", "text": "late parts"}], None, **nameless)
    memory.wake()
    assert memory.flush_pending(0.01) is False
    [status] = memory.status()
    assert status.owed == 8
    assert memory.shutdown_all() == []
    assert provider.said() == ["in time"]
    with pytest.raises(MemoryClosed):
        memory.add_provider(RecordingProvider("another"))


@pytest.mark.clause("D9")
def test_what_could_not_be_delivered_before_the_end_is_still_owed_after_it(make_manager: MakeManager) -> None:
    memory, provider, gate = make_manager(drain_seconds=0.05), RecordingProvider(), Gate()
    provider.before = gate
    memory.add_provider(provider)
    memory.sync_all("one", "1")
    gate.wait_reached()
    assert len(memory.shutdown_all()) == 1
    assert memory.flush_pending(0.01) is False
    gate.open()
    until(lambda: memory.flush_pending(0.01))
    assert provider.said() == ["one"]


@pytest.mark.clause("D9")
def test_a_store_that_was_closed_before_its_memory_raises_into_nobody(tmp_path: Path) -> None:
    db = SessionDB(tmp_path / "holdfast.db")
    memory, provider = MemoryManager(db, drain_seconds=0.05), RecordingProvider()
    memory.add_provider(provider)
    memory.sync_all("in time", "1")
    assert memory.flush_pending(30)
    db.close()
    memory.sync_all("late", "2")
    assert memory.flush_pending(0.01) is False
    assert [each.owed for each in memory.status()] == [1]
    [said] = memory.shutdown_all()
    assert said.startswith("what is owed to recording can't be read")
    assert memory.flush_pending(0.01) is False


class Agent:
    """Commits and counts."""

    def __init__(self) -> None:
        self.commits = 0

    def commit_memory_session(self) -> None:
        self.commits += 1


def closed_store(tmp_path: Path) -> SessionLifecycle:
    db = SessionDB(tmp_path / "holdfast.db")
    db.create_session("s", source="test")
    life = SessionLifecycle(db)
    db.close()
    return life


@pytest.mark.clause("L12")
@pytest.mark.parametrize("make", [lambda _: SessionLifecycle(), closed_store], ids=["no store", "closed"])
def test_a_lifecycle_takes_late_marks_without_a_store_and_with_one_that_is_closed(
    make: Callable[[Path], SessionLifecycle], tmp_path: Path
) -> None:
    life, agent = make(tmp_path), Agent()
    life.register_agent("s", agent)
    assert life.has_uncommitted_work("s") is False
    assert life.mark_turn_completed("s") == 1
    assert life.has_uncommitted_work("s") is True
    assert life.recover() == []
    life.unregister_agent("s")
    life.forget("s")
    assert life.has_uncommitted_work("s") is False


@pytest.mark.clause("L4")
def test_a_commit_after_the_stores_end_fails_in_words_and_keeps_the_work(tmp_path: Path) -> None:
    life, agent = closed_store(tmp_path), Agent()
    life.mark_turn_completed("s", agent)
    assert life.commit_session_memory("s", wait=True) is False
    assert life.evict_agent("s", agent) is False
    assert life.drain_all_on_shutdown(1.0) == ["s"]
    assert agent.commits == 0, "what can't be recorded as committed is not committed"


@pytest.mark.clause("L12")
@pytest.mark.parametrize("sid", ["", None])
@pytest.mark.parametrize("make", [lambda _: SessionLifecycle(), closed_store], ids=["no store", "closed"])
def test_a_lifecycle_without_a_session_does_nothing(
    make: Callable[[Path], SessionLifecycle], tmp_path: Path, sid: str | None
) -> None:
    life, agent = make(tmp_path), Agent()
    life.register_agent(sid, agent)
    life.unregister_agent(sid)
    assert life.mark_turn_completed(sid, agent) == 0
    assert life.has_uncommitted_work(sid) is False
    assert life.commit_session_memory(sid, agent) is False
    assert life.evict_agent(sid, agent) is False
    life.forget(sid)
    assert life.drain_all_on_shutdown(1.0) == []
