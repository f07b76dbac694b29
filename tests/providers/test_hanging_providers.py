"""M10: a call into a provider that never returns costs that provider's own threads, and nothing else."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from holdfast import MemoryManager, SessionDB
from holdfast.core.clock import SystemClock
from holdfast.core.errors import BoundaryFailed, ProviderLate, ProviderUnavailable
from holdfast.memory.provider_gate import CachedAnswer, ProviderGate
from holdfast.providers.loader import LoadResult, load_providers
from holdfast.testing import FakeClock
from holdfast.testing.providers import RecordingProvider
from holdfast.wiring import build_memory, load_settings
from tests.memory.gates import Gate, until
from tests.providers.hanging_plugin import AT_THE_START, Plugin

MakePlugin = Callable[..., Plugin]


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[MakePlugin]:
    made: list[Plugin] = []

    def make(*hangs: str, name: str = "hanging") -> Plugin:
        made.append(Plugin(tmp_path, *hangs, name=name))
        return made[-1]

    yield make
    for each in made:
        each.let_go()


def threads_of(name: str) -> list[str]:
    """The living threads that belong to a provider."""
    names = (f"memory-{name}", f"memory-write-{name}", f"memory-recall-{name}")
    return [each.name for each in threading.enumerate() if each.name in names]


def load(plugin: Plugin, seconds: float = 0.05) -> LoadResult:
    return load_providers(["holdfast.testing.providers:RecordingProvider"], plugin.plugins, seconds=seconds)


@pytest.mark.clause("M10")
@pytest.mark.parametrize("call", AT_THE_START)
def test_a_plugin_that_hangs_while_it_is_loaded_is_late_and_the_others_are_loaded(
    plugin: MakePlugin, call: str
) -> None:
    hanging = plugin(call)
    # Long enough for the other; the plugin would take for ever.
    loaded = load(hanging, seconds=2.0)
    assert [each.gated.name for each in loaded.ready] == ["recording"]
    assert loaded.problems == []
    [late] = loaded.late
    assert late.configured_name == "hanging"
    assert loaded.left_out == ["hanging did not answer in 2 s; going on without it"]
    hanging.let_go()
    assert late.loading.result(30).gated.name == "hanging"


@pytest.mark.clause("M10")
def test_a_gate_asks_a_provider_that_is_stuck_nothing_more_until_it_returns() -> None:
    clock, gate = FakeClock(), Gate()
    way_in = ProviderGate("slow", clock)
    stuck = way_in.submit("is_available", gate, 5.0)
    gate.wait_reached()
    clock.advance(6)
    for _ in range(50):
        with pytest.raises(ProviderUnavailable, match="has not returned from is_available yet"):
            way_in.answer("is_available", lambda: True, 5.0)
    assert way_in.late_call() == "is_available has not returned for 6 s"
    assert threads_of("slow") == ["memory-slow"]
    gate.open()
    stuck.result(30)
    until(lambda: threads_of("slow") == [])
    assert way_in.late_call() is None
    assert way_in.answer("is_available", lambda: True, 30.0) is True


@pytest.mark.clause("M10")
def test_who_waits_at_a_gate_hears_that_the_provider_is_late() -> None:
    gate = Gate()
    way_in = ProviderGate("slow", SystemClock())
    with pytest.raises(ProviderLate, match=r"slow did not answer in 0\.01 s \(check\)"):
        way_in.answer("check", gate, 0.01)
    gate.open()


@pytest.mark.clause("M10")
def test_a_waiting_call_that_was_given_up_is_never_made() -> None:
    gate, made = Gate(), []
    way_in = ProviderGate("slow", SystemClock())
    way_in.submit("first", gate, 30.0)
    gate.wait_reached()
    with pytest.raises(ProviderLate):
        way_in.answer("second", lambda: made.append(1), 0.01)
    gate.open()
    way_in.answer("third", lambda: None, 30.0)
    assert made == []


class Describing(RecordingProvider):
    """Offers a block and a tool, as long as its gate is open."""

    def __init__(self, name: str = "recording") -> None:
        super().__init__(name)
        self.gates: dict[str, Callable[[], None]] = {}
        self.threads: dict[str, str] = {}

    def _called(self, call: str) -> None:
        self.threads[call] = threading.current_thread().name
        self.gates.get(call, lambda: None)()

    def system_prompt_block(self) -> str:
        self._called("system_prompt_block")
        return f"{self.name} is here"

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        self._called("get_tool_schemas")
        return [{"name": f"{self.name}_tool", "description": "", "parameters": {}}]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:  # noqa: ANN401
        self._called("handle_tool_call")
        return "done"

    def note(self, call: str, what: object) -> None:
        self._called(call)
        super().note(call, what)


@pytest.mark.clause("M10")
@pytest.mark.parametrize("call", ["system_prompt_block", "get_tool_schemas"])
def test_what_never_comes_is_left_out_with_one_thread_however_often_it_is_asked_for(call: str) -> None:
    memory, slow, gate = MemoryManager(drain_seconds=0.05), Describing("slow"), Gate()
    slow.gates[call] = gate
    memory.add_provider(slow)
    memory.add_provider(Describing("quick"))
    asks: dict[str, Callable[[], object]] = {
        "system_prompt_block": lambda: memory.system_prompt_block(0.05),
        "get_tool_schemas": lambda: memory.get_tool_schemas(0.05),
    }
    without: dict[str, object] = {
        "system_prompt_block": "quick is here",
        "get_tool_schemas": [{"name": "quick_tool", "description": "", "parameters": {}}],
    }
    for _ in range(40):
        assert asks[call]() == without[call]
    assert threads_of("slow").count("memory-slow") == 1
    assert len(threads_of("slow")) <= 3
    gate.open()
    until(lambda: asks[call]() != without[call])
    memory.shutdown_all()


@pytest.mark.clause("M10")
def test_what_a_provider_said_before_stands_in_while_it_hangs() -> None:
    clock, slow, gate = FakeClock(), Describing("slow"), Gate()
    memory = MemoryManager(clock=clock, drain_seconds=0.05)
    memory.add_provider(slow)
    assert memory.system_prompt_block(30) == "slow is here"
    assert memory.handle_tool_call("slow_tool", {}) == "done"
    clock.advance(1.0)  # an answer is shared for a second
    slow.gates = {"system_prompt_block": gate, "get_tool_schemas": gate}
    assert memory.system_prompt_block(0.05) == "slow is here"
    assert [each["name"] for each in memory.get_tool_schemas(0.05)] == ["slow_tool"]
    assert memory.ask_prompt_blocks(0.05).wait().is_late
    gate.open()
    memory.shutdown_all()


@pytest.mark.clause("M10")
def test_every_call_into_a_provider_runs_on_threads_of_its_own() -> None:
    memory, provider = MemoryManager(), Describing()
    memory.add_provider(provider)
    memory.sync_all("one", "1", session_id="s")
    memory.queue_prefetch_all("q", session_id="s")
    assert memory.flush_pending(30)
    memory.prefetch_all("other", session_id="s", timeout=30)
    memory.system_prompt_block(30)
    memory.handle_tool_call("recording_tool", {})
    memory.on_session_end([{"role": "user", "content": "x"}], session_id="s", timeout=30)
    memory.on_session_switch("t", parent_session_id="s")
    memory.on_delegation("task", "result", child_session_id="c")
    assert memory.flush_pending(30)
    memory.shutdown_all()
    own = {"memory-recording", "memory-write-recording", "memory-recall-recording"}
    assert set(provider.threads.values()) <= own
    assert set(provider.threads) >= {
        "initialize",
        "prefetch",
        "system_prompt_block",
        "get_tool_schemas",
        "handle_tool_call",
        "on_session_end",
        "on_session_switch",
        "on_delegation",
        "shutdown",
    }


@pytest.mark.clause("M10", "L9")
def test_nobody_waits_at_a_boundary_for_a_lane_that_is_stuck(caplog: pytest.LogCaptureFixture) -> None:
    clock, provider, gate = FakeClock(), RecordingProvider(), Gate()
    memory = MemoryManager(clock=clock, drain_seconds=0.05)
    provider.before = gate
    memory.add_provider(provider)
    memory.sync_all("one", "1", session_id="s")
    gate.wait_reached()
    clock.advance(61)
    said: list[Any] = [{"role": "user", "content": "x"}]
    # Both would wait for an hour for a lane that is busy.
    with pytest.raises(BoundaryFailed, match="sync_turns has not returned for 61 s"):
        memory.on_session_end(said, session_id="s", timeout=3600)
    assert memory.on_pre_compress(said, session_id="s", timeout=3600) == ""
    assert memory.problems() == ["recording: sync_turns has not returned for 61 s; going on without it"]
    assert memory.status()[0].last_error == "sync_turns has not returned for 61 s"
    until(lambda: "memory.call_is_late" in caplog.text)
    gate.open()
    memory.shutdown_all()


@pytest.mark.clause("M10", "D1", "M6")
@pytest.mark.parametrize("name", ["hanging", "another name"])
def test_a_provider_that_is_late_is_owed_every_turn_and_taken_in_when_it_answers(
    plugin: MakePlugin, tmp_path: Path, name: str
) -> None:
    hanging = plugin("constructor", name=name)
    settings = load_settings(
        {
            "HOLDFAST_MEMORY_PROVIDERS": "",
            "HOLDFAST_MEMORY_PLUGINS": str(hanging.plugins),
            "HOLDFAST_MEMORY_START_S": "0.05",
        }
    )
    with SessionDB(tmp_path / "holdfast.db") as db:
        memory, problems = build_memory(settings, db)
        assert problems == []
        assert memory.provider_names == ("hanging",)
        assert memory.problems() == [
            "hanging did not answer in 0.05 s; going on without it; its turns are kept for it"
        ]
        memory.sync_all("one", "1", session_id="s")
        memory.sync_all("two", "2", session_id="s")
        assert memory.prefetch_all("q", session_id="s", timeout=30) == ""
        assert memory.system_prompt_block(30) == ""
        [status] = memory.status()
        assert (status.provider, status.owed) == ("hanging", 2)
        assert db.outbox.backlog("hanging").owed == 2
        assert memory.flush_pending(0.01) is False
        hanging.let_go()
        until(lambda: memory.problems() == [])
        assert memory.provider_names == (name,)
        memory.sync_all("three", "3", session_id="s")
        assert memory.flush_pending(30)
        until(lambda: hanging.turns() == ["one", "two", "three"])
        assert memory.system_prompt_block(30) == "the block of the plugin"
        memory.shutdown_all()


@pytest.mark.clause("M10", "D1")
def test_what_was_owed_to_a_provider_that_never_answered_reaches_it_after_the_next_start(
    plugin: MakePlugin, tmp_path: Path
) -> None:
    hanging = plugin("is_available", name="another name")
    settings = load_settings(
        {
            "HOLDFAST_MEMORY_PROVIDERS": "",
            "HOLDFAST_MEMORY_PLUGINS": str(hanging.plugins),
            "HOLDFAST_MEMORY_START_S": "0.05",
        }
    )
    with SessionDB(tmp_path / "holdfast.db") as db:
        first, _ = build_memory(settings, db)
        first.sync_all("one", "1", session_id="s")
        assert first.shutdown_all() == ["1 turn is owed to hanging; it will be sent at the next start"]
        hanging.let_go()
        patient = load_settings(
            {"HOLDFAST_MEMORY_PROVIDERS": "", "HOLDFAST_MEMORY_PLUGINS": str(hanging.plugins)}
        )
        second, _ = build_memory(patient, db)
        assert second.flush_pending(30)
        assert hanging.turns() == ["one"]
        second.shutdown_all()


@pytest.mark.clause("M10")
def test_an_answer_that_comes_just_at_the_deadline_is_taken_or_asked_for_again() -> None:
    """A thread that waits for an answer may be woken before the answer is kept."""
    kept = CachedAnswer(ProviderGate("late", SystemClock()), "a question", lambda: "new", "nothing")
    answered: Future[str] = Future()
    assert kept.latest(answered) == ("nothing", True)
    answered.set_result("new")
    assert kept.latest(answered) == ("new", False)
    left: Future[str] = Future()
    left.cancel()
    assert kept.latest(left) == ("nothing", True)
