"""When a turn compacts by itself, what the summary holds, and what a turn does when nothing shrinks."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Agent, SessionDB
from holdfast.agent import AgentOptions
from holdfast.core.contract import Message
from holdfast.core.errors import ContextTooLong
from holdfast.core.events import CompactionFinished, Event, SessionRotated, TurnCompleted
from holdfast.models.contract import ModelRequest
from holdfast.testing import ScriptedModel, Tokens
from tests.agent.agent_fixtures import require_valid
from tests.agent.compaction_fixtures import CountingCompressor, an_agent, conversation

Wait = Callable[[Awaitable[Any]], Any]


@pytest.mark.clause("C10")
def test_a_compaction_that_does_not_shrink_is_not_repeated_and_the_turn_goes_on(
    db: SessionDB, wait: Wait
) -> None:
    class Futile:
        calls = 0

        def compress(self, messages: list[Message]) -> list[Message]:
            self.calls += 1
            return messages

    conversation(db)
    futile = Futile()
    model = ScriptedModel(["one", "two", "three"], context_window=400)
    agent = an_agent(db, futile, model)
    for text in ("a", "b", "c"):
        assert wait(agent.run(text)).state == "completed"
    assert futile.calls == 1
    assert db.children("s") == []


@pytest.mark.clause("C10")
def test_a_conversation_that_no_compaction_fits_into_the_window_ends_with_a_clear_error(
    db: SessionDB, wait: Wait
) -> None:
    conversation(db)
    too_long = ContextTooLong("m", "400 tokens at most")
    agent = an_agent(db, CountingCompressor(), ScriptedModel([too_long] * 10))
    with pytest.raises(ContextTooLong, match="400 tokens at most"):
        wait(agent.run("go"))
    assert agent.compressor.calls <= 2  # type: ignore[attr-defined]
    assert db.turns.running(agent.session_id) is None


def test_a_context_that_is_too_long_is_compacted_and_the_turn_goes_on(db: SessionDB, wait: Wait) -> None:
    conversation(db)
    model = ScriptedModel([ContextTooLong("m", "too long"), "fits now"])
    agent = an_agent(db, CountingCompressor(), model)
    assert wait(agent.run("go")).final_response == "fits now"
    (child,) = db.children("s")
    assert agent.session_id == child
    require_valid(model.requests[1].messages)


def test_the_models_own_count_decides_when_it_is_time(db: SessionDB, wait: Wait) -> None:
    model = ScriptedModel([["short", Tokens(input=900)], "sum", "next"], context_window=1000)
    agent = Agent(model, db, "s", options=AgentOptions(compact_at=0.8))
    agent.compressor = CountingCompressor()
    wait(agent.run("one"))
    assert agent.session_id == "s"

    async def events() -> list[Event]:
        return [event async for event in agent.stream("two")]

    kinds = [type(event) for event in wait(events())]
    assert kinds.index(SessionRotated) < kinds.index(CompactionFinished) < kinds.index(TurnCompleted)


@pytest.mark.clause("I1")
def test_a_message_sent_during_a_compaction_is_taken_in_the_child(db: SessionDB, wait: Wait) -> None:
    conversation(db)

    def queue() -> None:
        db.inbox.put("s", {"role": "user", "content": "sent meanwhile"})

    model = ScriptedModel(["one", "two"], context_window=500)
    agent = an_agent(db, CountingCompressor(queue), model)
    result = wait(agent.run("go"))
    assert result.waiting == 1
    assert wait(agent.run()).messages[-2]["content"] == "sent meanwhile"


def test_the_summary_is_the_models_own_with_the_tail_word_for_word(db: SessionDB, wait: Wait) -> None:
    messages = conversation(db, turns=12)
    model = ScriptedModel(["## Goals\nAnswer the questions.", "on we go"], context_window=700)
    agent = Agent(model, db, "s")
    result = wait(agent.run("the newest question"))
    assert result.final_response == "on we go"
    asked = str(model.requests[0].messages[0]["content"])
    assert "question 0" in asked
    sent = model.requests[1].messages
    require_valid(sent)
    assert "Answer the questions." in str(sent[0]["content"])
    kept = [m["content"] for m in messages[-2:]]
    assert all(any(str(text) in str(m["content"]) for m in sent) for text in kept)
    assert "the newest question" in str(sent[-1]["content"])


def test_when_the_summary_fails_the_context_is_shrunk_mechanically(db: SessionDB, wait: Wait) -> None:
    conversation(db, turns=12)

    def fail(_: ModelRequest) -> Any:  # noqa: ANN401
        raise OSError("the summariser is down")

    model = ScriptedModel([fail, "still here"], context_window=700)
    agent = Agent(model, db, "s")
    assert wait(agent.run("go on")).final_response == "still here"
    assert agent.session_id != "s"
    require_valid(model.requests[1].messages)
    assert "user: question" in str(model.requests[1].messages[0]["content"])


@pytest.mark.parametrize("nonsense", [None, 3, "text", [1, 2], [{"content": "no role"}]])
def test_a_compressor_that_returns_nonsense_is_not_believed(
    db: SessionDB,
    wait: Wait,
    nonsense: Any,  # noqa: ANN401
) -> None:
    class Nonsense:
        async def compress(self, messages: list[Message], **_: Any) -> Any:  # noqa: ANN401
            return nonsense

    conversation(db, turns=12)
    agent = an_agent(db, Nonsense(), ScriptedModel(["fine"], context_window=700))
    assert wait(agent.run("go on")).final_response == "fine"
    assert agent.session_id != "s"


def test_the_focus_and_the_budget_reach_a_compressor_that_takes_them(db: SessionDB, wait: Wait) -> None:
    class Focused:
        got: dict[str, Any]

        def compress(self, messages: list[Message], focus: str, budget: int) -> list[Message]:
            self.got = {"focus": focus, "budget": budget}
            return messages[-1:]

    messages = conversation(db)
    focused = Focused()
    wait(an_agent(db, focused).compress_context(messages, "", focus="the names"))
    assert focused.got["focus"] == "the names"
    assert focused.got["budget"] > 0
