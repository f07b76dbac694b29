"""What a summary keeps: the tail word for word, every call with its result, and the person's last words."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast import Agent, SessionDB
from holdfast.agent.summary import MechanicalCompressor, SummaryCompressor, tail_start
from holdfast.agent.transcript import Transcript, estimate_all
from holdfast.core.contract import Message
from holdfast.core.errors import ContextTooLong
from holdfast.core.messages import text_of
from holdfast.models.contract import ModelRequest, ModelTraits
from holdfast.testing import Call, ScriptedModel
from tests.agent.agent_fixtures import echo, require_valid
from tests.core.picture_files import data_url, png
from tests.fast_run import examples

Wait = Callable[[Awaitable[Any]], Any]
PHOTO: dict[str, Any] = {
    "type": "image_url",
    "image_url": {"url": data_url(png() + bytes(750_000))},
}
SIZES = st.sampled_from([1, 40, 400, 4000])


def calls(*ids: str) -> Message:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}} for each in ids
        ],
    }


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Conversations as they are stored, with results and a person's words in any order."""
    messages: list[Message] = [{"role": "user", "content": "first"}]
    waiting: list[str] = []
    for step in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from(["user", "answer", "calls", "result", "result"]))
        if kind == "result" and waiting:
            call_id = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
            messages.append({"role": "tool", "tool_call_id": call_id, "content": "r" * draw(SIZES)})
        elif kind == "calls":
            ids = [draw(st.sampled_from(["same", f"c{step}-{each}"])) for each in range(2)]
            waiting = list(dict.fromkeys(ids))
            messages.append(calls(*waiting))
        elif kind == "user":
            messages.append({"role": "user", "content": f"word {step} " + "u" * draw(SIZES)})
        else:
            messages.append({"role": "assistant", "content": "a" * draw(SIZES)})
    return messages


def call_of(messages: list[Message], place: int) -> int:
    """Where the call stands that the result at `place` answers; its own place when there is none."""
    call_id = messages[place]["tool_call_id"]
    for before in range(place - 1, -1, -1):
        if any(call["id"] == call_id for call in messages[before].get("tool_calls") or ()):
            return before
    return place


@given(conversations(), st.integers(0, 4000))
@settings(deadline=None, max_examples=examples(400))
def test_the_tail_never_separates_a_call_from_its_result(messages: list[Message], budget: int) -> None:
    cut = tail_start(messages, budget)
    assert 0 <= cut <= len(messages)
    for place in range(cut, len(messages)):
        if messages[place]["role"] == "tool":
            assert call_of(messages, place) >= cut
    assert estimate_all(messages[cut:]) <= budget


@given(conversations(), st.sampled_from([0, 600, 2000, 50_000]))
@settings(deadline=None, max_examples=examples(400))
def test_a_mechanical_summary_keeps_the_last_words_and_shrinks(messages: list[Message], budget: int) -> None:
    shrunk = MechanicalCompressor().compress(messages, budget=budget)
    said = [message for message in messages if message["role"] == "user"]
    assert text_of(said[-1]) in [text_of(message) for message in shrunk]
    require_valid(Transcript(shrunk).messages)
    if shrunk != messages:
        assert estimate_all(shrunk) < max(estimate_all(messages), 1500)
    if estimate_all(messages) > max(2 * budget, 3000) and estimate_all(said[-1:]) < 500:
        assert estimate_all(shrunk) < 0.9 * estimate_all(messages), "it does not shrink"


@given(conversations())
@settings(deadline=None, max_examples=examples(60))
def test_a_models_summary_keeps_the_last_words(messages: list[Message]) -> None:
    compressor = SummaryCompressor(ScriptedModel(["the sum of it"]))

    async def asked() -> list[Message]:
        coming = compressor.compress(messages)
        assert not isinstance(coming, list)
        return await coming

    shrunk = asyncio.run(asked())
    assume(shrunk != messages)
    said = [text_of(message) for message in messages if message["role"] == "user"]
    assert said[-1] in [text_of(message) for message in shrunk]
    require_valid(Transcript(shrunk).messages)


def test_a_long_turn_that_is_compacted_in_the_middle_still_knows_its_task(wait: Wait) -> None:
    async def scenario() -> None:
        task = "Rename every file. " + "This is how it is done, exactly. " * 15 + "And mind the last one."
        script: list[Any] = [
            *(Call("echo", {"text": f"{number}" + "x" * 600}) for number in range(12)),
            "done",
        ]
        model = ScriptedModel(script, context_window=3000)
        agent = Agent(model, tools=[echo()])
        agent.compressor = MechanicalCompressor()
        assert (await agent.run(task)).final_response == "done"
        assert any("Summary of the conversation" in str(each.messages[0]) for each in model.requests)
        for request in model.requests:
            require_valid(request.messages)
            assert task in str(request.messages)
        await agent.close()

    wait(scenario())


def test_a_picture_reaches_the_model(wait: Wait) -> None:
    async def scenario() -> None:
        model = ScriptedModel(["a cat"])
        agent = Agent(model)
        await agent.run({"role": "user", "content": [{"type": "text", "text": "what is this?"}, PHOTO]})
        assert PHOTO in list(model.requests[0].messages[-1]["content"] or ())
        assert agent.context_tokens < 10_000
        await agent.close()

    wait(scenario())


@pytest.mark.clause("C10")
def test_a_server_with_a_smaller_window_than_it_says_is_answered_by_a_smaller_context(wait: Wait) -> None:
    async def scenario() -> None:
        db = SessionDB(":memory:")
        db.create_session("s", source="test")
        for turn in range(20):
            db.sessions.append_message("s", {"role": "user", "content": f"question {turn} " * 20})
            db.sessions.append_message("s", {"role": "assistant", "content": f"answer {turn} " * 20})

        def small(request: ModelRequest) -> str:
            if estimate_all(request.messages) > 1400:
                raise ContextTooLong("small", "4096 tokens at most")
            return "it fits"

        agent = Agent(ScriptedModel([small] * 9), db, "s")
        agent.compressor = MechanicalCompressor()
        assert (await agent.run("go on")).final_response == "it fits"
        await agent.close()
        db.close()

    wait(scenario())


def test_a_model_too_weak_for_summaries_is_not_asked_and_nothing_is_computed_on_the_loop() -> None:
    """A plain `compress` runs off the loop; this one makes the mechanical summary right there."""
    weak = ScriptedModel(
        ["never asked"], traits=ModelTraits(name="weak", context_window=8000, summarises=False)
    )
    messages: list[Message] = [{"role": "user", "content": f"{number} " * 500} for number in range(20)]
    shrunk = SummaryCompressor(weak).compress(messages, budget=2000)
    assert shrunk == MechanicalCompressor().compress(messages, budget=2000)
    assert weak.requests == []
