"""What Discord delivers, as the port's events: messages, presses of buttons, commands."""

import logging
import re
from dataclasses import dataclass

from holdfast.gateway.adapters.discord_api import Payload
from holdfast.gateway.adapters.discord_markup import without_mark
from holdfast.gateway.contract import ChatFile, Incoming, Place, Sender

logger = logging.getLogger(__name__)

DISCORD_EPOCH_MS = 1_420_070_400_000

DIRECT = 1
THREADS = frozenset({10, 11, 12})

PLAIN_MESSAGE = 0
THREAD_CREATED = 18
REPLY = 19
SAID_BY_A_PERSON = frozenset({PLAIN_MESSAGE, REPLY})
FORWARD = 1
VOICE_FLAG = 1 << 13

COMMAND = 2
PRESS = 3

_USER_MENTION = re.compile(r"<@!?(\d+)>")


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel as Discord has it: a thread is one too, with a parent."""

    place: Place
    title: str = ""
    is_direct: bool = False


def read_channel(payload: Payload) -> Channel:
    own, kind = str(payload["id"]), payload.get("type")
    place = Place(str(payload["parent_id"]), own) if kind in THREADS else Place(own)
    return Channel(place, payload.get("name") or "", is_direct=kind == DIRECT)


def opened_thread(message: Payload) -> str:
    """The thread that was opened on this message, or of which this message says that it was opened."""
    if message.get("type") == THREAD_CREATED:
        return str((message.get("message_reference") or {}).get("channel_id") or "")
    return str((message.get("thread") or {}).get("id") or "")


def sent_at(snowflake: str) -> int:
    """When an id of Discord was made, in microseconds since the epoch."""
    return ((int(snowflake) >> 22) + DISCORD_EPOCH_MS) * 1000


def read_message(payload: Payload, channel: Channel, me: str) -> Incoming | None:
    """A message of a person or a bot; None for what Discord itself says in a channel."""
    if payload.get("type", PLAIN_MESSAGE) not in SAID_BY_A_PERSON:
        return None
    try:
        return _message(payload, channel, me)
    except (KeyError, TypeError, ValueError):
        logger.exception("discord.unreadable", extra={"message_id": payload.get("id")})
        return None


def read_interaction(payload: Payload, channel: Channel) -> Incoming | None:
    """A pressed button, or a command that was chosen from the list."""
    if payload.get("type") not in {COMMAND, PRESS}:
        return None
    try:
        return _interaction(payload, channel)
    except (KeyError, TypeError, ValueError):
        logger.exception("discord.unreadable", extra={"interaction": payload.get("id")})
        return None


def _interaction(payload: Payload, channel: Channel) -> Incoming:
    data = payload["data"]
    is_press = payload["type"] == PRESS
    return Incoming(
        id=str(payload["id"]),
        place=channel.place,
        sender=_sender((payload.get("member") or payload)["user"]),
        sent=sent_at(payload["id"]),
        kind="press" if is_press else "message",
        text=data["custom_id"] if is_press else _command(data),
        is_direct=channel.is_direct,
        is_mention=True,
        chat_title=channel.title,
        message_id=str(payload["message"]["id"]) if is_press else "",
        press_token=f"{payload['id']}/{payload['token']}" if is_press else "",
    )


def _message(payload: Payload, channel: Channel, me: str) -> Incoming:
    reference = payload.get("message_reference") or {}
    answered = payload.get("referenced_message") or {}
    if reference.get("type") == FORWARD:
        snapshots = payload.get("message_snapshots") or [{}]
        answered, reference = snapshots[0].get("message") or {}, {}
    names = {str(user["id"]): user["username"] for user in payload.get("mentions") or ()}
    return Incoming(
        id=str(payload["id"]),
        place=channel.place,
        sender=_sender(payload["author"], is_webhook="webhook_id" in payload),
        sent=sent_at(payload["id"]),
        text=_plain(payload.get("content") or "", names, me),
        is_direct=channel.is_direct,
        is_mention=me in names or (answered.get("author") or {}).get("id") == me,
        chat_title=channel.title,
        reply_to=str(reference.get("message_id") or ""),
        quoted=without_mark(answered.get("content") or ""),
        files=tuple(_file(payload, found) for found in payload.get("attachments") or ()),
        message_id=str(payload["id"]),
    )


def _sender(user: Payload, *, is_webhook: bool = False) -> Sender:
    name = user.get("global_name") or user["username"]
    return Sender(str(user["id"]), name, is_bot=is_webhook or bool(user.get("bot")))


def _plain(content: str, names: dict[str, str], me: str) -> str:
    """The bot's own name is left out, others are written as people read them."""

    def name(found: re.Match[str]) -> str:
        return "" if found[1] == me else f"@{names.get(found[1], found[1])}"

    return _USER_MENTION.sub(name, without_mark(content)).strip()


def _file(message: Payload, found: Payload) -> ChatFile:
    """The address of a file runs out after a day, so the file is named by where it stands."""
    return ChatFile(
        ref=f"{message['channel_id']}/{message['id']}/{found['id']}",
        name=found["filename"],
        media_type=(found.get("content_type") or "application/octet-stream").partition(";")[0],
        size=found.get("size"),
        is_voice=bool((message.get("flags") or 0) & VOICE_FLAG),
    )


def _command(data: Payload) -> str:
    words = [str(option["value"]) for option in data.get("options") or () if "value" in option]
    return " ".join([f"/{data['name']}", *words])
