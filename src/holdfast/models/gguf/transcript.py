"""Renders a transcript for a chat template that knows three roles and wants them in turn.

Tool calls and results become text. With tools the assistant's messages take the JSON form that
`tool_prompt.py` asks for, so that the model reads its own past in the form it is to write.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from holdfast.core.contract import Message, ToolCall

OPENING = "(The conversation began earlier.)"
Turn = tuple[str, str]


def chat(system: str, messages: Sequence[Message], *, as_json: bool) -> list[dict[str, str]]:
    """The conversation as the runtime takes it: a system text, then user and assistant by turns."""
    names = {
        call["id"]: call["function"]["name"]
        for message in messages
        for call in message.get("tool_calls") or ()
    }
    turns = list(_in_turn(filter(None, (_turn(message, names, as_json=as_json) for message in messages))))
    if turns and turns[0][0] == "assistant":
        turns.insert(0, ("user", OPENING))
    return [{"role": role, "content": clean(text)} for role, text in [("system", system), *turns]]


def text_of(content: str | list[dict[str, Any]] | None) -> str:
    """The words of a message; what isn't text is named, not shown."""
    if isinstance(content, str) or content is None:
        return content or ""
    return "\n".join(
        str(part.get("text", "")) if part.get("type") == "text" else f"[{part.get('type', 'part')} left out]"
        for part in content
    )


def clean(text: str) -> str:
    """The text with half characters replaced: the runtime takes UTF-8 only."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _turn(message: Message, names: dict[str, str], *, as_json: bool) -> Turn | None:
    text = text_of(message.get("content"))
    match message["role"]:
        case "assistant":
            calls = message.get("tool_calls") or []
            return "assistant", (_said_as_json if as_json else _said)(text, calls)
        case "tool":
            name = names.get(message.get("tool_call_id", ""), "the tool")
            return "user", f"Result of {name}:\n{text}"
        case "user":
            return "user", text
        case _:
            return ("user", text) if text else None  # what a later system message says still counts


def _said(text: str, calls: Sequence[ToolCall]) -> str:
    called = (f"(I called {call['function']['name']} with {call['function']['arguments']})" for call in calls)
    return "\n".join(filter(None, (text, *called)))


def _said_as_json(text: str, calls: Sequence[ToolCall]) -> str:
    said: dict[str, Any] = {"answer": text} if text or not calls else {}
    if calls:
        said["tool_calls"] = [
            {"name": call["function"]["name"], "arguments": _arguments(call["function"]["arguments"])}
            for call in calls
        ]
    return json.dumps(said, ensure_ascii=False)


def _arguments(written: str) -> object:
    """A model's arguments are kept as it wrote them, so they may be no JSON at all."""
    try:
        return json.loads(written or "{}")
    except ValueError:
        return written


def _in_turn(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Neighbours of one role become one message: many templates refuse them otherwise."""
    role, texts = "", list[str]()
    for next_role, text in turns:
        if next_role != role and texts:
            yield role, "\n\n".join(texts)
            texts = []
        role = next_role
        texts.append(text)
    if texts:
        yield role, "\n\n".join(texts)
