"""Checks the content of messages, for every surface and for the library.

The content is a text or a list of parts. Each part is a text or a picture, in the shape of OpenAI's chat API.
A message that can't be sent to a model is refused before it is stored, and the error names the part. Messages
from imports and older records are stored as they are; models get a text in place of a part that they can't
take (`sendable_part`).

To check large pictures takes time. So they are checked once, off the event loop (`is_large`), and the message
is then passed on as `Checked`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.contract import Message
from holdfast.core.errors import MessageInvalid, MessageTooLong
from holdfast.core.pictures import picture_problem, picture_url_problem

MAX_PARTS = 500
MAX_MESSAGE_BYTES = 20_000_000
"""For all texts and pictures of one message together; pictures count as they are encoded."""
ALLOWED = 'allowed are {"type": "text", "text": …} and {"type": "image_url", "image_url": {"url": …}}'
DETAIL_LEVELS = ("auto", "low", "high", "original")
TEXT_FIELDS = frozenset({"type", "text"})
PICTURE_FIELDS = frozenset({"type", "image_url"})
ADDRESS_FIELDS = frozenset({"url", "detail"})
CHARACTERS_PER_TOKEN = 6
"""More than ordinary text has in an alphabet, so a text that is too long by this count can't fit."""
EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")
EAST_ASIAN_TOKENS = 0.4
"""Of a Chinese, Japanese or Korean character: fewer than a tokenizer with a large vocabulary needs."""
LARGE_CHARACTERS = 50_000
"""Content with more characters takes longer to check than a thread takes to wake up."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A message whose content was checked. It need not be checked again."""

    message: Message


def check_message(message: object) -> None:
    """Raise `MessageInvalid` unless this is a message that a person may send."""
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise MessageInvalid(f"a message is a dictionary with a role and a content, not {message!r:.80}")
    check_content(message.get("content"))


def is_large(message: object) -> bool:
    """Whether to check this message on a thread. The argument may be any object."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, list | tuple):
        return len(content) <= MAX_PARTS and sum(map(_length, content)) > LARGE_CHARACTERS
    return isinstance(content, str) and len(content) > LARGE_CHARACTERS


def check_content(content: object) -> None:
    """Raise `MessageInvalid` unless a model takes this content.

    The error names the part and what is allowed.
    """
    if isinstance(content, str):
        if not content.strip():
            raise MessageInvalid("a message can't be empty")
        if _bytes(content) > MAX_MESSAGE_BYTES:
            raise MessageInvalid(f"the text is larger than {MAX_MESSAGE_BYTES:,} bytes")
        return
    if not isinstance(content, Sequence) or isinstance(content, bytes | bytearray):
        raise MessageInvalid(f"a message's content is a text or a list of parts, not {content!r:.80}")
    _check_parts(content)


def check_parts(message: Message) -> None:
    """Check the parts of a message of any role; its content may be empty or missing."""
    content: object = message.get("content")
    if isinstance(content, str) or not content:
        return
    if not isinstance(content, Sequence):
        raise MessageInvalid(f"a message's content is a text or a list of parts, not {content!r:.80}")
    _check_parts(content, may_be_empty=True)


def _check_parts(parts: Sequence[object], *, may_be_empty: bool = False) -> None:
    if len(parts) > MAX_PARTS:
        raise MessageInvalid(f"a message has at most {MAX_PARTS} parts, not {len(parts):,}")
    size, says_something = 0, False
    for number, part in enumerate(parts, 1):
        # Parts beyond the limit are not checked. A picture that is too large alone gets its own error below.
        if size and size + _length(part) > MAX_MESSAGE_BYTES >= _length(part):
            raise _too_large()
        problem = part_problem(part, picture_problem)
        if problem is not None:
            raise MessageInvalid(f"part {number} of the message can't be sent to a model: {problem}")
        payload = _payload(part)
        size += _bytes(payload)
        says_something = says_something or bool(payload.strip())
    if not says_something and not may_be_empty:
        raise MessageInvalid("a message can't be empty")
    if size > MAX_MESSAGE_BYTES:
        raise _too_large()


def _too_large() -> MessageInvalid:
    return MessageInvalid(f"the message's parts are larger than {MAX_MESSAGE_BYTES:,} bytes together")


def part_problem(part: object, check_picture: Any = picture_url_problem) -> str | None:  # noqa: ANN401 - a function of a url
    """The problem with one part; None when a model takes it. `check_picture` checks the URL of a picture."""
    if not isinstance(part, Mapping):
        return f"it is {part!r:.40}; {ALLOWED}"
    kind = part.get("type")
    if kind == "text":
        if not isinstance(part.get("text"), str):
            return f"a part of type 'text' has a text; {ALLOWED}"
        return _unknown_fields(part, TEXT_FIELDS)
    if kind == "image_url":
        return _picture_problem(part, check_picture)
    return f"there is no part of type {kind!r:.60}; {ALLOWED}"


def _picture_problem(part: Mapping[str, Any], check_picture: Any) -> str | None:  # noqa: ANN401 - as above
    address = part.get("image_url")
    if not isinstance(address, Mapping):
        return f"a part of type 'image_url' has an image_url with a url; {ALLOWED}"
    problem = check_picture(address.get("url"))
    if problem is not None:
        return f"a picture can't be used: {problem}"
    if address.get("detail", "auto") not in DETAIL_LEVELS:
        return f"the detail of a picture is one of {', '.join(DETAIL_LEVELS)}, not {address['detail']!r:.40}"
    return _unknown_fields(part, PICTURE_FIELDS) or _unknown_fields(address, ADDRESS_FIELDS)


def _unknown_fields(part: Mapping[str, Any], known: frozenset[str]) -> str | None:
    unknown = sorted(str(name) for name in part.keys() - known)
    return f"it has a field {unknown[0]!r:.60} that no model takes; {ALLOWED}" if unknown else None


def sendable_part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part as a model takes it: unchanged, without fields that no model takes, or replaced by a text."""
    if part_problem(part) is None:
        return part
    known: dict[str, Any] = {name: part[name] for name in ("type", "text", "image_url") if name in part}
    if known.get("type") == "text":
        known.pop("image_url", None)
    elif isinstance(known.get("image_url"), Mapping):
        known.pop("text", None)
        known["image_url"] = {"url": known["image_url"].get("url")}
    problem = part_problem(known)
    return known if problem is None else omitted_part(part, problem.split("; ", 1)[0])


def omitted_part(part: Mapping[str, Any], why: str) -> dict[str, Any]:
    """A text that says which part was left out, and why."""
    what = "a picture" if part.get("type") in ("image_url", "image", "input_image") else "a part"
    return {"type": "text", "text": f"[{what} of this message was left out: {why}]"}


def check_fits(message: Message, model: str, window: int) -> None:
    """Raise `MessageTooLong` when the message alone is more than the model's window holds."""
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [part.get("text") or "" for part in content or ()]
    characters = sum(map(len, texts))
    tokens = characters // CHARACTERS_PER_TOKEN
    # Only where it decides are the characters looked at: that takes 30 ms for each million.
    if tokens <= window < characters * EAST_ASIAN_TOKENS:
        tokens = sum(map(_fewest_tokens, texts))
    if tokens > window:
        raise MessageTooLong(model, tokens, window)


def _fewest_tokens(text: str) -> int:
    """A lower bound: to refuse what would fit is worse than to let a model refuse what does not."""
    dense = 0 if text.isascii() else sum(map(len, EAST_ASIAN.findall(text)))
    return int(dense * EAST_ASIAN_TOKENS) + (len(text) - dense) // CHARACTERS_PER_TOKEN


def _length(part: object) -> int:
    """The number of characters in a part, which may be any object."""
    if not isinstance(part, Mapping):
        return 0
    address = part.get("image_url")
    texts = (part.get("text"), address.get("url") if isinstance(address, Mapping) else None)
    return sum(len(each) for each in texts if isinstance(each, str))


def _payload(part: Any) -> str:  # noqa: ANN401 - a part that was checked
    return str(part["text"] if part["type"] == "text" else part["image_url"]["url"])


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
