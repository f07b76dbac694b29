"""A transcript in the OpenAI shape becomes one that Anthropic's API takes, and nothing in it is lost."""

import json
from itertools import pairwise
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.contract import Message
from holdfast.models.anthropic_messages import CONTINUATION, anthropic_messages, anthropic_request, tool_id
from holdfast.models.contract import ModelRequest
from tests.models.model_fixtures import HELLO, READ

MODEL = "claude-x"
PICTURE = "data:image/png;base64,aGk="


def call(call_id: str, name: str = "read", arguments: str = "{}") -> Any:  # noqa: ANN401 - a message's part
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*calls: Any, content: str | None = None) -> Message:  # noqa: ANN401
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(call_id: str, content: str = "ok") -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def user(content: str) -> Message:
    return {"role": "user", "content": content}


def convert(*messages: Message) -> list[dict[str, Any]]:
    return anthropic_messages(messages, MODEL)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def test_the_results_of_parallel_calls_are_one_user_message_before_what_the_user_said() -> None:
    converted = convert(
        user("go"), calling(call("a"), call("b"), content="I look."), result("a"), user("hurry"), result("b")
    )
    assert converted == [
        {"role": "user", "content": [text("go")]},
        {
            "role": "assistant",
            "content": [
                text("I look."),
                {"type": "tool_use", "id": "a", "name": "read", "input": {}},
                {"type": "tool_use", "id": "b", "name": "read", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [text("ok")]},
                {"type": "tool_result", "tool_use_id": "b", "content": [text("ok")]},
                text("hurry"),
            ],
        },
    ]


def test_a_conversation_that_does_not_begin_or_end_with_the_user_is_made_to() -> None:
    for messages in ([], [{"role": "assistant", "content": "hi"}], [user("")]):
        converted = anthropic_messages(messages, MODEL)  # type: ignore[arg-type]
        assert converted[0] == {"role": "user", "content": [text(CONTINUATION)]}
        assert converted[-1]["role"] == "user"


def test_arguments_that_are_no_object_are_still_shown() -> None:
    (block,) = convert(HELLO, calling(call("a", arguments="{broken")), result("a"))[1]["content"]
    assert block["input"] == {"unreadable": "{broken"}


def test_pictures_are_sent_inline_or_by_their_address() -> None:
    parts: Any = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": PICTURE}},
        {"type": "image_url", "image_url": {"url": "https://host/a.png"}},
        {"type": "input_audio", "input_audio": {}},
    ]
    (message,) = convert({"role": "user", "content": parts})
    first, second, third, fourth = message["content"]
    assert first == text("look")
    assert second["source"] == {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert third["source"] == {"type": "url", "url": "https://host/a.png"}
    assert "input_audio" in fourth["text"]


def test_another_servers_ids_are_spelled_in_the_letters_allowed_and_stay_apart() -> None:
    converted = convert(HELLO, calling(call("a.b"), call("a:b")), result("a.b"), result("a:b"))
    used = [block["id"] for block in converted[1]["content"]]
    assert [block["tool_use_id"] for block in converted[2]["content"]] == used
    assert len(set(used)) == 2
    assert all(each.replace("_", "").isalnum() for each in used)
    assert tool_id("toolu_01-x") == "toolu_01-x"


def test_a_result_that_is_a_failure_says_so() -> None:
    failed = cast(Message, {**result("a"), "holdfast": {"failed": True}})
    (block,) = convert(HELLO, calling(call("a")), failed)[2]["content"]
    assert block["is_error"] is True


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}


def kept(message: Any, *blocks: dict[str, Any], model: str = MODEL) -> Message:  # noqa: ANN401
    keep = {"anthropic": {"model": model, "blocks": list(blocks)}}
    return cast(Message, {**message, "holdfast": {"keep": keep}})


def assistant_blocks(message: Message) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = convert(HELLO, message, result("a"))[1]["content"]
    return content


def test_signed_thoughts_go_back_where_they_stood() -> None:
    said = calling(call("a"), content="First.Then.")
    redacted = {"type": "redacted_thinking", "data": "xx"}
    blocks = assistant_blocks(
        kept(
            said,
            THOUGHT,
            {"type": "text", "length": 6},
            redacted,
            {"type": "text", "length": 5},
            {"type": "tool_use", "id": "a"},
        )
    )
    tool = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    assert blocks == [THOUGHT, text("First."), redacted, text("Then."), tool]


def test_thoughts_of_a_message_that_was_changed_come_before_it() -> None:
    blocks = assistant_blocks(
        kept(calling(call("a"), content="Shorter"), {"type": "text", "length": 3}, THOUGHT)
    )
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use"]
    assert blocks[1] == text("Shorter")


def test_thoughts_signed_for_another_model_are_left_out() -> None:
    blocks = assistant_blocks(kept(calling(call("a")), THOUGHT, model="claude-y"))
    assert [block["type"] for block in blocks] == ["tool_use"]


def test_the_prompt_is_cached_after_the_tools_the_system_text_and_the_last_two_user_messages() -> None:
    messages = [user("one"), calling(call("a")), result("a"), calling(call("b")), result("b")]
    body = anthropic_request(ModelRequest("Be brief.", messages, [READ, READ]), MODEL)
    assert body["system"] == [{**text("Be brief."), "cache_control": {"type": "ephemeral"}}]
    marked = ["cache_control" in tool for tool in body["tools"]]
    assert marked == [False, True]
    marked = ["cache_control" in message["content"][-1] for message in body["messages"]]
    assert marked == [False, False, True, False, True]
    assert json.dumps(body).count("cache_control") == 4


def test_nothing_is_sent_for_a_system_text_or_tools_that_are_not_there() -> None:
    assert anthropic_request(ModelRequest(" ", [HELLO]), MODEL).keys() == {"messages"}


words = st.text(max_size=12)


@st.composite
def transcripts(draw: st.DrawFn) -> list[Message]:
    """A valid transcript: every call is answered before the assistant speaks again."""
    messages: list[Message] = []
    for turn in range(draw(st.integers(0, 4))):
        messages += [user(each) for each in draw(st.lists(words, max_size=2))]
        ids = [
            f"{turn}{mark}{n}" for n, mark in enumerate(draw(st.lists(st.sampled_from("_.:é"), max_size=3)))
        ]
        said: Message = {"role": "assistant", "content": draw(st.none() | words)}
        if ids:
            arguments = draw(st.sampled_from(["", "{}", '{"a": 1}', "[]", "{broken"]))
            said["tool_calls"] = [call(each, draw(words), arguments) for each in ids]
        messages.append(said)
        answers = [result(each, draw(words)) for each in ids]
        answers += [user(each) for each in draw(st.lists(words, max_size=1))]
        messages += draw(st.permutations(answers))
    return messages


@given(transcripts())
def test_any_transcript_becomes_one_the_api_takes(messages: list[Message]) -> None:
    converted = anthropic_messages(messages, MODEL)
    roles = [message["role"] for message in converted]
    assert roles[0] == roles[-1] == "user"
    assert all(first != second for first, second in pairwise(roles))
    for before, message in zip([{"content": []}, *converted], converted, strict=False):
        blocks = message["content"]
        assert blocks
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        if message["role"] == "user":
            kinds = [block["type"] == "tool_result" for block in blocks]
            assert kinds == sorted(kinds, reverse=True)
            asked = {block["id"] for block in before["content"] if block["type"] == "tool_use"}
            assert {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"} == asked


@given(transcripts())
def test_every_word_of_a_transcript_is_sent(messages: list[Message]) -> None:
    blocks = [block for message in anthropic_messages(messages, MODEL) for block in message["content"]]
    sent = json.dumps(blocks, ensure_ascii=False)
    for message in messages:
        content = message.get("content")
        if isinstance(content, str) and content.strip():
            assert json.dumps(content, ensure_ascii=False)[1:-1] in sent
    calls = [block for block in blocks if block["type"] == "tool_use"]
    assert len(calls) == sum(len(message.get("tool_calls", ())) for message in messages)


def test_what_a_client_asks_of_the_model_is_said_in_the_words_of_this_api() -> None:
    def sent(**options: object) -> dict[str, Any]:
        return anthropic_request(ModelRequest("", [HELLO], [READ], options=options), MODEL)

    assert sent(temperature=0.2, stop="END", seed=7)["stop_sequences"] == ["END"]
    assert "seed" not in sent(seed=7)
    assert sent(tool_choice="required")["tool_choice"] == {"type": "any"}
    named = {"type": "function", "function": {"name": "read"}}
    one = sent(tool_choice=named, parallel_tool_calls=False)["tool_choice"]
    assert one == {"type": "tool", "name": "read", "disable_parallel_tool_use": True}
    assert "tool_choice" not in sent()
