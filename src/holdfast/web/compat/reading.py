"""What clients of `/v1` send, as messages: both of OpenAI's shapes, the chat's and the responses'.

What such a client asks of the model alone (temperature, the number of tokens) is taken and left aside: the
agent's settings rule. What would change the meaning of the answer, and is not done, is refused by name.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from holdfast.core.contract import Message
from holdfast.web.problems import ProblemRaised

SESSION_HEADER = "x-holdfast-session"
LONGEST_ID = 200
PLAIN = "!#$&'()*+,/:;=?@[] "


def refusal(param: str, detail: str, next_: str) -> ProblemRaised:
    return ProblemRaised(400, f"unsupported_{param}", detail, next_)


def refuse_unsupported(body: Mapping[str, Any]) -> None:
    """Say at once what this server does not do."""
    asks_for_calls = body.get("tool_choice") not in (None, "none", "auto")
    if asks_for_calls or ((body.get("tools") or body.get("functions")) and body.get("tool_choice") != "none"):
        raise refusal(
            "tools",
            "this server runs the agent's own tools, and can't hand calls back to its client.",
            "Leave out `tools`, or send tool_choice: none; MCP servers give the agent more of its own.",
        )
    if body.get("n") not in (None, 1):
        raise refusal("n", "this server gives one answer to a message.", "Leave out `n`.")
    wanted = body.get("response_format") or (body.get("text") or {}).get("format")
    if isinstance(wanted, Mapping) and wanted.get("type", "text") != "text":
        raise refusal("format", "this server answers in plain text.", "Ask for JSON in words.")


def session_of(headers: Mapping[str, str], *given: Any) -> str:  # noqa: ANN401 - whatever a client sent
    """The session that is named: by the header, else by the first field that names one."""
    for each in (unquote(headers.get(SESSION_HEADER, "")), *given):
        name = each.get("id") if isinstance(each, Mapping) else each
        if name:
            if not isinstance(name, str) or len(name) > LONGEST_ID or not name.isprintable():
                raise refusal("session", "a session's id is a short text.", "Correct it, or leave it out.")
            return name
    return ""


def session_header(session_id: str) -> dict[str, str]:
    """Names the session in an answer's head; what is not plain ASCII in its id is percent-encoded."""
    return {"X-Holdfast-Session": quote(session_id, safe=PLAIN)}


def split(messages: Sequence[Message]) -> tuple[list[Message], Message]:
    """What was said before, and the last message, which must be a person's."""
    if not messages or messages[-1]["role"] != "user" or not messages[-1].get("content"):
        raise ProblemRaised(
            400,
            "no_user_message",
            "the last message must be the user's, and not empty. Nothing was stored.",
            "End the conversation with the message that is to be answered.",
        )
    return list(messages[:-1]), messages[-1]


def chat_messages(given: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The messages of a chat completion."""
    kept: list[Message] = []
    for each in given:
        message: Message = {"role": str(each["role"]), "content": each.get("content")}
        if each["role"] == "tool":
            message["tool_call_id"] = str(each.get("tool_call_id", ""))
        if each.get("tool_calls"):
            message["tool_calls"] = each["tool_calls"]
        kept.append(message)
    return kept


def response_messages(given: str | Sequence[Mapping[str, Any]], instructions: str | None) -> list[Message]:
    """The input of a response."""
    messages: list[Message] = [{"role": "system", "content": instructions}] if instructions else []
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    for item in given:
        kind = item.get("type", "message")
        if kind == "reasoning":
            continue  # an earlier answer's, of which the agent keeps its own record
        if kind != "message" or "role" not in item:
            raise refusal("input", f"an input item of type {kind!r} can't be taken.", "Send messages.")
        content = item.get("content")
        parts = content if isinstance(content, str) else [_part(each) for each in content or ()]
        messages.append({"role": str(item["role"]), "content": _simple(parts)})
    return messages


def _simple(parts: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Text alone is a plain text."""
    if isinstance(parts, str) or any(each["type"] != "text" for each in parts):
        return parts
    return "".join(each["text"] for each in parts)


def _part(given: Mapping[str, Any]) -> dict[str, Any]:
    match given.get("type"):
        case "input_text" | "output_text" | "text" if isinstance(given.get("text"), str):
            return {"type": "text", "text": given["text"]}
        case "input_image" if isinstance(given.get("image_url"), str):
            return {"type": "image_url", "image_url": {"url": given["image_url"]}}
        case kind:
            raise refusal("input", f"a part of type {kind!r} can't be taken.", "Send text or images.")
