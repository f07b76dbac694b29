"""What there is on the Discord of the tests: people, channels, messages, in Discord's own JSON."""

import re
import time
from dataclasses import dataclass, field
from typing import Any

from holdfast.testing.chat_platform import SeenMessage

Json = dict[str, Any]

EPOCH_MS = 1_420_070_400_000
DIRECT, TEXT, THREAD = 1, 0, 11
REPLY = 19
LIMIT = 2000

_INVISIBLE = re.compile("[\u200b\u2061-\u2064]")
_MARKS = re.compile(r"\*\*|```\w*\n?|`|^#{1,3} ", re.MULTILINE)


class Refused(Exception):
    """What Discord answers instead: a status, its own code and a sentence."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@dataclass
class World:
    """Everything that outlives a connection."""

    users: dict[str, Json] = field(default_factory=dict)
    channels: dict[str, Json] = field(default_factory=dict)
    messages: dict[str, list[Json]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    reactions: list[tuple[str, str]] = field(default_factory=list)
    of_nonces: dict[str, str] = field(default_factory=dict)
    _last_id: int = 0

    def __post_init__(self) -> None:
        self.bot = self.user("holdfast", bot=True)
        self.guild = self.new_id()

    def new_id(self) -> str:
        now = (time.time_ns() // 1_000_000 - EPOCH_MS) << 22
        self._last_id = max(now, self._last_id + 1)
        return str(self._last_id)

    def user(self, name: str, *, bot: bool = False) -> Json:
        if name not in self.users:
            self.users[name] = {
                "id": self.new_id(),
                "username": name,
                "discriminator": "0",
                "global_name": None if bot else name.title(),
                "avatar": None,
                "bot": bot,
            }
        return self.users[name]

    def new_channel(self, kind: int, name: str | None, *, own: str = "", **more: object) -> str:
        """A thread has the id of the message that it was opened on."""
        own = own or self.new_id()
        place = {} if kind == DIRECT else {"guild_id": self.guild}
        self.channels[own] = {"id": own, "type": kind, "name": name, **place, **more}
        self.messages[own] = []
        return own

    def channel(self, own: str) -> Json:
        if own not in self.channels:
            raise Refused(404, 10003, "Unknown Channel")
        return self.channels[own]

    def of_guild(self, kind: int) -> list[Json]:
        """The channels, or the threads, of the server, each with its last message."""
        found = [channel for channel in self.channels.values() if channel["type"] == kind]
        return [
            {
                **one,
                "last_message_id": self.messages[one["id"]][-1]["id"] if self.messages[one["id"]] else None,
            }
            for one in found
        ]

    def message(self, channel: str, own: str) -> Json:
        self.channel(channel)
        for message in self.messages[channel]:
            if message["id"] == own:
                return message
        raise Refused(404, 10008, "Unknown Message")

    def add(self, channel: str, author: Json, content: str, **more: Any) -> Json:  # noqa: ANN401 - JSON
        """A new message; `more` has what the body of the call has."""
        self.channel(channel)
        if len(content) > LIMIT:
            raise Refused(400, 50035, "Invalid Form Body")
        if not content.strip() and not more.get("attachments"):
            raise Refused(400, 50006, "Cannot send an empty message")
        mentioned = [user for user in self.users.values() if f"<@{user['id']}>" in content]
        message: Json = {
            "id": self.new_id(),
            "type": 0,
            "channel_id": channel,
            "author": author,
            "content": content.strip(),
            "timestamp": "2026-11-17T12:00:00+00:00",
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": mentioned,
            "mention_roles": [],
            "attachments": more.get("attachments") or [],
            "embeds": [],
            "pinned": False,
            "flags": more.get("flags") or 0,
            "components": more.get("components") or [],
            **self._reply(channel, more.get("message_reference")),
        }
        self.messages[channel].append(message)
        return message

    def _reply(self, channel: str, reference: Json | None) -> Json:
        if not reference:
            return {}
        try:
            answered = self.message(channel, reference["message_id"])
        except Refused:
            if reference.get("fail_if_not_exists", True):
                raise Refused(400, 50035, "Unknown message") from None
            return {}
        return {
            "type": REPLY,
            "message_reference": {"type": 0, "channel_id": channel, "message_id": answered["id"]},
            "referenced_message": answered,
        }

    def page(self, channel: str, query: Any) -> list[Json]:  # noqa: ANN401 - a multi-dict
        """Newest first, as Discord answers; `after` gives the oldest ones after it."""
        self.channel(channel)
        limit = int(query.get("limit", 50))
        found = self.messages[channel]
        if "after" in query:
            found = [one for one in found if int(one["id"]) > int(query["after"])][:limit]
        elif "before" in query:
            found = [one for one in found if int(one["id"]) < int(query["before"])][-limit:]
        else:
            found = found[-limit:]
        return found[::-1]

    def attach(self, name: str, content: bytes, url: str) -> Json:
        own = self.new_id()
        self.files[own] = content
        return {
            "id": own,
            "filename": name,
            "size": len(content),
            "content_type": "text/plain; charset=utf-8",
            "url": f"{url}/attachments/{own}/{name}",
        }

    def seen(self, message: Json, thread: str) -> SeenMessage:
        """The message as people see it."""
        files = [self.files[one["id"]] for one in message["attachments"]]
        text = _MARKS.sub("", _INVISIBLE.sub("", message["content"])).replace("\\|", "|")
        return SeenMessage(
            id=message["id"],
            text=text.strip(),
            by_bot=message["author"]["id"] == self.bot["id"],
            thread=thread,
            reply_to=(message.get("message_reference") or {}).get("message_id", ""),
            buttons=tuple(
                button["custom_id"] for row in message["components"] for button in row["components"]
            ),
            file=files[0] if files else None,
        )
