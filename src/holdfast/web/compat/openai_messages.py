"""Converts the bodies of `/v1`, chat completions and responses, into messages.

Parameters for the model alone (temperature, the number of tokens) are accepted and ignored: the agent's
settings count. A parameter that would change the meaning of the answer is refused by its name.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from holdfast.agent.system_text import with_system
from holdfast.core.contract import Message
from holdfast.core.messages import text_of
from holdfast.web.problems import ProblemRaised

SESSION_HEADER = "x-holdfast-session"
SYSTEM_ROLES = ("system", "developer")
LONGEST_ID = 200
PLAIN = "!#$&'()*+,/:;=?@[] "


def refusal(param: str, detail: str, next_: str) -> ProblemRaised:
    return ProblemRaised(400, f"unsupported_{param}", detail, next_)


def refuse_unsupported(body: Mapping[str, Any]) -> None:
    """Refuse the parameters that this server does not support."""
    asks_for_calls = body.get("tool_choice") not in (None, "none", "auto")
    if asks_for_calls or ((body.get("tools") or body.get("functions")) and body.get("tool_choice") != "none"):
        raise refusal(
            "tools",
            "this server runs the agent's own tools and can't hand calls to its client.",
            "Leave out `tools`, or send tool_choice: none. MCP servers give the agent more tools.",
        )
    if body.get("n") not in (None, 1):
        raise refusal("n", "this server gives one answer to a message.", "Leave out `n`.")
    wanted = body.get("response_format") or (body.get("text") or {}).get("format")
    if isinstance(wanted, Mapping) and wanted.get("type", "text") != "text":
        raise refusal("format", "this server answers in plain text.", "Ask for JSON in words.")


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


def split(messages: Sequence[Message]) -> tuple[list[Message], Message]:
    """The history, and the last message, which must be the user's and carries the system text."""
    said = [each for each in messages if each["role"] not in SYSTEM_ROLES]
    if not said or said[-1]["role"] != "user" or not said[-1].get("content"):
        raise ProblemRaised(
            400,
            "no_user_message",
            "the last message must be the user's, and not empty. Nothing was stored.",
            "Send the message to be answered last.",
        )
    texts = [text_of(each) for each in messages if each["role"] in SYSTEM_ROLES]
    return said[:-1], with_system(said[-1], "\n\n".join(text for text in texts if text.strip()))


def chat_messages(given: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The messages of a chat completion."""
    kept: list[Message] = []
    for each in given:
        message: Message = {"role": str(each["role"]), "content": _content(each.get("content"))}
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
            continue  # of an earlier answer: the store has it
        if kind != "message" or "role" not in item:
            raise refusal("input", f"an input item of type {kind!r} can't be taken.", "Send messages.")
        messages.append({"role": str(item["role"]), "content": _simple(_content(item.get("content")))})
    return messages


def _content(given: str | Sequence[Mapping[str, Any]] | None) -> str | list[dict[str, Any]] | None:
    return given if given is None or isinstance(given, str) else [_part(each) for each in given]


def _simple(parts: str | list[dict[str, Any]] | None) -> str | list[dict[str, Any]] | None:
    """Parts that are all text become one text."""
    if parts is None or isinstance(parts, str) or any(each.get("type") != "text" for each in parts):
        return parts
    return "".join(each["text"] for each in parts)


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
