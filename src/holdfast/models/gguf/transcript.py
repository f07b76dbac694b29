"""Renders a transcript for a chat template with three roles, in which user and assistant alternate.

Tool calls and results become text. With tools, the assistant's messages have the JSON form that
`tool_prompt.py` asks for, so that the model sees its own past messages in the form that it must write.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from holdfast.core.contract import Message, ToolCall

NO_PICTURES = "[a picture is here, which this model can't see: it reads text only]"
OPENING = "(The conversation began earlier.)"
ChatTurn = tuple[str, str]


def chat(system: str, messages: Sequence[Message], *, as_json: bool) -> list[dict[str, str]]:
    """The conversation for the runtime: a system text, then user and assistant in turn."""
    names = {
        call["id"]: call["function"]["name"]
        for message in messages
        for call in message.get("tool_calls") or ()
    }
    turns = list(_in_turn(filter(None, (_turn(message, names, as_json=as_json) for message in messages))))
    if turns and turns[0][0] == "assistant":
        turns.insert(0, ("user", OPENING))
    return [{"role": role, "content": clean(text)} for role, text in [("system", system), *turns]]


def visible_text(content: str | list[dict[str, Any]] | None) -> str:
    """The text of a message; a note stands in for a picture."""
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n".join(
        str(part.get("text", "")) if part.get("type") == "text" else NO_PICTURES for part in content
    )


def clean(text: str) -> str:
    """The text with unpaired surrogates replaced, because the runtime takes only UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _turn(message: Message, names: dict[str, str], *, as_json: bool) -> ChatTurn | None:
    text = visible_text(message.get("content"))
    match message["role"]:
        case "assistant":
            calls = message.get("tool_calls") or []
            return "assistant", (_answer_as_json if as_json else _answer_as_text)(text, calls)
        case "tool":
            name = names.get(message.get("tool_call_id", ""), "the tool")
            return "user", f"Result of {name}:\n{text}"
        case "user":
            return "user", text
        case _:
            return ("user", text) if text else None  # a later system message becomes a user message


def _answer_as_text(text: str, calls: Sequence[ToolCall]) -> str:
    called = (f"(I called {call['function']['name']} with {call['function']['arguments']})" for call in calls)
    return "\n".join(filter(None, (text, *called)))


def _answer_as_json(text: str, calls: Sequence[ToolCall]) -> str:
    answer: dict[str, Any] = {"answer": text} if text or not calls else {}
    if calls:
        answer["tool_calls"] = [
            {"name": call["function"]["name"], "arguments": _arguments(call["function"]["arguments"])}
            for call in calls
        ]
    return json.dumps(answer, ensure_ascii=False)


def _arguments(written: str) -> object:
    """Parse the arguments. The model's own text is stored, so it may not be JSON."""
    try:
        return json.loads(written or "{}")
    except ValueError:
        return written


def _in_turn(turns: Iterable[ChatTurn]) -> Iterator[ChatTurn]:
    """Join adjacent messages of one role, because many templates refuse them."""
    role, texts = "", list[str]()
    for next_role, text in turns:
        if next_role != role and texts:
            yield role, "\n\n".join(texts)
            texts = []
        role = next_role
        texts.append(text)
    if texts:
        yield role, "\n\n".join(texts)
