"""What memory hears of delegation: the task and its result, and nothing of a subagent's own turns."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from holdfast import MemoryManager, SessionDB
from holdfast.agent.summary_text import HEADING
from holdfast.core.errors import KeyRejected
from holdfast.memory import SessionLifecycle
from holdfast.testing import Call, Tokens
from holdfast.testing.providers import RecordingProvider
from tests.agent.agent_fixtures import echo
from tests.agent.subagent_fixtures import ModelByConversation, delegating, parent_of

Wait = Callable[[Awaitable[Any]], Any]


@pytest.fixture
def provider() -> RecordingProvider:
    return RecordingProvider()


@pytest.fixture
def memory(db: SessionDB, provider: RecordingProvider) -> Iterator[MemoryManager]:
    manager = MemoryManager(db)
    manager.add_provider(provider)
    yield manager
    manager.shutdown_all()


def delegations(provider: RecordingProvider) -> dict[str, tuple[str, Any]]:
    return {what[0]: what[1:] for call, what in provider.calls if call == "on_delegation"}


def test_every_provider_hears_what_was_delegated_and_what_came_of_it(
    db: SessionDB, wait: Wait, memory: MemoryManager, provider: RecordingProvider
) -> None:
    two = [KeyRejected("m", "expired")]
    model = ModelByConversation({"go": [delegating("one", "two"), "done"], "one": ["one is red"], "two": two})
    wait(parent_of(model, db, memory=memory).run("go"))
    assert memory.flush_pending()
    heard = delegations(provider)
    by_title = {session.title: session.id for each in db.children("s") if (session := db.get_session(each))}
    assert heard["one"] == ("one is red", {"child_session_id": by_title["one"]})
    assert "expired" in heard["two"][0]
    assert heard["two"][1] == {"child_session_id": by_title["two"]}


def test_a_subagents_own_turn_and_its_own_delegations_are_not_remembered(
    db: SessionDB, wait: Wait, memory: MemoryManager, provider: RecordingProvider
) -> None:
    outer = {"task": "outer", "tools": ["delegate"]}
    model = ModelByConversation(
        {"go": [delegating(outer), "done"], "outer": [delegating("inner"), "found"], "inner": ["deep"]}
    )
    wait(parent_of(model, db, memory=memory).run("go"))
    assert memory.flush_pending()
    assert provider.said() == ["go"]
    assert list(delegations(provider)) == ["outer"]
    assert {what for call, what in provider.calls if call == "prefetch"} == {("go", "s")}


@pytest.mark.clause("L10", "L13")
def test_a_subagents_session_never_waits_for_a_boundary_commit(db: SessionDB, wait: Wait) -> None:
    # Its window is so small that the subagent's conversation is compacted.
    parts: dict[str, list[Any]] = {
        "go": [delegating("count"), "done"],
        "count": [[Call("echo", {"a": "b" * 4000}), Tokens(900)]],
        "<conversation>": ["in short"],
        HEADING: ["three"],
    }
    model = ModelByConversation(parts, context_window=1000)
    wait(parent_of(model, db, [echo()]).run("go"))
    (child_id,) = db.children("s")
    end = db.sessions.live_end(child_id)
    assert end != child_id, "the subagent's conversation was continued"
    for each in (child_id, end):
        session = db.get_session(each)
        assert session is not None
        assert session.source == "delegate"
    assert db.get_messages(end)[-1]["content"] == "three"
    assert db.sessions.uncommitted() == ["s"]
    assert SessionLifecycle(store=db).has_uncommitted_work("s")
