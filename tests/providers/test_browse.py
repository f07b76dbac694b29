"""A person looks into memory through the manager: every provider is searched, and one thing is forgotten."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import InvalidInput, ProviderUnavailable
from holdfast.memory import MemoryManager
from holdfast.memory.config import ProviderConfig
from holdfast.memory.recall_lane import MAX_WAITING
from holdfast.providers.holographic import HolographicMemory
from holdfast.providers.local import LocalMemory
from holdfast.providers.openviking import OpenVikingMemory
from holdfast.testing import FakeClock
from holdfast.testing.fake_openviking import FakeOpenViking
from holdfast.testing.providers import RecordingProvider
from tests.memory.gates import DEADLINE

pytest.importorskip("numpy")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[MemoryManager]:
    """Three providers that have heard one turn: of passages, of facts, and of plain texts."""
    manager, clock = MemoryManager(), SystemClock()
    with FakeOpenViking() as server:
        manager.add_provider(LocalMemory(tmp_path / "memory.db", clock=clock, embedder=None))
        manager.add_provider(HolographicMemory(tmp_path / "facts.db", clock=clock))
        manager.add_provider(
            OpenVikingMemory(tmp_path, clock), config=ProviderConfig({"url": server.url, "timeout_s": "5"})
        )
        manager.sync_all("My sister Ann lives in Oslo.", "Noted.", session_id="s1")
        assert manager.flush_pending(DEADLINE)
        manager.on_session_end([{"role": "user", "content": "My sister Ann lives in Oslo."}], session_id="s1")
        yield manager
        manager.shutdown_all()


def test_every_provider_shows_what_it_has(memory: MemoryManager) -> None:
    found = {each.provider: each for each in memory.search("Ann Oslo", limit=1, timeout=DEADLINE).found}
    assert found.keys() == {"local", "holographic", "openviking"}
    assert all("Oslo" in each.text for each in found.values())
    assert (found["local"].kind, found["local"].speaker, found["local"].session_id) == ("turn", "user", "s1")
    assert found["holographic"].kind.startswith("fact")
    assert found["holographic"].created is not None
    assert found["openviking"].id is None


@pytest.mark.parametrize("provider", ["local", "holographic"])
def test_what_was_shown_can_be_forgotten(memory: MemoryManager, provider: str) -> None:
    [shown] = memory.search("Ann Oslo", provider=provider, limit=1, timeout=DEADLINE).found
    assert shown.id is not None
    forgetter = memory.forgetter
    record = forgetter.wait(forgetter.forget(forgetter.select.by_ids([(provider, shown.id)])), DEADLINE)
    assert record is not None
    assert next((e.state, e.forgotten) for e in record.providers if e.provider == provider) >= ("done", 1)
    with pytest.raises(InvalidInput):
        forgetter.select.by_ids([(provider, shown.id)])
    assert memory.search("Ann Oslo", provider=provider, timeout=DEADLINE).found == ()


@pytest.mark.parametrize("wanted", ["none", "", "-1", "9" * 400])
def test_an_id_that_nothing_has_is_not_there(memory: MemoryManager, wanted: str) -> None:
    for provider in ("local", "holographic"):
        with pytest.raises(InvalidInput, match="nothing with the number"):
            memory.forgetter.select.by_ids([(provider, wanted)])


def test_a_provider_of_plain_texts_says_that_it_forgets_nothing_by_itself(memory: MemoryManager) -> None:
    with pytest.raises(InvalidInput, match="openviking can't forget single memories"):
        memory.forgetter.select.by_ids([("openviking", "1")])


class Held(RecordingProvider):
    """Recalls nothing until its gate is open."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.gate, self.reached = threading.Event(), threading.Event()
        self.before_recall = self._hang

    def _hang(self, _: str) -> None:
        self.reached.set()
        self.gate.wait(DEADLINE)


def raising(error: Exception) -> Callable[[str], None]:
    def before(_: str) -> None:
        raise error

    return before


def test_one_provider_that_fails_keeps_nothing_back_of_what_the_others_have() -> None:
    manager, good, bad, slow = MemoryManager(), RecordingProvider("good"), RecordingProvider("bad"), Held()
    good.answers["Ann"] = "Ann lives in Oslo."
    bad.before_recall = raising(OSError("no route"))
    for each in (good, bad, slow):
        manager.add_provider(each)
    searched = manager.search("Ann", timeout=0.2)
    slow.gate.set()
    assert [each.text for each in searched.found] == ["Ann lives in Oslo."]
    assert searched.failed == {
        "bad": "bad is unavailable: OSError: no route",
        "slow": "slow is unavailable: it did not answer in time",
    }
    manager.shutdown_all()


def test_a_provider_that_is_stuck_is_not_waited_for_again() -> None:
    clock = FakeClock()
    manager, slow = MemoryManager(clock=clock), Held()
    manager.add_provider(slow)
    while not slow.reached.is_set():
        with pytest.raises(ProviderUnavailable, match="did not answer in time"):
            manager.search("Ann", timeout=0.05)
    clock.advance(1.0)
    with pytest.raises(ProviderUnavailable, match="has not answered an earlier call yet"):
        manager.search("Ann", timeout=DEADLINE)
    slow.gate.set()
    manager.shutdown_all()


def test_searches_that_were_given_up_take_no_room() -> None:
    manager, slow = MemoryManager(clock=FakeClock()), Held()
    manager.add_provider(slow)
    given_up = 0
    while not slow.reached.is_set() or given_up < MAX_WAITING + 2:
        with pytest.raises(ProviderUnavailable, match="did not answer in time"):
            manager.search("Ann", timeout=0 if slow.reached.is_set() else 0.05)
        given_up += slow.reached.is_set()
    slow.gate.set()
    slow.answers["Ann"] = "Ann lives in Oslo."
    [found] = manager.search("Ann", timeout=DEADLINE).found
    assert found.text == "Ann lives in Oslo."
    manager.shutdown_all()


def test_a_search_that_nobody_answers_says_why() -> None:
    manager, bad = MemoryManager(), RecordingProvider("bad")
    bad.before_recall = raising(OSError("no route"))
    manager.add_provider(bad)
    for provider in ("", "bad"):
        with pytest.raises(ProviderUnavailable, match="bad is unavailable: OSError: no route"):
            manager.search("Ann", provider=provider, timeout=DEADLINE)
    manager.shutdown_all()
