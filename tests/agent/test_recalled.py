"""What memory recalled for a turn is told as it happens, and stored with the turn's end."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.agent import AgentOptions, SessionAgent
from holdfast.agent.turn_timeline import RECALLED_CHARACTERS, TurnTimeline
from holdfast.core.events import (
    CompactionFinished,
    CompactionStarted,
    Event,
    ModelRetrying,
    Recalled,
    RecalledFrom,
    StepFinished,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from holdfast.memory import MemoryManager
from holdfast.sessions import SessionDB
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.testing.providers import RecordingProvider
from tests.memory.gates import Gate

Wait = Callable[[Awaitable[Any]], Any]


class Knowing(RecordingProvider):
    """A provider that recalls one thing."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name)
        self.text = text

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        super().prefetch(query, session_id=session_id)
        return self.text


class Failing(RecordingProvider):
    def prefetch(self, query: str, *, session_id: str = "") -> str:
        raise ValueError(f"{query} {session_id}")


async def events_of(agent: SessionAgent, text: str) -> list[Event]:
    return [event async for event in agent.stream(text)]


@pytest.mark.clause("M9")
def test_each_providers_recall_is_told_before_the_model_is_asked(db: SessionDB, wait: Wait) -> None:
    memory = MemoryManager(db, drain_seconds=1.0)
    slow = RecordingProvider("slow")
    gate = Gate()
    slow.before_recall = gate
    for provider in (Knowing("one", "likes tea"), slow, Failing("broken"), RecordingProvider("empty")):
        memory.add_provider(provider)
    agent = SessionAgent(ScriptedModel(["ok"]), db, "s", memory, options=AgentOptions(recall_seconds=0.2))
    try:
        events = wait(events_of(agent, "hello"))
    finally:
        gate.open()
        memory.shutdown_all()
    names = [type(event).__name__ for event in events]
    assert names[:2] == ["TurnStarted", "Recalled"]
    recalled = events[1]
    assert isinstance(recalled, Recalled)
    found = {each.provider: (each.outcome, each.text) for each in recalled.providers}
    assert found["one"] == ("answered", "likes tea")
    assert found["slow"] == ("missed", "")
    assert found["broken"] == ("failed", "")
    assert found["empty"][0] == "answered"
    assert 0.1 < recalled.seconds < 5
    record = db.turns.history(recalled.turn_id)
    assert record.timeline is not None
    told = {"provider": "one", "outcome": "answered", "text": "likes tea", "cut": 0, "note": ""}
    assert told in record.timeline["recalled"]
    assert record.timeline["spans"][0][0] == "recall"


def test_an_answer_that_came_too_late_is_told_as_such_in_the_next_turn(db: SessionDB, wait: Wait) -> None:
    memory = MemoryManager(db, drain_seconds=1.0)
    slow = Knowing("slow", "from before")
    gate = Gate()
    slow.before_recall = gate
    memory.add_provider(slow)
    agent = SessionAgent(
        ScriptedModel(["ok", "ok"]), db, "s", memory, options=AgentOptions(recall_seconds=0.1)
    )

    async def scenario() -> list[RecalledFrom]:
        first = await events_of(agent, "hello")
        gate.open()
        assert memory.flush_pending(10)
        slow.text = ""
        second = await events_of(agent, "and now?")
        told = [event for event in (*first, *second) if isinstance(event, Recalled)]
        return [each for event in told for each in event.providers]

    try:
        assert wait(scenario()) == [
            RecalledFrom("slow", "missed", ""),
            RecalledFrom("slow", "late", "from before"),
        ]
    finally:
        memory.shutdown_all()


@pytest.mark.clause("M4")
def test_without_a_provider_nothing_is_recalled_or_told(db: SessionDB, wait: Wait) -> None:
    agent = SessionAgent(ScriptedModel(["ok"]), db, "s")
    assert not any(isinstance(event, Recalled) for event in wait(events_of(agent, "hello")))


def test_a_timeline_tells_how_a_turn_spent_its_time() -> None:
    clock = FakeClock()
    timeline = TurnTimeline(clock, "m")
    here: dict[str, Any] = {"session_id": "s", "turn_id": "t"}

    def after(seconds: float, event: Event) -> None:
        clock.advance(seconds)
        timeline.note(event)

    after(5, TurnStarted(**here, inbox_id=0, text="hi"))
    long = "x" * (RECALLED_CHARACTERS + 10)
    after(1, Recalled(**here, seconds=0.5, providers=(RecalledFrom("p", "answered", long),)))
    after(1, ModelRetrying(**here, attempt=1, delay=2.0, problem="busy", partial=False))
    used: dict[str, Any] = {"step": 1, "context": 1, "window": 10}
    after(3, StepFinished(**here, input_tokens=5, output_tokens=2, cached_tokens=1, **used))
    after(0, ToolStarted(**here, call_id="a", name="look", arguments="{}"))
    after(1, ToolStarted(**here, call_id="b", name="do", arguments="{}"))
    after(1, ToolFinished(**here, call_id="b", name="do", ok=False, output="no"))
    after(1, ToolFinished(**here, call_id="a", name="look", ok=True, output="yes"))
    after(0, CompactionStarted(**here, tokens=9))
    after(2, CompactionFinished(**here, outcome="the summary", tokens_before=9, tokens_after=3))
    after(1, StepFinished(**here, input_tokens=7, output_tokens=3, cached_tokens=0, **used))
    told = timeline.so_far(completed=True)
    assert [(kind, name, start / 1e6, end / 1e6, ok) for kind, name, start, end, ok in told["spans"]] == [
        ("recall", "", 0.5, 1.0, True),
        ("model", "m", 1.0, 2.0, False),
        ("model", "m", 4.0, 5.0, True),
        ("tool", "do", 6.0, 7.0, False),
        ("tool", "look", 5.0, 8.0, True),
        ("compaction", "the summary", 8.0, 10.0, True),
        ("model", "m", 10.0, 11.0, True),
    ]
    assert told["tokens"] == [12, 5, 1]
    assert told["recalled"][0]["text"].endswith("[10 more characters are not kept]")
    clock.advance(1)
    after(0, ToolStarted(**here, call_id="c", name="wait", arguments="{}"))
    clock.advance(1)
    assert timeline.so_far()["spans"][-1] == ["tool", "wait", 12_000_000, 13_000_000, False]
