"""A conversation that is deleted while memory is owed it: it alone is left out, at once and in silence."""

from collections.abc import Callable, Sequence

import pytest

from holdfast.memory import CompletedTurn, MemoryManager
from holdfast.sessions import SessionDB
from holdfast.testing.providers import OneByOneProvider, RecordingProvider
from tests.memory.conftest import QUICK
from tests.memory.gates import Gate, until

Provider = type[RecordingProvider]


def durable(open_store: Callable[[], SessionDB | None]) -> SessionDB:
    store = open_store()
    if store is None:
        pytest.skip("a store in memory is memory's own")
    return store


@pytest.mark.clause("D2", "M7")
@pytest.mark.parametrize("kind", [RecordingProvider, OneByOneProvider])
def test_the_rest_of_a_claim_is_delivered_once_when_a_part_of_it_is_deleted(
    open_store: Callable[[], SessionDB | None], kind: Provider
) -> None:
    store, provider, gate = durable(open_store), kind(), Gate()
    delivered: list[str] = []

    def hold(turns: Sequence[CompletedTurn]) -> None:
        gate()
        delivered.extend(turn.session_id for turn in turns)

    provider.before = hold
    memory = MemoryManager(store, policy=QUICK)
    memory.add_provider(provider)
    try:
        memory.sync_all("first", "ok", session_id="first")
        gate.wait_reached()
        for name in ("a", "gone", "b"):
            memory.sync_all("hi", "ok", session_id=name)
        store.delete_session("gone", force=True)
        gate.open()
        assert memory.flush_pending(30)
        assert sorted(delivered) == ["a", "b", "first"]
        assert provider.turns[0].session_id == "first"
    finally:
        gate.open()
        memory.shutdown_all()
    assert [each.last_error for each in memory.status()] == [None]


@pytest.mark.parametrize("kind", [RecordingProvider, OneByOneProvider])
def test_what_is_deleted_under_the_providers_hands_holds_up_nobody(
    open_store: Callable[[], SessionDB | None], kind: Provider
) -> None:
    store, provider, gate = durable(open_store), kind(), Gate()
    seen: list[list[str]] = []

    def hold(turns: Sequence[CompletedTurn]) -> None:
        seen.append([turn.session_id for turn in turns])
        if any(turn.session_id == "gone" for turn in turns):
            gate()

    provider.before = hold
    memory = MemoryManager(store, policy=QUICK)
    try:
        for name in ("a", "gone", "b"):
            store.turns.record(
                name, [{"role": "user", "content": "hi"}], providers=[provider.name], source="test"
            )
        memory.add_provider(provider)
        gate.wait_reached()
        store.delete_session("gone", force=True)
        gate.open()
        assert memory.flush_pending(30)
        until(lambda: store.outbox.backlog(provider.name).owed == 0)
        times = [session for batch in seen for session in batch]
        assert sorted(times) == ["a", "b", "gone"], "nothing came twice"
        assert store.check() == []
    finally:
        gate.open()
        memory.shutdown_all()
