"""M: a turn is never blocked by memory."""

import threading
from collections.abc import Sequence

import pytest

from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput
from holdfast.memory import CompletedTurn, MemoryManager
from holdfast.testing.providers import OneByOneProvider, RecordingProvider
from tests.memory.conftest import MakeManager
from tests.memory.gates import Gate, until


@pytest.mark.clause("M1")
def test_handing_over_returns_while_the_provider_is_wedged(make_manager: MakeManager) -> None:
    memory, provider, gate = make_manager(drain_seconds=0.05), RecordingProvider(), Gate()
    provider.before = gate
    provider.before_recall = gate
    memory.add_provider(provider)
    memory.sync_all("one", "1", session_id="s")
    memory.queue_prefetch_all("what?", session_id="s")
    gate.wait_reached()
    for number in range(20):
        memory.sync_all(f"more {number}", "1", session_id="s")
        memory.queue_prefetch_all("what else?", session_id="s")
    assert provider.turns == []
    gate.open()
    assert memory.flush_pending(30)
    assert provider.said() == ["one", *(f"more {number}" for number in range(20))]


@pytest.mark.clause("M2", "D3")
def test_a_failing_provider_gets_every_turn_in_the_end_and_never_raises_into_the_turn(
    make_manager: MakeManager,
) -> None:
    memory, provider = make_manager(), RecordingProvider()
    failures = iter([ValueError("no"), ConnectionError("down"), SystemExit(3), None])

    def fail(_: Sequence[CompletedTurn]) -> None:
        failure = next(failures, None)
        if failure is not None:
            raise failure

    provider.before = fail
    memory.add_provider(provider)
    memory.sync_all("one", "1", session_id="s")
    memory.sync_all("two", "2", session_id="s")
    assert memory.flush_pending(30)
    assert provider.said() == ["one", "two"]
    [status] = memory.status()
    assert (status.owed, status.set_aside, status.delivered) == (0, 0, 2)
    assert status.last_error is not None


@pytest.mark.clause("M3")
def test_flush_is_a_barrier(make_manager: MakeManager) -> None:
    memory, provider, gate = make_manager(drain_seconds=0.05), RecordingProvider(), Gate()
    assert memory.flush_pending(0) is True
    memory.add_provider(provider)
    assert memory.flush_pending(30) is True
    provider.before = gate
    memory.sync_all("one", "1", session_id="s")
    assert memory.flush_pending(0.01) is False
    gate.open()
    assert memory.flush_pending(30) is True
    assert provider.said() == ["one"]


@pytest.mark.clause("M2")
def test_a_turn_of_parts_reaches_the_provider_too(make_manager: MakeManager) -> None:
    memory, provider = make_manager(), RecordingProvider()
    memory.add_provider(provider)
    memory.sync_all([{"type": "text", "text": "a picture"}], None, session_id="s")
    memory.sync_all("plain", "text", session_id="s")
    assert memory.flush_pending(30)
    assert provider.said() == ["a picture", "plain"]


@pytest.mark.clause("M2")
def test_what_can_never_be_stored_is_refused_to_its_caller(make_manager: MakeManager) -> None:
    memory = make_manager()
    memory.add_provider(RecordingProvider())
    with pytest.raises(InvalidInput):
        memory.sync_all("one", "1", session_id="x" * 501)
    with pytest.raises(InvalidInput):
        memory.sync_all([{"text": object()}], "1", session_id="s")
    with pytest.raises(InvalidInput):
        memory.sync_all("one", "1", session_id="s", messages=[{"role": "user", "content": object()}])  # type: ignore[typeddict-item]
    with pytest.raises(InvalidInput):
        memory.add_provider(RecordingProvider("half a \ud83d pair"))
    assert memory.flush_pending(30)


@pytest.mark.clause("M4")
def test_without_a_provider_there_is_no_thread_no_queue_and_no_file(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    before = set(threading.enumerate())
    memory = MemoryManager()
    memory.sync_all("one", "1", session_id="s")
    memory.queue_prefetch_all("what?", session_id="s")
    assert memory.prefetch_all("what?", session_id="s") == ""
    assert memory.flush_pending(0) is True
    assert memory.shutdown_all() == []
    assert set(threading.enumerate()) <= before
    assert memory.status() == []


@pytest.mark.clause("M5")
def test_shutdown_shares_one_budget_over_wedged_providers(make_manager: MakeManager) -> None:
    memory, gate = make_manager(drain_seconds=0.2), Gate()
    providers = [RecordingProvider(f"p{number}") for number in range(20)]
    for provider in providers:
        provider.before = gate
        memory.add_provider(provider)
    memory.sync_all("one", "1", session_id="s")
    gate.wait_reached()
    ended = threading.Event()
    owed: list[str] = []

    def end() -> None:
        owed.extend(memory.shutdown_all())
        ended.set()

    threading.Thread(target=end, daemon=True).start()
    # Twenty budgets one after another would be 4 s; the gate is still closed all the while.
    assert ended.wait(3.5)
    assert len(owed) == 20
    gate.open()


@pytest.mark.clause("M6")
def test_order_within_a_session_survives_retries(make_manager: MakeManager) -> None:
    memory, provider = make_manager(), OneByOneProvider()
    failed: set[str] = set()

    def fail_once(turns: Sequence[CompletedTurn]) -> None:
        [turn] = turns
        if turn.user_content not in failed:
            failed.add(turn.user_content)
            raise ConnectionError(turn.user_content)

    provider.before = fail_once
    memory.add_provider(provider)
    for number in range(10):
        for session in ("a", "b", "c"):
            memory.sync_all(f"{session}{number}", "ok", session_id=session)
    assert memory.flush_pending(30)
    for session in ("a", "b", "c"):
        assert provider.said(session) == [f"{session}{number}" for number in range(10)]


@pytest.mark.clause("M7")
def test_a_slow_provider_delays_no_other_and_a_slow_write_delays_no_recall(
    make_manager: MakeManager,
) -> None:
    memory, gate = make_manager(drain_seconds=0.05), Gate()
    slow, fast = RecordingProvider("slow"), RecordingProvider("fast")
    slow.before = gate
    slow.answers["where?"] = "in the attic"
    memory.add_provider(slow)
    memory.add_provider(fast)
    memory.sync_all("one", "1", session_id="s")
    gate.wait_reached()
    until(lambda: fast.said() == ["one"])
    assert memory.prefetch_all("where?", session_id="s", timeout=30) == "in the attic"
    assert slow.said() == []
    gate.open()


@pytest.mark.clause("M8")
def test_later_changes_to_the_messages_do_not_reach_a_provider(make_manager: MakeManager) -> None:
    memory, provider, gate = make_manager(), RecordingProvider(), Gate()
    provider.before = gate
    memory.add_provider(provider)
    messages: list[Message] = [{"role": "user", "content": "as it was"}]
    memory.sync_all("one", "1", session_id="s", messages=messages)
    messages[0]["content"] = "changed"
    messages.append({"role": "user", "content": "added"})
    gate.open()
    assert memory.flush_pending(30)
    assert provider.turns[0].messages == [{"role": "user", "content": "as it was"}]


@pytest.mark.clause("M9")
def test_a_late_recall_is_left_out_and_used_by_the_next_turn_of_its_session(
    make_manager: MakeManager,
) -> None:
    memory, provider, gate = make_manager(drain_seconds=0.05), RecordingProvider(), Gate()
    provider.answers = {"first": "an old friend", "second": ""}
    provider.before_recall = lambda query: gate() if query == "first" else None
    memory.add_provider(provider)
    assert memory.prefetch_all("first", session_id="s", timeout=0.01) == ""
    gate.wait_reached()
    # While it is out, it is skipped and not waited for.
    assert memory.prefetch_all("second", session_id="s", timeout=30) == ""
    assert memory.status()[0].recall_stuck
    gate.open()
    until(lambda: not memory.status()[0].recall_stuck)
    assert memory.prefetch_all("second", session_id="other", timeout=30) == ""
    assert memory.prefetch_all("second", session_id="s", timeout=30) == "an old friend"
    assert memory.prefetch_all("third", session_id="s", timeout=30) == ""


@pytest.mark.clause("M9")
@pytest.mark.parametrize("answer", [None, 42, b"bytes", ["list"]])
def test_a_recall_that_is_not_text_is_reported_and_left_out(
    make_manager: MakeManager, answer: object
) -> None:
    memory, good, bad = make_manager(), RecordingProvider("good"), RecordingProvider("bad")
    good.answers["q"] = "text"
    bad.answers["q"] = answer  # type: ignore[assignment]
    memory.add_provider(good)
    memory.add_provider(bad)
    assert memory.prefetch_all("q", session_id="s", timeout=30) == "text"
    assert "not text" in str(memory.status()[1].last_error)
