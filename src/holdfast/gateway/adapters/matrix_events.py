"""What a Matrix event says. Anyone may send any JSON, so nothing here trusts a field to have its type."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.messages import storable
from holdfast.gateway.contract import ChatFile, Incoming, Place, Sender

Event = Mapping[str, Any]

FACTS = ("m.room.member", "m.room.name", "m.room.encryption")
"""The types of events that change the facts about a room."""
TIMELINE = ("m.room.message", "m.room.encrypted", "m.sticker", *FACTS)
"""The types of events that are asked for."""
MESSAGES = frozenset({"m.room.message", "m.room.encrypted", "m.sticker"})
BY_BOTS = frozenset({"m.notice", "m.server_notice"})
LARGEST_INTEGER = 2**53
"""No number in a Matrix event is larger."""


@dataclass(frozen=True, slots=True)
class RoomFacts:
    """A room as it is now: its title, and the names of those who are in it or invited, by user id."""

    title: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    joined: frozenset[str] = frozenset()
    is_encrypted: bool = False

    def is_direct(self, me: str) -> bool:
        """Two members, and the bot is one. `m.direct` does not say that nobody else has joined since."""
        return len(self.names) == 2 and me in self.names  # noqa: PLR2004 - a person and the bot


@dataclass(frozen=True, slots=True)
class Relation:
    """What an event has to do with another one: in its thread, an answer to it, in place of it."""

    thread: str = ""
    reply_to: str = ""
    replaces: str = ""


def part(event: Event, name: str) -> Event:
    found = event.get(name)
    return found if isinstance(found, Mapping) else {}


def text(event: Event, name: str) -> str:
    found = event.get(name)
    return storable(found) if isinstance(found, str) else ""


def events_in(answer: Event, name: str) -> list[Event]:
    found = answer.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def relation(event: Event) -> Relation:
    relates = part(part(event, "content"), "m.relates_to")
    kind, target = text(relates, "rel_type"), text(relates, "event_id")
    answered = text(part(relates, "m.in_reply_to"), "event_id")
    if kind == "m.replace":
        return Relation(replaces=target or "unknown")
    if kind == "m.thread":
        # For clients without threads, every message of a thread names the one before it.
        return Relation(thread=target, reply_to="" if relates.get("is_falling_back") else answered)
    return Relation(reply_to=answered)


def current_content(event: Event) -> Event:
    """What a message says now: the server sends its newest edit along."""
    edit = part(part(part(event, "unsigned"), "m.relations"), "m.replace")
    return part(part(edit, "content"), "m.new_content") or part(event, "content")


def is_message(event: Event) -> bool:
    """Whether a person would call it a message. Edits and what was taken back are none."""
    content = part(event, "content")
    has_content = "msgtype" in content or "url" in content or "ciphertext" in content
    return text(event, "type") in MESSAGES and has_content and not relation(event).replaces


def membership(event: Event, me: str) -> str:
    """`invite` or `join` when the bot came to the room by this event, else empty."""
    if text(event, "type") != "m.room.member" or event.get("state_key") != me:
        return ""
    before = text(part(part(event, "unsigned"), "prev_content"), "membership")
    now = text(part(event, "content"), "membership")
    return now if now in ("invite", "join") and now != before else ""


def since_arrival(events: Sequence[Event], me: str) -> Sequence[Event]:
    """What was said to the bot: in a room that it has just come to, only what came after its invitation."""
    steps = [membership(each, me) for each in events]
    if "join" not in steps:
        return events
    joined = len(steps) - 1 - steps[::-1].index("join")
    invited = [index for index in range(joined) if steps[index] == "invite"]
    return events[(invited[-1] if invited else joined) + 1 :]


def sender_of(event: Event, facts: RoomFacts, me: str) -> Sender:
    user = text(event, "sender")
    is_bot = user == me or text(part(event, "content"), "msgtype") in BY_BOTS
    return Sender(user, facts.names.get(user) or localpart(user), is_bot)


def incoming(room: str, event: Event, facts: RoomFacts, names: Sequence[str], answered: Event) -> Incoming:
    """A message as the gateway takes it. An encrypted one, which can't be read, has no text and no file.

    `names` are the bot's: the first is its user id. `answered` is the event that this one answers, if known.
    """
    related, content, me = relation(event), current_content(event), names[0]
    said = shown_text(content, has_quote=bool(related.reply_to))
    is_mention = names_bot(content, said, names) or text(answered, "sender") == me
    sent = event.get("origin_server_ts")
    return Incoming(
        id=text(event, "event_id"),
        place=Place(room, related.thread),
        sender=sender_of(event, facts, me),
        sent=(sent if isinstance(sent, int) and 0 <= sent < LARGEST_INTEGER else 0) * 1000,
        text=without_name(said, names) if is_mention else said,
        is_direct=facts.is_direct(me),
        is_mention=is_mention,
        chat_title=facts.title,
        reply_to=related.reply_to,
        quoted=shown_text(current_content(answered)) if related.reply_to else "",
        files=tuple(files(content)),
        message_id=text(event, "event_id"),
    )


def shown_text(content: Event, *, has_quote: bool = False) -> str:
    """The text of a message, or the caption of a file."""
    said = text(content, "body")
    if ("url" in content or "file" in content) and text(content, "filename") in ("", said):
        return ""
    if has_quote and said.startswith("> <"):
        # Older clients repeat the answered message, as lines with a mark, above an empty line.
        return said.partition("\n\n")[2]
    return said


def files(content: Event) -> Iterable[ChatFile]:
    info, hidden = part(content, "info"), part(content, "file")
    address = text(hidden, "url") or text(content, "url")
    if not address.startswith("mxc://"):
        return
    size = info.get("size")
    yield ChatFile(
        # In an encrypted room a file is encrypted too, and the message has its keys.
        ref=json.dumps(hidden) if hidden else address,
        name=text(content, "filename") or text(content, "body") or "file",
        media_type=text(info, "mimetype") or "application/octet-stream",
        size=size if isinstance(size, int) and 0 <= size < LARGEST_INTEGER else None,
        is_voice="org.matrix.msc3245.voice" in content,
    )


def names_bot(content: Event, said: str, names: Sequence[str]) -> bool:
    """By the mark that clients set, by the bot's whole user id, or by its name at the beginning."""
    marked = part(content, "m.mentions").get("user_ids")
    if isinstance(marked, list) and names[0] in marked:
        return True
    whole, first = rf"{re.escape(names[0])}(?![.:-]*\w)", rf"^\s*{_any(names)}\s*[:,](?=\s|$)"
    return re.search(f"{whole}|{first}", said) is not None


def without_name(said: str, names: Sequence[str]) -> str:
    return re.sub(rf"^\s*{_any(names)}(?:\s*[:,])?(?:\s+|$)", "", said)


def localpart(user: str) -> str:
    return user.removeprefix("@").partition(":")[0]


def _any(names: Sequence[str]) -> str:
    """A pattern of the bot's names. Its user id goes first, for its name is a part of that."""
    others = "|".join(re.escape(name) for name in sorted(names[1:], key=len, reverse=True))
    return f"(?:{re.escape(names[0])}|@?(?:{others}))"
