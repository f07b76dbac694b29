"""`SlackPlatform`: the small Slack of `slack_server.py` as a `ChatPlatform`, with people on it."""

import html
import re
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Any

from holdfast.core.clock import SystemClock
from holdfast.core.secret import Secret
from holdfast.gateway.adapters.slack import SlackAdapter
from holdfast.gateway.adapters.slack_markup import escaped
from holdfast.gateway.contract import Adapter, Place
from holdfast.testing.chat_platform import ChatPlatform, Fault, SeenMessage
from tests.gateway.slack_server import APP_TOKEN, BOT_TOKEN, SENDING, SlackServer
from tests.gateway.slack_workspace import BOT_USER, TEAM, Channel, Json


class SlackPlatform:
    """Implements `ChatPlatform`."""

    def __init__(self, *, ack_seconds: float = 3.0) -> None:
        self.server = SlackServer(ack_seconds=ack_seconds)
        self.workspace = self.server.workspace
        self._numbers = count(1)
        self._faults: deque[str] = deque()

    async def start(self) -> None:
        await self.server.start()

    async def close(self) -> None:
        await self.server.close()

    def adapter(self) -> Adapter:
        return self.slack_adapter()

    def slack_adapter(self, **options: Any) -> SlackAdapter:  # noqa: ANN401 - as its constructor has them
        return SlackAdapter(
            Secret(BOT_TOKEN), Secret(APP_TOKEN), SystemClock(), base_url=self.server.url, **options
        )

    async def direct(self, person: str) -> Place:
        user = self.workspace.person(person)
        for channel in self.workspace.channels.values():
            if channel.type == "im" and user in channel.members:
                return Place(channel.id)
        return Place(self.workspace.open("", [user], prefix="D").id)

    async def group(self, people: Sequence[str]) -> Place:
        members = [self.workspace.person(person) for person in people]
        return Place(self.workspace.open(f"group-{next(self._numbers)}", members).id)

    async def say(
        self, place: Place, person: str, text: str, *, mention: bool = False, reply_to: str = ""
    ) -> str:
        said = f"<@{BOT_USER}> {escaped(text)}" if mention else escaped(text)
        channel = self.workspace.channels[place.chat]
        thread = self._thread(channel, place, reply_to)
        return await self.write(place, person, said, **({"thread_ts": thread} if thread else {}))

    async def write(self, place: Place, person: str, text: str, **more: object) -> str:
        """A person's message as Slack has it, with its marks and fields."""
        channel = self.workspace.channels[place.chat]
        message = self.workspace.add(channel, self.workspace.person(person), text, **more)
        await self.server.announce(channel, message)
        return str(message["ts"])

    async def send_file(self, place: Place, person: str, name: str, content: bytes) -> str:
        file = self.workspace.new_file(name, owner=self.workspace.person(person))
        file.content, file.is_complete = content, True
        files = [self.server.methods.file_object(file.id)]
        thread = {"thread_ts": place.thread} if place.thread else {}
        return await self.write(place, person, "", files=files, subtype="file_share", **thread)

    async def press(self, place: Place, person: str, message_id: str, value: str) -> None:
        message = self.workspace.channels[place.chat].message(message_id)
        action = next(each for each in _elements(message) if each["value"] == value)
        user = self.workspace.person(person)
        payload = {
            "type": "block_actions",
            "team": {"id": TEAM},
            "user": {"id": user, "username": person, "team_id": TEAM},
            "channel": {"id": place.chat},
            "container": {"type": "message", "message_ts": message_id, "channel_id": place.chat},
            "message": {key: message[key] for key in message if key != "metadata"},
            "actions": [{**action, "action_ts": self.workspace.ts()}],
            "trigger_id": f"{next(self._numbers)}.trigger",
            "response_url": "https://hooks.slack.com/actions/none",
        }
        await self.server.deliver("interactive", payload)

    async def thread(self, place: Place) -> Place:
        """A new thread, under a message of somebody who is not in the chat any more."""
        message = self.workspace.add(self.workspace.channels[place.chat], "U0000GONE", "a topic")
        return Place(place.chat, str(message["ts"]))

    async def bot_says(self, place: Place, bot: str, text: str) -> str:
        thread = {"thread_ts": place.thread} if place.thread else {}
        key = f"B{self.workspace.person(bot)}"
        return await self.write(
            place, bot, escaped(text), bot_id=key, subtype="bot_message", username=bot, **thread
        )

    async def command(self, place: Place, person: str, command: str, text: str = "") -> None:
        """A person gives a slash command."""
        payload = {
            "command": command,
            "text": text,
            "team_id": TEAM,
            "channel_id": place.chat,
            "user_id": self.workspace.person(person),
            "user_name": person,
            "trigger_id": f"{next(self._numbers)}.trigger",
        }
        await self.server.deliver("slash_commands", payload)

    async def messages(self, place: Place) -> list[SeenMessage]:
        channel = self.workspace.channels[place.chat]
        return [
            self._seen(message)
            for message in channel.messages.values()
            if not place.thread or place.thread in (message["ts"], message.get("thread_ts"))
        ]

    async def fail(self, fault: Fault, times: int = 1) -> None:
        # One queue for both methods: whichever is called next fails.
        for method in SENDING:
            self.server.errors[method] = self._faults
        self._faults.extend([fault] * times)

    async def kick(self) -> None:
        self.server.kick()

    async def deliver_again(self) -> None:
        await self.server.deliver_again()

    def is_typing(self, place: Place) -> bool:
        return False

    def _thread(self, channel: Channel, place: Place, reply_to: str) -> str:
        """A person answers in the thread of the message, or begins one under it."""
        if not reply_to:
            return place.thread
        return str(channel.message(reply_to).get("thread_ts") or reply_to)

    def _seen(self, message: Json) -> SeenMessage:
        thread = message.get("thread_ts") or ""
        thread = "" if thread == message["ts"] else thread
        files = message.get("files") or []
        by_bot = message["user"] == BOT_USER
        return SeenMessage(
            id=message["ts"],
            text=plain(message["text"]) if by_bot else _typed(message["text"]),
            by_bot=by_bot,
            thread=thread,
            reply_to=thread,
            buttons=tuple(element["value"] for element in _elements(message)),
            file=self.workspace.files[files[0]["id"]].content if files else None,
        )


def slack_platform() -> ChatPlatform:
    """A Slack for the suite that checks every adapter."""
    return SlackPlatform()


def plain(mrkdwn: str) -> str:
    """A message without its marks."""
    text = re.sub(r"<([^<>|]*)\|([^<>]*)>", r"\2", mrkdwn).replace("\u200b", "")
    text = re.sub(rf"<@{BOT_USER}>\s*", "", text)
    text = re.sub(r"```\n?|`", "", re.sub(r"<([^<>]*)>", r"\1", text))
    text = re.sub(r"(?<!\w)([*_~])(?=\S)(.+?)(?<=\S)\1(?!\w)", r"\2", text)
    return html.unescape(text).strip()


def _typed(mrkdwn: str) -> str:
    """A person's message as it was typed, without the mention of the bot."""
    return html.unescape(re.sub(rf"<@{BOT_USER}>\s*", "", mrkdwn))


def _elements(message: Json) -> list[Json]:
    blocks = [*message.get("blocks", [])]
    for attachment in message.get("attachments", []):
        blocks += attachment.get("blocks", [])
    return [element for block in blocks for element in block.get("elements", []) if "value" in element]
