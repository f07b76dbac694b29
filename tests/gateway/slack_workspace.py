"""A Slack workspace in memory: people, channels, messages and files, as the Web API shows them."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.clock import SystemClock

TEAM = "T0000TEST"
BOT_USER = "U0000BOT"
BOT = "B0000BOT"

Json = dict[str, Any]


class Refusal(Exception):
    """The answer `ok: false` with this error."""


@dataclass
class Channel:
    id: str
    name: str
    members: list[str]
    messages: dict[str, Json] = field(default_factory=dict)
    archived: bool = False

    @property
    def type(self) -> str:
        return "im" if self.id.startswith("D") else "channel"

    def message(self, ts: str) -> Json:
        if ts not in self.messages:
            raise Refusal("message_not_found")
        return self.messages[ts]


@dataclass
class StoredFile:
    id: str
    name: str
    content: bytes | None = None
    is_complete: bool = False
    owner: str = BOT_USER


class Workspace:
    """What Slack keeps. It never forgets, and gives each message a later `ts` than all before."""

    def __init__(self) -> None:
        self.people: dict[str, str] = {}
        self.channels: dict[str, Channel] = {}
        self.files: dict[str, StoredFile] = {}
        self.ephemeral: list[Json] = []
        self.days_ago = 0
        """How long ago the next messages are said."""
        self._last = 0

    def ts(self) -> str:
        now = int((SystemClock().now() - self.days_ago * 86_400) * 1_000_000)
        self._last = max(self._last + 1, now)
        return f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"

    def person(self, name: str) -> str:
        """The id of a person, who is made when first named."""
        return self.people.setdefault(name, f"U{len(self.people):04d}{name.upper()[:4]}")

    def open(self, name: str, members: Sequence[str], prefix: str = "C") -> Channel:
        channel = Channel(f"{prefix}{len(self.channels):06d}", name, [*members, BOT_USER])
        self.channels[channel.id] = channel
        return channel

    def channel(self, key: object) -> Channel:
        channel = self.channels.get(str(key))
        if channel is None:
            raise Refusal("channel_not_found")
        if BOT_USER not in channel.members:
            raise Refusal("not_in_channel")
        return channel

    def add(self, channel: Channel, user: str, text: str, **more: Any) -> Json:  # noqa: ANN401
        """A new message; a thread's first one learns of it."""
        message: Json = {"type": "message", "user": user, "text": text, "ts": self.ts(), "team": TEAM, **more}
        thread = message.get("thread_ts")
        if thread:
            parent = channel.message(thread)
            message["parent_user_id"] = parent["user"]
            replies = int(parent.get("reply_count", 0)) + 1
            parent.update(thread_ts=thread, reply_count=replies, latest_reply=message["ts"])
        channel.messages[message["ts"]] = message
        return message

    def new_file(self, name: str, owner: str = BOT_USER) -> StoredFile:
        file = StoredFile(f"F{len(self.files):06d}", name, owner=owner)
        self.files[file.id] = file
        return file

    def history(self, arguments: Mapping[str, Any]) -> Json:
        """`conversations.history`: newest first, without the replies of threads."""
        channel = self.channel(arguments.get("channel"))
        shown = [
            message
            for message in channel.messages.values()
            if message.get("thread_ts") in (None, message["ts"])
            or message.get("subtype") == "thread_broadcast"
        ]
        chosen = [message for message in reversed(shown) if _within(message["ts"], arguments)]
        return _page(chosen, arguments)

    def replies(self, arguments: Mapping[str, Any]) -> Json:
        """`conversations.replies`: oldest first, and the thread's first message in any case."""
        channel = self.channel(arguments.get("channel"))
        thread = str(arguments.get("ts"))
        if thread not in channel.messages:
            raise Refusal("thread_not_found")
        chosen = [
            message
            for message in channel.messages.values()
            if message["ts"] == thread
            or (message.get("thread_ts") == thread and _within(message["ts"], arguments))
        ]
        return _page(chosen, arguments)


def is_set(value: object) -> bool:
    return value in (True, "1", "true")


def _within(ts: str, arguments: Mapping[str, Any]) -> bool:
    oldest, latest = str(arguments.get("oldest") or "0"), str(arguments.get("latest") or "9999999999")
    if is_set(arguments.get("inclusive")):
        return float(oldest) <= float(ts) <= float(latest)
    return _micro(oldest) < _micro(ts) < _micro(latest)


def _micro(ts: str) -> int:
    seconds, _, fraction = ts.partition(".")
    return int(seconds) * 1_000_000 + int(fraction.ljust(6, "0")[:6])


def _page(messages: Sequence[Json], arguments: Mapping[str, Any]) -> Json:
    at = int(base64.b64decode(str(arguments.get("cursor") or "")) or 0)
    limit = min(int(arguments.get("limit") or 100), 999)
    end = at + limit
    more = end < len(messages)
    hidden = set() if is_set(arguments.get("include_all_metadata")) else {"metadata"}
    shown = [{k: v for k, v in message.items() if k not in hidden} for message in messages[at:end]]
    cursor = base64.b64encode(str(end).encode()).decode() if more else ""
    return {"messages": shown, "has_more": more, "response_metadata": {"next_cursor": cursor}}
