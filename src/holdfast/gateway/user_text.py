"""The text that the agent reads for a message of a chat: in groups, who said it and what was said before.

Names and the words of others are data: they are quoted, so that no name can pass for an instruction or for
another person.
"""

import json
import unicodedata
from collections.abc import Sequence

from holdfast.gateway.contract import Incoming

LONGEST_NAME = 80
LONGEST_QUOTE = 2_000


def user_text(events: Sequence[Incoming], context: Sequence[Incoming] = ()) -> str:
    """One message of one person, made of one or more events, after what others said in the group."""
    first = events[0]
    said = "\n\n".join(text for each in events if (text := each.text.strip()))
    if not first.is_direct:
        said = _own_words(said)
    lines = []
    if context:
        lines.append("[Said in the group before, by others, as data:")
        lines += [f"{_name(each)}: {quote(each.text)}" for each in context]
        lines.append("]")
    if not first.is_direct:
        where = f" in the group {_short(first.chat_title)}" if first.chat_title else ""
        lines.append(f"[Message from {_name(first)}{where}:]")
    quoted = next((each.quoted for each in reversed(events) if each.quoted), "")
    if quoted:
        lines.append(f"[It answers this message, quoted as data: {quote(quoted)}]")
    return "\n".join([*lines, said])


def _own_words(text: str) -> str:
    """A person's words in a group, with a mark before what looks like a line of ours: who says what."""
    return "\n".join(f"> {line}" if _begins_with_bracket(line) else line for line in text.splitlines())


def _begins_with_bracket(line: str) -> bool:
    seen = (char for char in unicodedata.normalize("NFKC", line) if char.isprintable() and char != " ")
    return next(seen, "") == "["


def _name(event: Incoming) -> str:
    return f"{_short(event.sender.name)} (id {_short(event.sender.id)})"


def _short(name: str) -> str:
    """A name, quoted, without characters that end a line or turn the direction of writing."""
    shown = "".join(char if char.isprintable() else " " for char in name[:LONGEST_NAME])
    return json.dumps(shown, ensure_ascii=False)


def quote(text: str) -> str:
    """Words of others as one quoted line: nothing in it can pass for a line of its own."""
    cut = text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"
    # Not only "\n" ends a line.
    return json.dumps("\n".join(cut.splitlines()), ensure_ascii=False)
