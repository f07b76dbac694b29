"""A turn whose memory says far too much: it fits the window, goes on, and what was cut is said."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Agent, MemoryManager, SessionDB
from holdfast.agent import AgentOptions
from holdfast.core.events import Recalled
from holdfast.models.contract import ModelRequest
from holdfast.testing import Call, ScriptedModel
from holdfast.testing.providers import RecordingProvider

Wait = Callable[[Awaitable[Any]], Any]
HUGE = 200_000_000


class Flood(RecordingProvider):
    """Recalls and notes far more than any window holds."""

    def __init__(self, name: str = "flood", size: int = HUGE) -> None:
        super().__init__(name)
        self.text = "x" * size

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        return self.text

    def system_prompt_block(self) -> str:
        return self.text

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return [{"name": "flood", "description": "", "parameters": {"type": "object"}}]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:  # noqa: ANN401
        return self.text

    def on_pre_compress(self, messages: list[Any]) -> str:
        return self.text


def size(request: ModelRequest) -> int:
    """Tokens of a request, as the agent counts them."""
    return (len(request.system) + len(json.dumps(request.messages))) // 4


def remembering(db: SessionDB, *providers: RecordingProvider) -> MemoryManager:
    memory = MemoryManager(db, drain_seconds=1.0)
    for each in providers:
        memory.add_provider(each)
    return memory


OPTIONS = AgentOptions(recall_seconds=20.0)


@pytest.mark.clause("M10", "M9")
@pytest.mark.parametrize("window", [2_000, 4_096, 128_000])
def test_a_recall_of_200_megabytes_takes_its_share_of_the_window_and_no_more(
    db: SessionDB, wait: Wait, window: int
) -> None:
    memory = remembering(db, Flood())
    model = ScriptedModel(["one", "two"], context_window=window)
    agent = Agent(model, db, "s", memory, options=OPTIONS)
    for said in ("one", "two"):
        assert wait(agent.run("hello")).final_response == said
    for request in model.requests:
        assert size(request) < min(window // 8, 8_000) * 2 + 1_000
    sent = str(model.requests[0].messages[-1]["content"])
    assert sent.endswith("hello")
    assert "more characters do not fit memory's share of the prompt]" in sent
    assert agent.session_id == "s", "nothing had to be compacted away"
    memory.shutdown_all()


@pytest.mark.clause("M10")
def test_what_was_cut_is_in_the_event_and_in_the_turns_account(db: SessionDB, wait: Wait) -> None:
    small = RecordingProvider("small")
    small.answers["hello"] = "likes tea"
    memory = remembering(db, Flood(size=2_400_000), small)
    agent = Agent(ScriptedModel(["ok"], context_window=8_000), db, "s", memory, options=OPTIONS)

    async def recalled() -> Recalled:
        events = [event async for event in agent.stream("hello")]
        [found] = [event for event in events if isinstance(event, Recalled)]
        return found

    event = wait(recalled())
    flood, modest = event.providers
    assert (modest.text, modest.cut) == ("likes tea", 0)
    assert flood.cut > 2_390_000
    assert sum(len(each.text) for each in event.providers) <= 1_000 * 4
    timeline = db.turns.history(event.turn_id).timeline
    assert timeline is not None
    assert [each["cut"] for each in timeline["recalled"]] == [flood.cut, 0]
    memory.shutdown_all()


@pytest.mark.clause("M10")
def test_a_person_sets_the_budget(db: SessionDB, wait: Wait) -> None:
    memory = remembering(db, Flood(size=100_000))
    model = ScriptedModel(["ok"], context_window=8_000)
    options = AgentOptions(recall_seconds=20.0, recall_tokens=100)
    wait(Agent(model, db, "s", memory, options=options).run("hello"))
    assert len(str(model.requests[0].messages[-1]["content"])) < 400 + 200
    memory.shutdown_all()


@pytest.mark.clause("M10")
def test_a_memory_tool_that_returns_too_much_is_cut_as_every_tool_is(db: SessionDB, wait: Wait) -> None:
    memory = remembering(db, Flood(size=50_000_000))
    model = ScriptedModel([Call("flood"), "done"], context_window=128_000)
    assert wait(Agent(model, db, "s", memory, options=OPTIONS).run("go")).final_response == "done"
    assert len(str(model.requests[1].messages[-1]["content"])) < 51_000
    memory.shutdown_all()


@pytest.mark.clause("M10")
def test_notes_for_a_summary_are_bounded(db: SessionDB, wait: Wait) -> None:
    memory = remembering(db, Flood(size=5_000_000))
    model = ScriptedModel(["long " * 2_000, "the summary", "next"], context_window=3_000)
    agent = Agent(model, db, "s", memory, options=OPTIONS)
    wait(agent.run("one"))
    assert wait(agent.run("two")).final_response == "next"
    assert agent.session_id != "s"
    summary = str(model.requests[1].messages[0]["content"])
    assert "do not fit memory's share" in summary
    assert len(summary) < 10_000 + 4 * 300 + 1_500
    memory.shutdown_all()
