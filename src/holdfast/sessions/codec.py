"""Messages to columns and back, word for word.

`content` holds the text of a plain message, and is what search reads. Everything else a message carries
is JSON in `extra`. A content that is not plain text (parts, null, or text no database stores) also goes
into `extra`, which then wins over the column. Read `core/contract.py` for the message itself.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeGuard, cast

from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput
from holdfast.sessions.contract import SECOND

PLAIN = {"role", "content"}
DEEPEST = 100
LARGEST = 2**62
"""A limit, a sequence number or a moment past any that occurs."""
LONGEST_NAME = 500
LONGEST_SECONDS = 10 * 366 * 86_400
# PostgreSQL stores no NUL, and neither engine stores half a surrogate pair.
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Columns(NamedTuple):
    """A message as the store keeps it."""

    role: str
    content: str | None
    extra: str | None


class Unreadable(ValueError):
    """A stored value is of another kind than it was stored as: the store is damaged."""


def is_storable(text: str) -> bool:
    """Whether both engines keep this text unchanged."""
    return ("\x00" not in text) if text.isascii() else UNSTORABLE.search(text) is None


def is_name(value: object) -> TypeGuard[str]:
    """Whether both engines can keep it as an id, a provider's or a holder's name."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and is_storable(value)


def checked_name(what: str, value: object) -> str:
    """An id, a provider or a holder that both engines can keep."""
    if is_name(value):
        return value
    raise InvalidInput(f"{what} must be 1 to {LONGEST_NAME} characters of plain text, not {value!r:.80}")


def checked_names(what: str, values: object) -> list[str]:
    """Several names; a single text is not a list of its letters."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidInput(f"{what} comes in a list, not as {values!r:.80}")
    return [checked_name(what, value) for value in values]


def checked_number(what: str, value: object) -> int:
    """A whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise InvalidInput(f"{what} must be a whole number, not {value!r:.80}")


def checked_seconds(what: str, value: float) -> int:
    """A span of time in the store's unit."""
    if not 0 < value <= LONGEST_SECONDS:
        raise InvalidInput(
            f"{what} must be more than 0 s and at most {LONGEST_SECONDS:,} s, not {value!r:.80}"
        )
    return int(value * SECOND)


def checked_limit(limit: int | None) -> int:
    """How many rows at most, as both engines understand it; None means all."""
    if limit is None:
        return LARGEST
    if not 0 <= limit <= LARGEST:
        raise InvalidInput(f"a limit must be 0 or more, not {limit}")
    return limit


def encode(message: object) -> Columns:
    """Take a message apart. Raises `InvalidInput` for what is no message or what JSON can't carry."""
    if not isinstance(message, dict) or "role" not in message:
        raise InvalidInput(f"a message is a dictionary with a role, not {message!r:.80}")
    role = checked_name("a message's role", message["role"])
    content = message.get("content")
    plain = isinstance(content, str) and is_storable(content)
    if plain and message.keys() == PLAIN:
        return Columns(role, content, None)
    rest: dict[str, Any] = {key: value for key, value in message.items() if key != "role"}
    if plain:
        del rest["content"]
    else:
        content = searchable_text(content)
    return Columns(role, content, to_json(rest))


def searchable_text(content: object) -> str | None:
    """The text in a message's parts, or None when it has none."""
    if isinstance(content, str):
        return UNSTORABLE.sub("\ufffd", content)
    if not isinstance(content, list):
        return None
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return UNSTORABLE.sub("\ufffd", "\n".join(text for text in texts if isinstance(text, str))) or None


def decode(role: str, content: str | None, extra: str | None) -> Message:
    """Put a message together again."""
    if extra is None:
        return cast(Message, {"role": role, "content": content})
    rest = json.loads(extra)
    message = {"role": role}
    if content is not None and "content" not in rest:
        message["content"] = content
    message.update(rest)
    return cast(Message, message)


def decode_all(rows: Iterable[tuple[str, str | None, str | None]]) -> list[Message]:
    """`decode` over rows; most are plain, and loading a long session is a hot path."""
    return [
        cast(Message, {"role": role, "content": content}) if extra is None else decode(role, content, extra)
        for role, content, extra in rows
    ]


def to_json(value: object) -> str:
    """Compact ASCII JSON, so that any text survives any engine, and says the same when read again."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
        faithful = json.loads(text) == value
    except (TypeError, ValueError, RecursionError) as cause:
        raise InvalidInput(f"a message must be plain JSON data: {cause}") from cause
    if not faithful:
        # Tuples, keys that aren't text, and two half surrogates in a row.
        raise InvalidInput("a message must be plain JSON data, which comes back as it went in")
    if text.count("[") + text.count("{") > DEEPEST and _is_too_deep(value):
        raise InvalidInput(f"a message must not be nested more than {DEEPEST} levels deep")
    return text


def _is_too_deep(value: object) -> bool:
    """Whether a reader far down its stack could fail to parse this."""
    level = [value]
    for _ in range(DEEPEST + 1):
        containers = [each for each in level if isinstance(each, dict | list)]
        level = [
            inner for each in containers for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)
