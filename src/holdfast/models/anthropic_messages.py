"""Turns a transcript in the OpenAI shape into the messages that Anthropic's API takes. Pure functions.

In that API user and assistant alternate, and the user is first and last. The results of tools come first in
the user message after the calls, and a signed thinking block goes back to its old position.
`anthropic_native.py` sends the messages.
"""

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.core.contract import Message
from holdfast.core.messages import holdfast_data
from holdfast.core.pictures import media_type
from holdfast.models.contract import ModelRequest, ToolSchema

Block = dict[str, Any]

CACHE = {"type": "ephemeral"}
CACHED_TURNS = 2
"""The last two user messages are marked for the cache, so that each step finds what the step before wrote."""
CONTINUATION = "(The conversation goes on.)"
SAMPLING = ("temperature", "top_p", "top_k")
CHOICES = {"auto": "auto", "required": "any", "none": "none"}
INVALID_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")


def anthropic_request(request: ModelRequest, model: str) -> dict[str, Any]:
    """The system text, tools and messages, with marks where the prompt is cached."""
    body: dict[str, Any] = {"messages": anthropic_messages(request.messages, model)}
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": CACHE}]
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        body["tools"][-1]["cache_control"] = CACHE
        if (choice := _tool_choice(request.options)) is not None:
            body["tool_choice"] = choice
    body |= {name: request.options[name] for name in SAMPLING if request.options.get(name) is not None}
    if stop := request.options.get("stop"):
        body["stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)
    users = [message for message in body["messages"] if message["role"] == "user"]
    for message in users[-CACHED_TURNS:]:
        message["content"][-1]["cache_control"] = CACHE
    return body


def _tool_choice(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """OpenAI's `tool_choice` and `parallel_tool_calls` in Anthropic's words; None when neither is given."""
    wanted = options.get("tool_choice")
    one = {"disable_parallel_tool_use": True} if options.get("parallel_tool_calls") is False else {}
    if isinstance(wanted, Mapping):
        return {"type": "tool", "name": wanted["function"]["name"], **one}
    if wanted is None and not one:
        return None
    kind = CHOICES[wanted or "auto"]
    return {"type": kind} if kind == "none" else {"type": kind, **one}


def anthropic_messages(messages: Sequence[Message], model: str) -> list[dict[str, Any]]:
    """The transcript with alternating roles, and with the thinking blocks that `model` signed."""
    merged: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = list(_assistant_blocks(message, model) if role == "assistant" else _user_blocks(message))
        if not blocks:
            continue
        if not merged or merged[-1]["role"] != role:
            merged.append({"role": role, "content": []})
        merged[-1]["content"] += blocks
    for message_ in merged:
        if message_["role"] == "user":
            message_["content"].sort(key=lambda block: block["type"] != "tool_result")
    if not merged or merged[0]["role"] != "user":
        merged.insert(0, {"role": "user", "content": [_text(CONTINUATION)]})
    if merged[-1]["role"] != "user":
        merged.append({"role": "user", "content": [_text(CONTINUATION)]})
    return merged


def tool_id(call_id: str) -> str:
    """The id in the characters that the API allows; different ids stay different."""
    if call_id and not INVALID_CHARACTERS.search(call_id):
        return call_id
    return f"{INVALID_CHARACTERS.sub('_', call_id)}_{zlib.crc32(call_id.encode()):08x}"


def _user_blocks(message: Message) -> Iterator[Block]:
    content = list(_content_blocks(message.get("content")))
    if message["role"] != "tool":
        yield from content
        return
    result: Block = {"type": "tool_result", "tool_use_id": tool_id(message.get("tool_call_id", ""))}
    if content:
        result["content"] = content
    if holdfast_data(message).get("failed"):
        result["is_error"] = True
    yield result


def _content_blocks(content: str | list[dict[str, Any]] | None) -> Iterator[Block]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for part in content or ():
        kind = part.get("type")
        text = part.get("text")
        if isinstance(text, str):
            if text.strip():  # the API refuses a text that is only whitespace
                yield _text(text)
        elif kind == "image_url":
            yield {"type": "image", "source": _image_source(part.get("image_url"))}
        else:
            yield _text(f"(Something of the type {kind!r} was here, which can't be sent to this model.)")


def _image_source(image: object) -> dict[str, str]:
    url = str(image.get("url", "") if isinstance(image, Mapping) else image)
    kind = media_type(url)
    if kind is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": kind, "data": url[url.index(",") + 1 :]}


def _assistant_blocks(message: Message, model: str) -> Iterator[Block]:
    texts = list(_content_blocks(message.get("content")))
    calls = [_tool_use(call) for call in message.get("tool_calls") or ()]
    kept = _kept(message, model)
    in_order = _in_order(kept, texts, calls)
    if in_order is not None:
        yield from in_order
        return
    yield from (block for block in kept if block["type"] in ("thinking", "redacted_thinking"))
    yield from texts
    yield from calls


def _kept(message: Message, model: str) -> list[Block]:
    keep = holdfast_data(message).get("keep")
    signed = keep.get("anthropic") if isinstance(keep, Mapping) else None
    # A signature is valid only for the model that made it.
    if not isinstance(signed, Mapping) or signed.get("model") != model:
        return []
    return [dict(block) for block in signed.get("blocks", ())]


def _in_order(kept: list[Block], texts: list[Block], calls: list[Block]) -> list[Block] | None:
    """The blocks in their original order; None when the message was changed since."""
    text = "".join(block.get("text", "") for block in texts)
    waiting = {call["id"]: call for call in calls}
    ordered: list[Block] = []
    for block in kept:
        if block["type"] == "text":
            block_text, text = text[: block["length"]], text[block["length"] :]
            ordered += [_text(block_text)] if block_text.strip() else []
        elif block["type"] == "tool_use":
            call = waiting.pop(tool_id(block["id"]), None)
            ordered += [call] if call else []
        else:
            ordered.append(block)
    return ordered if kept and not text and not waiting else None


def _tool_use(call: Mapping[str, Any]) -> Block:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        # The API takes only an object, so the model's text is put into one.
        arguments = {"unreadable": function["arguments"]}
    name = INVALID_CHARACTERS.sub("_", function["name"])[:128] or "nameless"
    return {"type": "tool_use", "id": tool_id(call["id"]), "name": name, "input": arguments}


def _tool(tool: ToolSchema) -> Block:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}
