"""Converts the bodies of `/v1`, chat completions and responses, into messages.

What else a request asks for is read in `client_tools.py`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any
from urllib.parse import quote, unquote

from holdfast.agent.transcript import joined
from holdfast.core.contract import Message, ToolCall
from holdfast.core.messages import text_of
from holdfast.web.compat.client_calls import BroughtResults
from holdfast.web.compat.client_tools import refusal
from holdfast.web.problems import ProblemRaised

SESSION_HEADER = "x-holdfast-session"
SYSTEM_ROLES = ("system", "developer")
LONGEST_ID = 200
PLAIN = "!#$&'()*+,/:;=?@[] "


def session_of(headers: Mapping[str, str], *given: Any) -> str:  # noqa: ANN401 - whatever a client sent
    """The session that the request names: in the header, or else in the first field that has a name."""
    for each in (unquote(headers.get(SESSION_HEADER, "")), *given):
        name = each.get("id") if isinstance(each, Mapping) else each
        if name:
            if not isinstance(name, str) or len(name) > LONGEST_ID or not name.isprintable():
                raise refusal("session", "a session's id is a short text.", "Correct it, or leave it out.")
            return name
    return ""


def session_header(session_id: str) -> dict[str, str]:
    """The response header that names the session; characters outside plain ASCII are percent-encoded."""
    return {"X-Holdfast-Session": quote(session_id, safe=PLAIN)}


@dataclass(frozen=True, slots=True)
class NewWords:
    """What a request says: the history, and after it the user's message or results of the client's tools."""

    history: list[Message]
    new: Message | BroughtResults
    system: str


def split(messages: Sequence[Message]) -> NewWords:
    """What is new in a request; its last message must be the user's or a tool's result."""
    said = [each for each in messages if each["role"] not in SYSTEM_ROLES]
    texts = [text_of(each) for each in messages if each["role"] in SYSTEM_ROLES]
    system = "\n\n".join(text for text in texts if text.strip())
    after = next((place for place in range(len(said), 0, -1) if said[place - 1]["role"] == "assistant"), 0)
    tail = said[after:]
    results = [each for each in tail if each["role"] == "tool"]
    if results:
        calls = [call for each in said[:after] for call in each.get("tool_calls") or ()]
        names = {str(call["id"]): str(call["function"]["name"]) for call in calls}
        words = [each for each in tail if each["role"] == "user" and each.get("content")]
        beside = reduce(joined, words).get("content") if words else ""
        return NewWords(said[:after], BroughtResults(results, beside or "", names), system)
    if not said or said[-1]["role"] != "user" or not said[-1].get("content"):
        raise ProblemRaised(
            400,
            "no_user_message",
            "the last message must be the user's, and not empty, or a tool's result. Nothing was stored.",
            "Send the message to be answered last.",
        )
    return NewWords(said[:-1], said[-1], system)


def chat_messages(given: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The messages of a chat completion."""
    kept: list[Message] = []
    for each in given:
        content = _content(each.get("content"))
        message: Message = {"role": str(each["role"]), "content": content}
        if each["role"] == "tool":
            message = _result(each.get("tool_call_id"), content)
        if each.get("tool_calls"):
            message["tool_calls"] = [_call(call) for call in each["tool_calls"]]
        kept.append(message)
    return kept


def response_messages(given: str | Sequence[Mapping[str, Any]], instructions: str | None) -> list[Message]:
    """The input of a response."""
    messages: list[Message] = [{"role": "system", "content": instructions}] if instructions else []
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    for item in given:
        match item.get("type", "message"):
            case "reasoning" | "item_reference":
                continue  # of an earlier answer: the store has it
            case "message" if "role" in item:
                messages.append(
                    {"role": str(item["role"]), "content": _simple(_content(item.get("content")))}
                )
            case "function_call":
                _add_call(messages, item)
            case "function_call_output":
                messages.append(_result(item.get("call_id"), _content(item.get("output"))))
            case kind:
                raise refusal("input", f"an input item of type {kind!r} can't be taken.", "Send messages.")
    return messages


def _add_call(messages: list[Message], item: Mapping[str, Any]) -> None:
    """Calls that follow one another, and the text before them, are one message."""
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    call = _call({"id": item.get("call_id"), "function": function})
    if messages and messages[-1]["role"] == "assistant":
        messages[-1]["tool_calls"] = [*(messages[-1].get("tool_calls") or ()), call]
    else:
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})


def _call(given: Mapping[str, Any]) -> ToolCall:
    function = given.get("function")
    if not isinstance(function, Mapping) or not given.get("id") or not function.get("name"):
        raise refusal(
            "tool_calls", "a call has an id and a function with a name.", "Send it as it was given."
        )
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {
        "id": str(given["id"]),
        "type": "function",
        "function": {"name": str(function["name"]), "arguments": text},
    }


def _result(call_id: object, content: str | list[dict[str, Any]] | None) -> Message:
    if not call_id:
        raise refusal("tool_result", "a tool's result names no call.", "Send the call's id with it.")
    text = _simple(content)
    if isinstance(text, list):
        raise refusal("tool_result", "a tool's result is text here.", "Send pictures in a user's message.")
    return {"role": "tool", "tool_call_id": str(call_id), "content": text or ""}


def _content(given: str | Sequence[Mapping[str, Any]] | None) -> str | list[dict[str, Any]] | None:
    return given if given is None or isinstance(given, str) else [_part(each) for each in given]


def _simple(parts: str | list[dict[str, Any]] | None) -> str | list[dict[str, Any]] | None:
    """Parts that are all text become one text."""
    if parts is None or isinstance(parts, str) or any(each.get("type") != "text" for each in parts):
        return parts
    return "".join(str(each.get("text") or "") for each in parts)


def _part(given: Mapping[str, Any]) -> dict[str, Any]:
    """A part in the shape that is stored; an unknown part stays as it is and is refused later by its name."""
    match given:
        case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "refusal", "refusal": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "input_image" | "image_url", "image_url": str(url)}:
            return _picture(url, given.get("detail"))
        case {"type": "image_url", "image_url": Mapping() as address}:
            return _picture(address.get("url"), address.get("detail"))
        case _:
            return dict(given)


def _picture(url: object, detail: object) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **({"detail": detail} if detail else {})}}
