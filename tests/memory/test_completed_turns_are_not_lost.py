"""D: a completed turn is never lost."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from holdfast.core.errors import BoundaryFailed, MemoryClosed, StoreClosed, Undeliverable
from holdfast.memory import CompletedTurn, MemoryManager
from holdfast.sessions import SessionDB
from holdfast.testing.providers import OneByOneProvider, RecordingProvider
from tests.memory.conftest import QUICK, MakeManager
from tests.memory.gates import DEADLINE, Gate, until
from tests.sessions.store_fixtures import LEASE, claim_for_the_dead, owe

# However slow the machine is, nothing is set aside before the test has looked.
NEVER_GIVE_UP = replace(QUICK, max_attempts=1_000_000)


def durable(open_store: Callable[[], SessionDB | None]) -> SessionDB:
    store = open_store()
    if store is None:
        pytest.skip("a store in memory ends with its process")
    return store


@pytest.mark.clause("D1", "D9")
def test_what_is_owed_at_shutdown_is_said_and_delivered_at_the_next_start(
    open_store: Callable[[], SessionDB | None],
) -> None:
    store, provider = durable(open_store), RecordingProvider()

    def refuse(_: Sequence[CompletedTurn]) -> None:
        raise ConnectionError("down")

    provider.before = refuse
    memory = MemoryManager(store, policy=NEVER_GIVE_UP, drain_seconds=0.05)
    memory.add_provider(provider)
    for number in range(3):
        memory.sync_all(f"{number}", "ok", session_id="s")
    assert memory.shutdown_all() == ["3 turns are owed to recording; they will be sent at the next start"]
    later, again = MemoryManager(durable(open_store), policy=QUICK), RecordingProvider()
    later.add_provider(again)
    assert later.flush_pending(30)
    assert again.said() == ["0", "1", "2"]
    later.shutdown_all()


@pytest.mark.clause("D1", "N2")
def test_what_a_dead_process_was_delivering_is_delivered_at_once_by_another(
    open_store: Callable[[], SessionDB | None],
) -> None:
    store, provider = durable(open_store), RecordingProvider("p")
    store.create_session("s", source="test")
    turns = owe(store, "s", 2)
    assert len(claim_for_the_dead(store, limit=2)) == len(turns), "for longer than the test waits"
    memory = MemoryManager(store, policy=QUICK)
    memory.add_provider(provider)
    assert memory.flush_pending(LEASE / 2)
    assert [turn.turn_id for turn in provider.turns] == turns
    memory.shutdown_all()


@pytest.mark.clause("D2")
def test_a_turn_that_comes_twice_has_the_same_key(make_manager: MakeManager) -> None:
    memory, provider = make_manager(), RecordingProvider()
    keys: list[str] = []

    def fail_after_storing(turns: Sequence[CompletedTurn]) -> None:
        keys.extend(turn.key for turn in turns)
        provider.by_key.update({turn.key: turn for turn in turns})
        if len(keys) == 1:
            raise ConnectionError("the answer was lost")

    provider.before = fail_after_storing
    memory.add_provider(provider)
    memory.sync_all("one", "1", session_id="s")
    assert memory.flush_pending(30)
    assert len(keys) == 2
    assert len(provider.by_key) == 1


class Ended(RecordingProvider):
    """Is asked for what it knows after its end."""

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        raise StoreClosed("its file")


@pytest.mark.clause("D4")
@pytest.mark.parametrize(
    "refusal", [MemoryClosed("recording"), StoreClosed("its file")], ids=["it", "its file"]
)
def test_a_provider_that_is_ending_keeps_its_turn_owed_and_makes_no_noise(
    make_manager: MakeManager, caplog: pytest.LogCaptureFixture, refusal: Exception
) -> None:
    memory, provider = make_manager(), Ended()
    refusals = iter([refusal])

    def refuse_once(_: Sequence[CompletedTurn]) -> None:
        for each in refusals:
            raise each

    provider.before = refuse_once
    memory.add_provider(provider)
    memory.sync_all("one", "1", session_id="s")
    assert memory.prefetch_all("one", session_id="s") == ""
    assert memory.flush_pending(DEADLINE)
    assert provider.said() == ["one"]
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


@pytest.mark.clause("D3")
def test_a_turn_that_can_never_be_delivered_is_set_aside_and_blocks_nobody(
    make_manager: MakeManager, open_store: Callable[[], SessionDB | None]
) -> None:
    store = durable(open_store)
    memory, provider = MemoryManager(store, policy=QUICK), OneByOneProvider()

    def refuse_bad(turns: Sequence[CompletedTurn]) -> None:
        if turns[0].user_content == "bad":
            raise Undeliverable("too large for this backend")

    provider.before = refuse_bad
    memory.add_provider(provider)
    for text in ("good", "bad", "also good"):
        memory.sync_all(text, "ok", session_id="s")
    assert memory.flush_pending(30)
    assert provider.said() == ["good", "also good"]
    [letter] = store.outbox.list("set_aside")
    assert "too large" in str(letter.last_error)
    provider.before = lambda _: None
    store.outbox.retry(letter.id)
    memory.wake()
    assert memory.flush_pending(30)
    assert provider.said()[-1] == "bad"
    memory.shutdown_all()


@pytest.mark.clause("D3")
def test_a_turn_that_fails_too_often_is_set_aside(make_manager: MakeManager) -> None:
    memory, provider = make_manager(), OneByOneProvider()

    def refuse_bad(turns: Sequence[CompletedTurn]) -> None:
        if turns[0].user_content == "bad":
            raise ValueError("can't parse this")

    provider.before = refuse_bad
    memory.add_provider(provider)
    memory.sync_all("bad", "ok", session_id="s")
    memory.sync_all("good", "ok", session_id="s")
    assert memory.flush_pending(30)
    assert provider.said() == ["good"]
    assert memory.status()[0].set_aside == 1


@pytest.mark.clause("D3", "M6")
def test_other_sessions_pass_one_whose_head_waits_for_its_retry(make_manager: MakeManager) -> None:
    memory, provider = make_manager(policy=NEVER_GIVE_UP), OneByOneProvider()
    broken = True

    def fail_a(turns: Sequence[CompletedTurn]) -> None:
        if broken and turns[0].session_id == "a":
            raise ConnectionError("only for a")

    provider.before = fail_a
    memory.add_provider(provider)
    memory.sync_all("a1", "ok", session_id="a")
    memory.sync_all("a2", "ok", session_id="a")
    memory.sync_all("b1", "ok", session_id="b")
    until(lambda: provider.said() == ["b1"])
    broken = False
    assert memory.flush_pending(30)
    assert provider.said("a") == ["a1", "a2"]


@pytest.mark.clause("D7", "D8")
def test_hooks_go_behind_what_their_session_is_owed(make_manager: MakeManager) -> None:
    memory, provider, gate = make_manager(), RecordingProvider(), Gate()
    order: list[str] = []

    def deliver(turns: Sequence[CompletedTurn]) -> None:
        gate()
        order.extend(turn.user_content for turn in turns)

    provider.before = deliver
    provider.noted = order.append
    provider.answers["q"] = "for the old session only"
    memory.add_provider(provider)
    memory.sync_all("one", "1", session_id="old")
    memory.sync_all("two", "2", session_id="old")
    memory.queue_prefetch_all("q", session_id="old")
    memory.on_session_switch("new", parent_session_id="old", reset=False)
    assert memory.prefetch_all("other", session_id="new", timeout=30) == ""
    gate.open()
    assert memory.flush_pending(30)
    order = [each for each in order if each not in ("initialize", "prefetch")]
    assert order == ["one", "two", "on_session_switch"]


@pytest.mark.clause("D8")
def test_a_provider_that_fails_at_a_boundary_is_named_to_whoever_commits(
    make_manager: MakeManager,
) -> None:
    memory, good, bad = make_manager(), RecordingProvider("good"), RecordingProvider("bad")

    def explode(_: list[object]) -> None:
        raise RuntimeError("no extraction today")

    bad.on_session_end = explode  # type: ignore[assignment,method-assign]
    memory.add_provider(good)
    memory.add_provider(bad)
    with pytest.raises(BoundaryFailed, match="bad: RuntimeError: no extraction today") as failed:
        memory.on_session_end([{"role": "user", "content": "hi"}], session_id="s", timeout=DEADLINE)
    assert list(failed.value.failures) == ["bad"]
    assert ("on_session_end", [{"role": "user", "content": "hi"}]) in good.calls


@pytest.mark.clause("D4", "D6")
def test_after_shutdown_nothing_is_called_and_what_comes_stays_owed(
    open_store: Callable[[], SessionDB | None],
) -> None:
    store, provider = durable(open_store), RecordingProvider()
    memory = MemoryManager(store, policy=QUICK)
    memory.add_provider(provider)
    memory.sync_all("one", "1", session_id="s")
    assert memory.flush_pending(30)
    assert memory.shutdown_all() == []
    assert memory.shutdown_all() == []
    calls = list(provider.calls)
    memory.sync_all("late", "2", session_id="s")
    memory.queue_prefetch_all("q", session_id="s")
    assert memory.prefetch_all("q", session_id="s", timeout=0.01) == ""
    assert provider.said() == ["one"]
    assert provider.calls == calls
    assert store.outbox.backlog("recording").owed == 1
    assert memory.flush_pending(0.01) is False
