"""`MemoryPlatform`: a chat platform in memory with people on it, for tests of the gateway and for authors.

It keeps what the traits promise: a key is taken once (`repeat="key"`), a message is found by its key
(`look`), or neither (`placeholder`). `server` is the platform's state: every call of the bot with its time,
reactions, the commands, what was acknowledged. A test waits with `until`, and never sleeps.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.gateway.contract import AdapterTraits, Incoming, Place, Sender
from holdfast.testing.chat_platform import Fault, SeenMessage
from holdfast.testing.memory_adapter import MemoryAdapter
from holdfast.testing.memory_chats import (
    BOT,
    MemoryChatServer,
    MemoryMessage,
    MemoryOptions,
    PlatformCall,
)

TRAITS = AdapterTraits(max_size=4096, repeat="key", has_history=True)
NOWHERE = Incoming("", Place(""), Sender("", ""), 0)
"""An event before the server says when and where it happened."""


class MemoryPlatform:
    """A `ChatPlatform` without a network. It outlives its adapters; the newest one receives."""

    def __init__(
        self,
        traits: AdapterTraits = TRAITS,
        *,
        clock: Clock | None = None,
        options: MemoryOptions | None = None,
    ) -> None:
        self.server = MemoryChatServer(traits, options or MemoryOptions(), clock or SystemClock())
        self._direct: dict[str, Place] = {}

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        await self.kick()

    def adapter(self) -> MemoryAdapter:
        return MemoryAdapter(self.server)

    async def direct(self, person: str) -> Place:
        if person not in self._direct:
            self._direct[person] = Place(self.server.add_chat(person, is_direct=True).id)
        return self._direct[person]

    async def group(self, people: Sequence[str]) -> Place:
        return Place(self.server.add_chat(", ".join(people), is_direct=False).id)

    async def thread(self, place: Place) -> Place:
        """A new thread in this chat."""
        thread = self.server.new_id("thread")
        self.server.chats[place.chat].threads.add(thread)
        return Place(place.chat, thread)

    async def say(
        self, place: Place, person: str, text: str, *, mention: bool = False, reply_to: str = ""
    ) -> str:
        shown = f"@{BOT.name} {text}" if mention else text
        message = self._stored(place, _person(person), shown, reply_to)
        self._deliver(place, message, replace(NOWHERE, text=text, is_mention=mention))
        return message.id

    async def bot_says(self, place: Place, bot: str, text: str) -> str:
        """Another bot says something."""
        message = self._stored(place, Sender(f"bot-{bot}", bot, is_bot=True), text)
        self._deliver(place, message, replace(NOWHERE, text=text))
        return message.id

    async def send_file(self, place: Place, person: str, name: str, content: bytes) -> str:
        message = self._stored(place, _person(person), "")
        message.file, message.file_name = content, name
        self._deliver(place, message, replace(NOWHERE, files=(self.server.store_file(name, content),)))
        return message.id

    async def press(self, place: Place, person: str, message_id: str, value: str) -> None:
        message = self.server.chats[place.chat].message(message_id)
        if message is None or value not in [each for _, each in message.buttons]:
            raise LookupError(f"message {message_id} has no button {value!r}")
        token = self.server.new_id("press")
        event = replace(NOWHERE, kind="press", text=value, press_token=token)
        self.server.add_event(Place(place.chat, message.thread), _person(person), message, event)

    async def messages(self, place: Place) -> list[SeenMessage]:
        return self.seen(place)

    def seen(self, place: Place) -> list[SeenMessage]:
        """`messages`, without waiting."""
        return [
            SeenMessage(
                id=each.id,
                text=each.text,
                by_bot=each.sender.id == BOT.id,
                thread=each.thread,
                reply_to=each.reply_to,
                buttons=tuple(value for _, value in each.buttons),
                file=each.file,
            )
            for each in self.server.chats[place.chat].messages
            if not place.thread or each.thread == place.thread
        ]

    async def fail(self, fault: Fault, times: int = 1) -> None:
        self.server.faults.extend([fault] * times)

    async def kick(self) -> None:
        receiver = self.server.receiver
        if receiver is not None:
            receiver.state = "broken"
            receiver.wake()

    async def deliver_again(self) -> None:
        received = self.server.events[: self.server.delivered]
        if self.server.receiver is not None:
            self.server.receiver.again.extend(received)
            self.server.receiver.wake()
        else:
            # Nobody receives: whoever connects next gets them.
            self.server.again.extend(received)

    def is_typing(self, place: Place) -> bool:
        return self.server.is_typing(place)

    async def remove_bot(self, place: Place) -> None:
        """Take the bot out of the chat; what it sends there is refused."""
        self.server.chats[place.chat].has_bot = False

    def calls(self, chat: str = "") -> list[PlatformCall]:
        """The calls of the bot, in order; those for one chat, if one is named."""
        return [each for each in self.server.calls if not chat or each.chat == chat]

    async def until(self, holds: Callable[[], bool], seconds: float = 10.0) -> None:
        """Wait until this holds; it is asked again whenever something happens on the platform."""
        await self.server.until(holds, seconds)

    def _stored(self, place: Place, sender: Sender, text: str, reply_to: str = "") -> MemoryMessage:
        chat = self.server.chats[place.chat]
        if place.thread and place.thread not in chat.threads:
            raise LookupError(f"chat {chat.id} has no thread {place.thread}")
        return MemoryMessage(
            id=self.server.new_id("message"),
            sender=sender,
            text=text,
            thread=place.thread,
            reply_to=reply_to,
            sent=self.server.clock.monotonic(),
        )

    def _deliver(self, place: Place, message: MemoryMessage, event: Incoming) -> None:
        self.server.chats[place.chat].messages.append(message)
        self.server.add_event(place, message.sender, message, event)


def _person(name: str) -> Sender:
    return Sender(f"person-{name}", name)
