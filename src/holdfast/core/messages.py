"""What every room reads from a message: its text, and the data that Holdfast stores with it."""

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast

from holdfast.core.contract import Message

HOLDFAST_KEY = "holdfast"
"""The key of a stored message under which Holdfast keeps data that no model API knows."""
EDITED = "edited"
"""In that data, of a message that was changed while it waited: the digest of what was sent first."""
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def holdfast_data(message: Mapping[str, Any] | Message) -> dict[str, Any]:
    """The data that Holdfast stored with a message; empty when there is none."""
    data: object = message.get(HOLDFAST_KEY)
    return data if isinstance(data, dict) else {}


def as_edited(message: Message, before: Message) -> Message:
    """What a waiting message is changed into, with a mark that tells what was sent first."""
    first = holdfast_data(before).get(EDITED) or _digest(before)
    return cast("Message", {**message, HOLDFAST_KEY: {**holdfast_data(message), EDITED: first}})


def was_sent_as(stored: Message, message: Message) -> bool:
    """Whether a stored message was sent as this one; it may have been changed while it waited."""
    first = holdfast_data(stored).get(EDITED)
    return stored == message if first is None else first == _digest(message)


def _digest(message: Message) -> str:
    return sha256(json.dumps(message, sort_keys=True).encode()).hexdigest()


def text_of(message: Message) -> str:
    """The text of a message, whatever its shape. Text parts are joined by line ends."""
    content: Any = message.get("content") or ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return json.dumps(content)
    return "\n".join(part for part in map(_part_text, content) if part is not None)


def fenced(name: str, text: str) -> str:
    """Text that is data, in a fence that it can't close itself."""
    inner = text.replace(f"</{name}", f"< /{name}")
    return f"<{name}>\n{inner}\n</{name}>"


def storable(text: str) -> str:
    """The text as every store and every model takes it: without NUL and without half surrogate pairs."""
    if text.isascii() and "\0" not in text:
        return text
    return UNSTORABLE.sub("\ufffd", text)


def _part_text(part: object) -> str | None:
    if not isinstance(part, dict):
        return str(part)
    text = part.get("text")
    return text if isinstance(text, str) else None
