"""A boundary: the uncommitted stretch goes to every provider, word for word, and is then committed."""

import pytest

from holdfast.core.contract import Message
from holdfast.memory import MemoryManager, SessionLifecycle
from holdfast.sessions import SessionDB
from holdfast.testing.providers import RecordingProvider
from tests.memory.conftest import QUICK
from tests.memory.gates import DEADLINE
from tests.sessions.conftest import database, db
from tests.sessions.store_fixtures import completed_turn, contents

__all__ = ["database", "db"]


class SmallAgent:
    """An agent as far as memory goes."""

    def __init__(self, db: SessionDB, memory: MemoryManager, session_id: str) -> None:
        self._db = db
        self._memory = memory
        self.session_id = session_id

    def commit_memory_session(self) -> None:
        for each in self._db.sessions.lineage(self.session_id):
            self._memory.on_session_end(self._db.sessions.uncommitted_messages(each), session_id=each)


def extracted(provider: RecordingProvider) -> list[list[str]]:
    return [contents(what) for call, what in provider.calls if call == "on_session_end"]


@pytest.mark.clause("L2", "L4", "D8")
def test_a_commit_hands_over_the_real_messages_once_and_again_only_after_a_failure(db: SessionDB) -> None:
    memory, provider, broken = MemoryManager(db, policy=QUICK), RecordingProvider(), [True]

    def fail_once(call: str) -> None:
        if call == "on_session_end" and broken:
            broken.clear()
            raise ConnectionError("no extraction now")

    provider.noted = fail_once
    memory.add_provider(provider)
    db.create_session("s", source="cli")
    agent, life = SmallAgent(db, memory, "s"), SessionLifecycle(db)
    life.register_agent("s", agent)
    for question in ("one", "two"):
        completed_turn(db, "s", question, providers=memory.provider_names)
        life.mark_turn_completed("s")
    memory.wake()
    stretch = ["one", "because of one", "two", "because of two"]
    assert life.commit_session_memory("s") is False
    assert life.commit_session_memory("s") is True
    assert life.commit_session_memory("s") is False
    completed_turn(db, "s", "three", providers=memory.provider_names)
    life.mark_turn_completed("s")
    memory.wake()
    assert life.commit_session_memory("s") is True
    assert extracted(provider) == [stretch, stretch, ["three", "because of three"]]
    assert memory.shutdown_all() == []


@pytest.mark.clause("L13")
def test_what_a_rotation_left_uncommitted_is_handed_over_by_the_agent_that_moved_on(db: SessionDB) -> None:
    memory, provider = MemoryManager(db, policy=QUICK), RecordingProvider()
    memory.add_provider(provider)
    db.create_session("a", source="cli")
    completed_turn(db, "a", "before")
    db.rotate("a", "b", [], carry_from=2)
    agent, life = SmallAgent(db, memory, "b"), SessionLifecycle(db)
    for session in life.recover():
        assert life.commit_session_memory(session, agent)
    assert extracted(provider) == [["before", "because of before"]]
    assert db.sessions.uncommitted() == []
    memory.shutdown_all()


@pytest.mark.clause("M8", "D8")
def test_each_provider_gets_a_copy_of_its_own(db: SessionDB) -> None:
    memory, seen = MemoryManager(db, policy=QUICK), list[str]()

    class Scribbling(RecordingProvider):
        def on_session_end(self, messages: list[Message]) -> None:
            seen.append(str(messages[0]["content"]))
            messages[0]["content"] = "scribbled over"

    for name in ("first", "second"):
        memory.add_provider(Scribbling(name))
    messages: list[Message] = [{"role": "user", "content": "as it was"}]
    memory.on_session_end(messages, session_id="s", timeout=DEADLINE)
    memory.on_session_end([], session_id="s", timeout=DEADLINE)
    assert seen == ["as it was", "as it was"]
    assert messages == [{"role": "user", "content": "as it was"}]
    memory.shutdown_all()
