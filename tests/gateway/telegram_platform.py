"""Telegram as a `ChatPlatform`: the people who talk with the bot, on the server beside it."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.secret import Secret
from holdfast.gateway.adapters.telegram_markup import utf16_size
from holdfast.gateway.contract import Place
from holdfast.testing.chat_platform import Fault, SeenMessage
from tests.gateway.telegram_chats import Chat
from tests.gateway.telegram_server import TOKEN, TelegramServer

if TYPE_CHECKING:
    from holdfast.gateway.adapters.telegram import TelegramAdapter

FIRST_PERSON = 1001
FIRST_GROUP = -1_001_000_000_001
SERVICE = {"forum_topic_created", "migrate_to_chat_id", "migrate_from_chat_id"}
"""What a message has that no person wrote."""


class TelegramPlatform:
    """The whole of Telegram for a test. Adapters that it made are closed with it."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.server = TelegramServer()
        self._clock = clock or SystemClock()
        self._people: dict[str, dict[str, Any]] = {}
        self._adapters: list[TelegramAdapter] = []
        self._presses = 0

    async def start(self) -> None:
        await self.server.start()

    async def close(self) -> None:
        await asyncio.gather(*(adapter.close() for adapter in self._adapters))
        await self.server.close()

    def adapter(self, token: str = TOKEN, api_url: str = "") -> "TelegramAdapter":
        # To load the library behind it takes seconds, so a test worker does it when a test needs it.
        from holdfast.gateway.adapters.telegram import TelegramAdapter

        adapter = TelegramAdapter(Secret(token), self._clock, api_url=api_url or self.server.url)
        self._adapters.append(adapter)
        return adapter

    def person(self, name: str) -> dict[str, Any]:
        """The account of this person, as Telegram shows it."""
        account = {"id": FIRST_PERSON + len(self._people), "is_bot": False, "first_name": name}
        return self._people.setdefault(name, account)

    async def direct(self, person: str) -> Place:
        number = self.person(person)["id"]
        self.server.chats.chats.setdefault(number, Chat(number, "private", person))
        return Place(str(number))

    async def group(self, people: Sequence[str], *, is_forum: bool = False) -> Place:
        for person in people:
            self.person(person)
        number = FIRST_GROUP - len(self.server.chats.chats)
        title = f"A group of {' and '.join(people)}"
        self.server.chats.chats[number] = Chat(number, "supergroup", title, is_forum=is_forum)
        return Place(str(number))

    async def upgrade(self, place: Place, *, told: bool = True) -> Place:
        """Make a supergroup of a group: another id, messages numbered anew; the bot may be `told`."""
        group = self.chat(place)
        grown = self.chat(await self.group([group.title]))
        group.moved_to = grown.id
        first = group.add({"from": self.server.chats.bot, "migrate_to_chat_id": grown.id})
        second = grown.add({"from": self.server.chats.bot, "migrate_from_chat_id": group.id})
        if told:
            self.server.updates.put({"message": first})
            self.server.updates.put({"message": second})
        return Place(str(grown.id))

    async def topic(self, place: Place, name: str) -> Place:
        """A new topic of a forum."""
        chat = self.chat(place)
        started = chat.add({"forum_topic_created": {"name": name, "icon_color": 1}, "is_topic_message": True})
        started["message_thread_id"] = started["message_id"]
        started["from"] = self.server.chats.bot
        return Place(place.chat, str(started["message_id"]))

    def chat(self, place: Place) -> Chat:
        return self.server.chats.chats[int(place.chat)]

    async def say(
        self, place: Place, person: str, text: str, *, mention: bool = False, reply_to: str = ""
    ) -> str:
        entities = []
        if mention:
            name = "@holdfast_bot"
            text = f"{name} {text}"
            entities.append({"type": "mention", "offset": 0, "length": len(name)})
        elif text.startswith("/"):
            entities.append({"type": "bot_command", "offset": 0, "length": utf16_size(text.split()[0])})
        fields: dict[str, Any] = {"text": text}
        if entities:
            fields["entities"] = entities
        return self.post(place, person, fields, reply_to=reply_to)

    async def send_file(self, place: Place, person: str, name: str, content: bytes) -> str:
        return self.post(place, person, {"document": self.server.chats.keep_file(name, content)})

    def post(self, place: Place, person: str, fields: Mapping[str, Any], *, reply_to: str = "") -> str:
        """A message with these fields of the Bot API."""
        chat = self.chat(place)
        context: dict[str, Any] = {"from": self.person(person)}
        if place.thread:
            context |= {"message_thread_id": int(place.thread), "is_topic_message": True}
        answered = chat.messages.get(int(reply_to or place.thread or 0))
        if answered is not None:
            context["reply_to_message"] = {k: v for k, v in answered.items() if k != "reply_to_message"}
        message = chat.add({**context, **fields})
        document = fields.get("document")
        if document is not None:
            chat.content[message["message_id"]] = self.server.chats.files[document["file_id"]]
        self.server.updates.put({"message": message})
        return str(message["message_id"])

    async def press(self, place: Place, person: str, message_id: str, value: str) -> None:
        message = self.chat(place).messages[int(message_id)]
        if value not in _buttons(message):
            raise LookupError(f"message {message_id} has no button {value}")
        self._presses += 1
        query = f"query-{self._presses}"
        self.server.chats.open_presses.add(query)
        pressed = {
            "id": query,
            "from": self.person(person),
            "message": message,
            "chat_instance": "1",
            "data": value,
        }
        self.server.updates.put({"callback_query": pressed})

    async def messages(self, place: Place) -> list[SeenMessage]:
        chat = self.chat(place)
        return [
            _seen(chat, message)
            for message in chat.messages.values()
            if not SERVICE & message.keys()
            and (not place.thread or str(message.get("message_thread_id")) == place.thread)
        ]

    async def fail(self, fault: Fault, times: int = 1) -> None:
        self.server.fail(fault, times)

    async def kick(self) -> None:
        self.server.updates.kick()

    async def deliver_again(self) -> None:
        self.server.updates.deliver_again()

    def is_typing(self, place: Place) -> bool:
        return self.chat(place).typing.get(place.thread, 0.0) > time.monotonic()


class QuickTelegram(TelegramPlatform):
    """Telegram without a limit for a chat, so that a group need not wait three seconds for each answer."""

    def adapter(self, token: str = TOKEN, api_url: str = "") -> "TelegramAdapter":
        adapter = super().adapter(token, api_url)
        adapter.traits = replace(adapter.traits, chat_seconds=0.0, group_seconds=0.0)
        return adapter


def _buttons(message: Mapping[str, Any]) -> tuple[str, ...]:
    rows = message.get("reply_markup", {}).get("inline_keyboard", [])
    return tuple(button["callback_data"] for row in rows for button in row)


def _seen(chat: Chat, message: Mapping[str, Any]) -> SeenMessage:
    answered = message.get("reply_to_message", {})
    is_answer = "forum_topic_created" not in answered
    return SeenMessage(
        id=str(message["message_id"]),
        text=message.get("text") or message.get("caption") or "",
        by_bot=message["from"]["is_bot"],
        thread=str(message.get("message_thread_id", "")),
        reply_to=str(answered.get("message_id", "")) if is_answer else "",
        buttons=_buttons(message),
        file=chat.content.get(message["message_id"]),
    )
