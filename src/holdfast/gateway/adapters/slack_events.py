"""What Slack delivers, as the port's `Incoming`: messages, presses of buttons, slash commands.

The same message comes as a `message`, as an `app_mention` and out of the channel's history. Its id is made of
the workspace, the channel and the message's `ts`, so all of them have the same one.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from holdfast.core.contract import Clock
from holdfast.gateway.adapters.slack_api import Method, SlackApi
from holdfast.gateway.adapters.slack_markup import mentioned, to_plain
from holdfast.gateway.contract import ChatFile, ChatPlatformError, Incoming, Place, Sender

logger = logging.getLogger(__name__)

Payload = Mapping[str, Any]

# A message without a subtype is an ordinary one; every other subtype is a notice about the channel.
SPOKEN = frozenset({"", "bot_message", "file_share", "me_message", "thread_broadcast"})
CHANGES = frozenset({"message_changed", "message_deleted"})
NAME_SECONDS = 1.0
"""For how long a name is looked up; an envelope must be acknowledged within 3 s."""
MOST_NAMES = 10_000


def microseconds(ts: str) -> int:
    """Slack's `1700000000.000100` as microseconds since the epoch."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds) * 1_000_000 + int(fraction[:6].ljust(6, "0"))


def is_direct(channel: str) -> bool:
    """Whether the channel is the chat of one person with the bot."""
    return channel.startswith("D")


def thread_of(message: Payload) -> str:
    """The thread that a message stands in; the message that begins one stands in the channel itself."""
    thread = str(message.get("thread_ts") or "")
    return "" if thread == message.get("ts") else thread


class Directory:
    """The names of people and channels. An id stands for a name that Slack does not tell in time."""

    def __init__(self, api: SlackApi) -> None:
        self._api = api
        self._names: dict[str, str] = {}

    async def person(self, user: str) -> str:
        if user not in self._names:
            found = await self._found(self._api.web.users_info, "user", user)
            profile = found.get("profile") or {}
            self._keep(user, profile.get("display_name") or found.get("real_name") or found.get("name"))
        return self._names.get(user, user)

    async def title(self, channel: str) -> str:
        if is_direct(channel):
            return ""
        if channel not in self._names:
            found = await self._found(self._api.web.conversations_info, "channel", channel)
            self._keep(channel, found.get("name"))
        return self._names.get(channel, "")

    def known(self, user: str) -> str:
        return self._names.get(user, user)

    async def _found(self, method: Method, what: str, key: str) -> Payload:
        try:
            async with asyncio.timeout(NAME_SECONDS):
                found: Payload = (await self._api.call(method, **{what: key})).get(what) or {}
        except (ChatPlatformError, TimeoutError) as cause:
            logger.info("slack.no_name", extra={what: key, "cause": repr(cause)})
            return {}
        return found

    def _keep(self, key: str, name: object) -> None:
        if len(self._names) >= MOST_NAMES:
            self._names.clear()
        if name:
            self._names[key] = str(name)


class SlackEventReader:
    """Reads for one bot in one workspace."""

    def __init__(self, user: str, bot: str, team: str, directory: Directory, clock: Clock) -> None:
        self.user = user
        self.bot = bot
        self.team = team
        self._directory = directory
        self._clock = clock

    async def of_envelope(self, kind: str, payload: Payload) -> Incoming | None:
        """What an envelope brings; None for what is of no concern to the gateway."""
        if kind == "slash_commands":
            return await self._command(payload)
        if kind == "interactive":
            return await self._press(payload)
        event = payload.get("event") or {}
        if kind != "events_api" or event.get("type") not in ("message", "app_mention"):
            return None
        channel = str(event.get("channel", ""))
        return None if self.is_own(event) else await self.message(channel, event)

    def is_own(self, message: Payload) -> bool:
        """Whether the bot wrote the message, or the one that is changed or deleted."""
        message = message.get("message") or message.get("previous_message") or message
        return message.get("user") == self.user or (bool(self.bot) and message.get("bot_id") == self.bot)

    async def message(self, channel: str, message: Payload) -> Incoming | None:
        """A message, as an event or out of the history; None for an edit, a deletion and a notice."""
        subtype = str(message.get("subtype") or "")
        if subtype not in SPOKEN:
            logger.log(
                logging.INFO if subtype in CHANGES else logging.DEBUG,
                "slack.left_out",
                extra={"channel": channel, "subtype": subtype, "ts": message.get("ts")},
            )
            return None
        ts, thread, text = str(message["ts"]), thread_of(message), str(message.get("text") or "")
        names = mentioned(text)
        for user in names:
            if user != self.user:
                await self._directory.person(user)
        # A mention in a channel begins a thread: its answer and what follows stay together there.
        begins = self.user in names and not is_direct(channel)
        return Incoming(
            id=f"{self.team}:{channel}:{ts}",
            place=Place(channel, thread or (ts if begins else "")),
            sender=await self._sender(message),
            sent=microseconds(ts),
            text=self._plain(text),
            is_direct=is_direct(channel),
            is_mention=self.user in names or (bool(thread) and message.get("parent_user_id") == self.user),
            chat_title=await self._directory.title(channel),
            reply_to=thread,
            files=tuple(_file(each) for each in message.get("files") or () if each.get("id")),
            message_id=ts,
        )

    def _plain(self, text: str) -> str:
        for mention in (f"<@{self.user}>:", f"<@{self.user}>,", f"<@{self.user}>"):
            text = text.replace(mention, "")
        return to_plain(text, self._directory.known).strip()

    async def _sender(self, message: Payload) -> Sender:
        user = str(message.get("user") or message.get("bot_id") or "")
        if message.get("bot_id") or message.get("subtype") == "bot_message":
            profile = message.get("bot_profile") or {}
            return Sender(user, str(message.get("username") or profile.get("name") or user), is_bot=True)
        return Sender(user, await self._directory.person(user))

    async def _press(self, payload: Payload) -> Incoming | None:
        actions = payload.get("actions") or ()
        if payload.get("type") != "block_actions" or not actions:
            return None
        action, message = actions[0], payload.get("message") or {}
        container = payload.get("container") or {}
        channel = str((payload.get("channel") or {}).get("id") or container.get("channel_id") or "")
        user, pressed = str(payload["user"]["id"]), str(action["action_ts"])
        return Incoming(
            id=f"{self.team}:{channel}:{pressed}:{user}",
            place=Place(channel, thread_of(message)),
            sender=Sender(user, await self._directory.person(user)),
            sent=microseconds(pressed),
            kind="press",
            text=str(action.get("value") or ""),
            is_direct=is_direct(channel),
            is_mention=True,
            chat_title=await self._directory.title(channel),
            message_id=str(message.get("ts") or container.get("message_ts") or ""),
        )

    async def _command(self, payload: Payload) -> Incoming:
        """A slash command. Slack does not say when it was given."""
        channel, user = str(payload["channel_id"]), str(payload["user_id"])
        return Incoming(
            id=f"{self.team}:{channel}:{payload['trigger_id']}",
            place=Place(channel),
            sender=Sender(user, await self._directory.person(user)),
            sent=int(self._clock.now() * 1_000_000),
            text=to_plain(f"{payload['command']} {payload.get('text') or ''}", self._directory.known).strip(),
            is_direct=is_direct(channel),
            is_mention=True,
            chat_title=await self._directory.title(channel),
        )


def _file(file: Payload) -> ChatFile:
    return ChatFile(
        ref=str(file["id"]),
        name=str(file.get("name") or file.get("title") or file["id"]),
        media_type=str(file.get("mimetype") or "application/octet-stream"),
        size=file.get("size"),
        is_voice=file.get("subtype") == "slack_audio",
    )
