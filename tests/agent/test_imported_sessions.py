"""Sessions that somebody else wrote: whatever is on record, a model gets what its API takes."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.agent import Pools, SessionAgent
from holdfast.agent.summary import MechanicalCompressor
from holdfast.agent.transcript import Transcript
from holdfast.core.contract import Message
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from tests.agent.agent_fixtures import require_valid
from tests.fast_run import examples

TEXTS = st.sampled_from(["", " ", "hello", "\0", "\ud800 half", "long " * 300]) | st.text(max_size=20)
IDS = st.sampled_from(["a", "b", "", None, 7])
BLOCKS = st.one_of(
    TEXTS,
    st.none(),
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS | st.none()),
    st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5000}}),
    st.just({"kind": "odd"}),
)
CONTENTS = st.one_of(TEXTS, st.none(), st.integers(), st.lists(BLOCKS, max_size=3), st.just({"text": "x"}))
FUNCTIONS = st.one_of(
    st.none(),
    st.text(max_size=5),
    st.builds(
        lambda name, arguments: {"name": name, "arguments": arguments},
        TEXTS | st.none(),
        st.one_of(TEXTS, st.none(), st.just({"a": 1}), st.just('{"a": NaN}'), st.just("[1]"), st.integers()),
    ),
)
CALLS = st.one_of(
    st.none(),
    TEXTS,
    st.builds(lambda own, called: {"id": own, "function": called}, IDS, FUNCTIONS),
)
MESSAGES = st.builds(
    lambda role, content, calls, call_id, kept: {
        "role": role,
        "content": content,
        **({"tool_calls": calls[0]} if calls else {}),
        **({"tool_call_id": call_id} if role == "tool" else {}),
        **({"holdfast": kept} if kept else {}),
    },
    st.sampled_from(["user", "assistant", "tool", "system", "developer", "function"]),
    CONTENTS,
    st.lists(st.none() | st.lists(CALLS, max_size=3) | TEXTS | st.just({}), max_size=1),
    IDS,
    st.sampled_from([None, None, {"superseded": "x"}, "odd", {"failed": True}, {"summary": True}]),
)


@given(st.lists(MESSAGES, max_size=12))
@settings(deadline=None, max_examples=examples(300))
def test_any_record_is_a_conversation_that_both_apis_take(record: list[Message]) -> None:
    transcript = Transcript(record)
    if transcript.messages:
        require_valid(transcript.messages)
        json.dumps(transcript.messages, ensure_ascii=False).encode()
    assert transcript.tokens >= 0


@given(st.lists(MESSAGES, min_size=1, max_size=12), st.booleans())
@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
def test_a_conversation_goes_on_from_any_record(record: list[Any], shrinks: bool) -> None:
    async def scenario() -> None:
        pools = Pools()
        db = SessionDB(":memory:")
        try:
            db.create_session("s", source="import")
            db.sessions.append_messages("s", record)
            model = ScriptedModel(["fine", "still fine"], context_window=400 if shrinks else 100_000)
            agent = SessionAgent(model, db, "s")
            agent.compressor = MechanicalCompressor()
            assert (await agent.run("my words")).final_response == "fine"
            assert (await agent.run("more words")).final_response == "still fine"
            for request in model.requests:
                require_valid(request.messages)
                json.dumps(request.messages, ensure_ascii=False).encode()
                assert "words" in json.dumps(request.messages[-1]["content"])
            assert list(agent.messages) == Transcript(db.get_messages(agent.session_id)).messages
            await agent.close()
        finally:
            db.close()
            pools.close(1)

    asyncio.run(scenario())


def test_two_calls_with_one_id_both_keep_their_results() -> None:
    calls: Any = [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}] * 2
    transcript = Transcript(
        [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "x", "content": "one"},
            {"role": "tool", "tool_call_id": "x", "content": "two"},
        ]
    )
    require_valid(transcript.messages)
    assert [message["content"] for message in transcript.messages[2:]] == ["one", "two"]


@pytest.mark.parametrize("empty", ["", None, []])
def test_a_message_without_words_is_still_a_message(empty: Any) -> None:  # noqa: ANN401
    transcript = Transcript([{"role": "user", "content": empty}, {"role": "assistant", "content": "yes?"}])
    require_valid(transcript.messages)
