"""A transcript becomes a system text and turns that alternate, with calls and results as text."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.contract import Message
from holdfast.models.gguf.transcript import chat

CALLING: Message = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "now", "arguments": '{"zone": "CET"}'}}
    ],
}
RESULT: Message = {"role": "tool", "tool_call_id": "c1", "content": "12:00"}


def test_with_tools_the_assistant_speaks_json() -> None:
    [_, _, called, result, said] = chat(
        "S",
        [{"role": "user", "content": "Time?"}, CALLING, RESULT, {"role": "assistant", "content": "Noon."}],
        as_json=True,
    )
    assert json.loads(called["content"]) == {"tool_calls": [{"name": "now", "arguments": {"zone": "CET"}}]}
    assert result == {"role": "user", "content": "Result of now:\n12:00"}
    assert json.loads(said["content"]) == {"answer": "Noon."}


def test_without_tools_a_call_is_told_in_words() -> None:
    [_, _, called, _] = chat("S", [{"role": "user", "content": "Time?"}, CALLING, RESULT], as_json=False)
    assert called["content"] == '(I called now with {"zone": "CET"})'


MESSAGES = st.lists(
    st.sampled_from(["user", "assistant", "tool", "system"]).flatmap(
        lambda role: st.builds(lambda text: Message(role=role, content=text), st.text(max_size=5))
    ),
    max_size=8,
)


@given(messages=MESSAGES, as_json=st.booleans())
def test_turns_alternate_and_begin_with_the_user(messages: list[Message], as_json: bool) -> None:
    roles = [message["role"] for message in chat("S", messages, as_json=as_json)]
    assert roles[0] == "system"
    assert roles[1:2] in ([], ["user"])
    assert all(one != other for one, other in pairwise(roles))
