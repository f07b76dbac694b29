"""`repaired`: a stored message in a shape that every model API takes, whatever wrote it.

What an import or a confused model left on record is kept there word for word; a model sees it repaired.
Most messages need nothing and come back as they are.
"""

import json
import re
from typing import Any, cast

from holdfast.core.content import sendable_part
from holdfast.core.contract import Message, ToolCall
from holdfast.core.messages import storable

BROKEN_ARGUMENTS = "unreadable"
"""The key under which arguments that are no JSON object are kept, so that the transcript stays valid."""
NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
LONGEST_NAME = 64
AGAIN = "-again"
"""Marks the id of a call that has the same as one before it in its message."""
HALF_PAIRS = re.compile(r"\\u[dD][89a-fA-F]")


def repaired(message: Message) -> Message:
    """The message with plain content and whole calls."""
    content, calls = message.get("content"), message.get("tool_calls")
    fitting = _content(content)
    whole = _calls(calls) if calls else None
    # `tool_calls` that is there and empty is refused by some servers.
    if fitting == content and whole == calls and (calls or "tool_calls" not in message):
        return message
    repaired: dict[str, Any] = {**message, "content": fitting}
    repaired.pop("tool_calls", None)
    if whole:
        repaired["tool_calls"] = whole
    return cast("Message", repaired)


def _content(content: object) -> str | list[dict[str, Any]] | None:
    if content is None or isinstance(content, str):
        return storable(content) if content else content
    if not isinstance(content, list):
        return storable(json.dumps(content))
    return [_block(block) for block in content]


def _block(block: object) -> dict[str, Any]:
    if not isinstance(block, dict):
        return {"type": "text", "text": storable(block if isinstance(block, str) else json.dumps(block))}
    fitting = sendable_part(block)
    text = fitting.get("text")
    if not isinstance(text, str) or (clean := storable(text)) == text:
        return cast("dict[str, Any]", fitting)
    return {**fitting, "text": clean}


def _calls(calls: object) -> list[ToolCall]:
    whole: list[ToolCall] = []
    taken: set[str] = set()
    for place, call in enumerate(calls if isinstance(calls, list) else [calls]):
        given: dict[str, Any] = call if isinstance(call, dict) else {"function": {"arguments": call}}
        function = given.get("function")
        if not isinstance(function, dict):
            function = {"arguments": function}
        call_id = str(given.get("id") or f"call_{place}")
        while call_id in taken:
            call_id += AGAIN
        taken.add(call_id)
        name = NOT_IN_A_NAME.sub("_", str(function.get("name") or ""))[:LONGEST_NAME] or "nameless"
        fitting = {"name": name, "arguments": as_arguments(function.get("arguments"))}
        whole.append(cast("ToolCall", {"id": call_id, "type": "function", "function": fitting}))
    return whole


def as_arguments(given: object) -> str:
    """Arguments as JSON text of an object; what is none is wrapped, for the model to see its fault."""
    if given is None or given == "":
        return "{}"
    text = given if isinstance(given, str) else json.dumps(given)
    if not text.strip():
        return "{}"
    try:
        read = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        return json.dumps({BROKEN_ARGUMENTS: storable(text)})
    if HALF_PAIRS.search(text):
        return storable(json.dumps(read, ensure_ascii=False))
    return storable(text)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
