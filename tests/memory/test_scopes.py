"""Which providers are used for people other than the owner, and what each of them is given."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.clock import SystemClock
from holdfast.memory import MemoryManager
from holdfast.memory.forgetting import ForgetRequest
from holdfast.memory.provider_gate import gate_provider
from holdfast.sessions import SessionDB
from holdfast.testing import RecordingProvider
from tests.sessions.store_fixtures import assistant, user

ANN, ROOM = "telegram-main/person-123", "matrix-home/room-abc"
OpenStore = Callable[[], SessionDB | None]


class OfOneScope(RecordingProvider):
    """What a provider keeps for one scope: a block, a tool and recalls that name the scope."""

    def __init__(self, scope: str) -> None:
        super().__init__("apart")
        self.scope = scope

    def system_prompt_block(self) -> str:
        return f"block of {self.scope or 'the owner'}"

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return [{"name": "look", "parameters": {"type": "object", "properties": {}}}]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: object) -> str:
        return f"{tool_name} of {self.scope or 'the owner'}"

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        return f"recalled for {self.scope or 'the owner'}"


class ApartProvider(OfOneScope):
    """Keeps scopes apart."""

    def __init__(self) -> None:
        super().__init__("")
        self.scopes: dict[str, OfOneScope] = {}

    def for_scope(self, scope: str) -> OfOneScope:
        return self.scopes.setdefault(scope, OfOneScope(scope))


def record(store: SessionDB, memory: MemoryManager, session_id: str, scope: str) -> None:
    store.create_session(session_id, source="chat", scope=scope)
    turn = [user(f"said in {session_id}"), assistant("yes")]
    store.turns.record(session_id, turn, providers=memory.names_for(scope), then=memory.wake)


def durable(open_store: OpenStore) -> SessionDB:
    store = open_store()
    if store is None:
        pytest.skip("a store in memory has no sessions of other scopes")
    return store


def said(provider: RecordingProvider) -> list[str]:
    return [each.user_content for each in provider.turns]


def test_each_scope_has_a_provider_of_its_own_for_every_call(open_store: OpenStore) -> None:
    store = durable(open_store)
    memory, provider = MemoryManager(store), ApartProvider()
    memory.add_provider(provider)
    for number, scope in enumerate(("", ANN, ROOM, ANN, "")):
        record(store, memory, f"s{number}", scope)
    assert memory.flush_pending(10)
    assert [said(each) for each in (provider, provider.scopes[ANN], provider.scopes[ROOM])] == [
        ["said in s0", "said in s4"],
        ["said in s1", "said in s3"],
        ["said in s2"],
    ]
    for scope in ("", ANN, ROOM):
        name = scope or "the owner"
        [recalled] = memory.ask_recall("anything", session_id=f"of {scope}", scope=scope).wait()
        assert recalled.text == f"recalled for {name}"
        assert memory.ask_prompt_blocks(5.0, scope=scope).wait().text == f"block of {name}"
        assert [each["name"] for each in memory.ask_tool_schemas(5.0, scope=scope).wait().functions] == [
            "look"
        ]
        assert memory.ask_tool("look", {}, scope=scope).wait() == f"look of {name}"
    memory.on_session_end([user("bye")], session_id="s1", scope=ANN)
    assert [name for name, _ in provider.calls if name == "on_session_end"] == []
    assert [name for name, _ in provider.scopes[ANN].calls] == ["on_session_end"]
    memory.shutdown_all()


def test_a_provider_that_keeps_nothing_apart_serves_the_owner_alone_and_says_so_once(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    store = durable(open_store)
    memory, provider = MemoryManager(store), RecordingProvider("shared")
    provider.answers["q"] = "the owner's secret"
    memory.add_provider(provider)
    assert memory.problems() == []
    with caplog.at_level(logging.WARNING):
        for number, scope in enumerate((ANN, ROOM)):
            record(store, memory, f"s{number}", scope)
            assert memory.ask_recall("q", session_id=f"s{number}", scope=scope).wait() == ()
            assert memory.ask_prompt_blocks(5.0, scope=scope).wait().text == ""
            assert memory.ask_tool_schemas(5.0, scope=scope).wait().functions == ()
            memory.queue_prefetch_all("q", session_id=f"s{number}", scope=scope)
            memory.on_session_end([user("bye")], session_id=f"s{number}", scope=scope)
            memory.on_delegation("task", "result", session_id=f"s{number}", scope=scope)
            memory.on_session_switch("next", parent_session_id=f"s{number}", scope=scope)
    record(store, memory, "mine", "")
    assert memory.flush_pending(10)
    assert said(provider) == ["said in mine"]
    assert [name for name, _ in provider.calls] == ["initialize"]
    [problem] = memory.problems()
    assert "shared: it can't keep people apart" in problem
    assert [each.message for each in caplog.records].count("memory.scopes_not_kept") == 1
    memory.shutdown_all()


def test_what_a_late_provider_may_not_have_is_set_aside_and_never_delivered(open_store: OpenStore) -> None:
    store = durable(open_store)
    memory, provider = MemoryManager(store), RecordingProvider("late")
    memory.add_pending("late", "it is still loading")
    for session_id, scope in (("anns", ANN), ("mine", "")):
        record(store, memory, session_id, scope)
    memory.attach(gate_provider(provider, SystemClock()), expected="late", given={})
    assert memory.flush_pending(10)
    assert said(provider) == ["said in mine"]
    [aside] = store.outbox.list("set_aside")
    assert aside.session_id == "anns"
    assert "can't keep people apart" in str(aside.last_error)
    memory.shutdown_all()


def test_a_forgotten_conversation_is_forgotten_in_its_own_scope() -> None:

    turns = (("mine", "t1"), ("anns", "t2"), ("rooms", "t3"))
    request = ForgetRequest("k", turns, ("anns", "mine"), ("7",), (0.0, 1.0), {"anns": ANN, "rooms": ROOM})
    parts = request.by_scope()
    assert {scope: part.turns for scope, part in parts.items()} == {
        "": (("mine", "t1"),),
        ANN: (("anns", "t2"),),
        ROOM: (("rooms", "t3"),),
    }
    assert [part.sessions for part in parts.values()] == [("mine",), ("anns",), ()]
    assert [part.memory_ids for part in parts.values()] == [("7",), (), ()]
    assert [part.period for part in parts.values()] == [(0.0, 1.0), None, None]
