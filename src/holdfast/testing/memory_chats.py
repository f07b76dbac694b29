"""The server of the chat platform in memory: chats, messages, events, faults and limits.

`memory_adapter.py` is the bot's side of it, `memory_platform.py` the side of the people and of the test.
"""

import asyncio
import mimetypes
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from holdfast.core.contract import Clock
from holdfast.gateway.contract import (
    AdapterTraits,
    ChatFile,
    Command,
    FileTooLarge,
    Incoming,
    NotTaken,
    Outgoing,
    Place,
    Route,
    Sender,
    SendRefused,
    SlowDown,
    Unreachable,
)
from holdfast.testing.chat_platform import Fault

BOT = Sender("bot", "Bot", is_bot=True)
CallKind = Literal["send", "edit", "delete", "react", "typing", "look", "press", "download", "history"]
LIMITED: frozenset[CallKind] = frozenset(("send", "edit", "typing"))
"""The calls that a chat's least time and the account's rate count."""

ROUNDING = 1e-6
"""A wait in seconds that is no more than the error of adding times."""


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """How the platform in memory behaves, apart from the traits."""

    measure: Callable[[str], int] = len
    """How large a text is on this platform."""
    enforces_limits: bool = False
    """Refuse with `SlowDown` what comes faster than the traits allow."""
    page: int = 10
    """How many missed events come in one batch."""
    redelivers: bool = False
    """Deliver what was not acknowledged again, also when the cursor is past it."""
    tells_not_taken: bool = True
    """Whether `drop before` is seen as `NotTaken`; else as `Unreachable`, like a call that was taken."""
    slow_seconds: float = 1.0
    """The wait that the fault `slow down` asks for."""


@dataclass(frozen=True, slots=True)
class PlatformCall:
    """A call of the bot. `taken` is whether the platform did it."""

    kind: CallKind
    chat: str
    at: float
    """When, on the clock's `monotonic`."""
    taken: bool = True


@dataclass(slots=True)
class StoredMessage:
    """A message in a chat."""

    id: str
    sender: Sender
    text: str
    thread: str = ""
    reply_to: str = ""
    buttons: tuple[tuple[str, str], ...] = ()
    file: bytes | None = None
    file_name: str = ""
    key: str = ""
    sent: float = 0.0
    reactions: list[str] = field(default_factory=list)
    is_silent: bool = False
    edits: int = 0


@dataclass(slots=True)
class Chat:
    id: str
    title: str
    is_direct: bool
    messages: list[StoredMessage] = field(default_factory=list)
    deleted: list[StoredMessage] = field(default_factory=list)
    """Messages of the bot whose keys are still known, as on the platforms that have keys."""
    threads: set[str] = field(default_factory=set)
    has_bot: bool = True

    def message(self, message_id: str) -> StoredMessage | None:
        return next((each for each in self.messages if each.id == message_id), None)


@dataclass(eq=False, slots=True)
class Receiver:
    """A connection through which the bot receives."""

    woken: asyncio.Event = field(default_factory=asyncio.Event)
    state: Literal["open", "broken", "replaced"] = "open"
    again: list[Incoming] = field(default_factory=list)

    def wake(self) -> None:
        # The loop of a gateway that a test abandoned may be closed.
        with suppress(RuntimeError):
            self.woken.set()


class MemoryChatServer:
    """The platform's state. Everything runs on one event loop; nothing blocks."""

    def __init__(self, traits: AdapterTraits, options: MemoryOptions, clock: Clock) -> None:
        self.traits = traits
        self.options = options
        self.clock = clock
        self.chats: dict[str, Chat] = {}
        self.files: dict[str, bytes] = {}
        self.events: list[Incoming] = []
        """Every event for the bot; its sequence id is its index plus one."""
        self.delivered = 0
        self.acknowledged = 0
        self.again: list[Incoming] = []
        """What the next connection gets once more."""
        self.receiver: Receiver | None = None
        self.calls: list[PlatformCall] = []
        self.commands: list[Command] = []
        self.press_notes: list[tuple[str, str]] = []
        """The tokens of confirmed presses with what the person was told."""
        self.accepts_token = True
        self.faults: deque[Fault] = deque()
        self._last_id: Counter[str] = Counter()
        self._typing: dict[Place, float] = {}
        self._changes: set[asyncio.Event] = set()

    # What both sides use.

    def new_id(self, prefix: str) -> str:
        self._last_id[prefix] += 1
        return f"{prefix}{self._last_id[prefix]}"

    def changed(self) -> None:
        """Wake everybody who waits for something to happen on the platform."""
        if self.receiver is not None:
            self.receiver.wake()
        for each in self._changes:
            each.set()

    async def until(self, holds: Callable[[], bool], seconds: float) -> None:
        """Wait until this holds; it is asked again after each change. `TimeoutError` after real seconds."""
        change = asyncio.Event()
        self._changes.add(change)
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    await change.wait()
                    change.clear()
        finally:
            self._changes.discard(change)

    def is_typing(self, place: Place) -> bool:
        return self._typing.get(place, 0.0) > self.clock.monotonic()

    # The people's side.

    def add_chat(self, title: str, *, is_direct: bool) -> Chat:
        chat = Chat(self.new_id("chat"), title, is_direct)
        self.chats[chat.id] = chat
        return chat

    def add_event(self, place: Place, sender: Sender, message: StoredMessage, event: Incoming) -> None:
        """Fill in what every event has, and deliver it."""
        chat = self.chats[place.chat]
        answered = chat.message(message.reply_to)
        self.events.append(
            replace(
                event,
                id=f"event{len(self.events) + 1}",
                place=place,
                sender=sender,
                sent=int(self.clock.now() * 1_000_000),
                is_direct=chat.is_direct,
                is_mention=event.is_mention or (answered is not None and answered.sender.id == BOT.id),
                chat_title=chat.title,
                message_id=message.id,
                reply_to="" if event.kind == "press" else message.reply_to,
                quoted=answered.text if answered is not None and event.kind == "message" else "",
            )
        )
        self.changed()

    def store_file(self, name: str, content: bytes) -> ChatFile:
        ref = self.new_id("file")
        self.files[ref] = content
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return ChatFile(ref, name, media_type, len(content), is_voice=media_type.startswith("audio/"))

    # The bot's side.

    def open_receiver(self) -> Receiver:
        """The newest connection receives; the one before it learns that it was replaced."""
        if self.receiver is not None:
            self.receiver.state = "replaced"
            self.receiver.wake()
        self.receiver = Receiver(again=self.again)
        self.again = []
        return self.receiver

    def send(self, route: Route, message: Outgoing, key: str, content: bytes | None) -> str:
        with_answer = self._begin("send", route)
        chat = self._checked(route, message, content)
        known = self._sent_with(chat, key)
        if known is None:
            known = StoredMessage(
                id=self.new_id("message"),
                sender=BOT,
                text=message.text,
                thread=route.place.thread,
                reply_to=route.reply_to,
                buttons=tuple((each.label, each.value) for each in message.buttons),
                file=content,
                file_name=message.file.name if message.file is not None else "",
                key=key,
                sent=self.clock.monotonic(),
                is_silent=message.is_silent,
            )
            chat.messages.append(known)
            self._typing.pop(route.place, None)
        return self._finished(known.id, with_answer=with_answer)

    def edit(self, route: Route, message_id: str, message: Outgoing) -> None:
        with_answer = self._begin("edit", route)
        chat = self._checked(route, message, None)
        stored = chat.message(message_id)
        if stored is None or stored.sender.id != BOT.id or not self.traits.can_edit:
            raise SendRefused(f"no message of the bot to edit: {message_id}")
        buttons = tuple((each.label, each.value) for each in message.buttons)
        if (stored.text, stored.buttons) != (message.text, buttons):
            stored.text, stored.buttons = message.text, buttons
            stored.edits += 1
        self._finished(message_id, with_answer=with_answer)

    def delete(self, route: Route, message_id: str) -> None:
        chat = self.call("delete", route.place)
        found = [each for each in chat.messages if each.id == message_id and each.sender.id == BOT.id]
        chat.messages = [each for each in chat.messages if each not in found]
        chat.deleted += found
        self.changed()

    def react(self, route: Route, message_id: str, emoji: str) -> None:
        message = self.call("react", route.place).message(message_id)
        if message is None:
            raise SendRefused(f"no message {message_id}")
        if emoji not in message.reactions:
            message.reactions.append(emoji)
        self.changed()

    def show_typing(self, route: Route) -> None:
        self._begin("typing", route)
        self._chat(route)
        if self.traits.typing_seconds:
            self._typing[route.place] = self.clock.monotonic() + self.traits.typing_seconds
        self.changed()

    def stop_typing(self, route: Route) -> None:
        self._typing.pop(route.place, None)
        self.changed()

    def call(self, kind: CallKind, place: Place) -> Chat:
        """A call that neither faults nor limits touch."""
        self.calls.append(PlatformCall(kind, place.chat, self.clock.monotonic()))
        return self._chat(Route(place))

    def find_sent(self, route: Route, key: str) -> str | None:
        chat = self.call("look", route.place)
        if self.traits.repeat == "placeholder":
            return None
        return next((each.id for each in chat.messages if each.key == key), None)

    def _begin(self, kind: CallKind, route: Route) -> bool:
        """Count the call; raise what stops it. False when its answer will be lost."""
        now = self.clock.monotonic()
        fault = self.faults.popleft() if self.faults and kind != "typing" else None
        self.calls.append(PlatformCall(kind, route.place.chat, now, taken=False))
        if fault == "slow down":
            raise SlowDown(self.options.slow_seconds)
        if fault == "refuse":
            raise SendRefused("the platform was told to refuse this")
        if fault == "drop before":
            raise (NotTaken if self.options.tells_not_taken else Unreachable)("the connection broke")
        if self.options.enforces_limits:
            self._check_limits(route.place.chat, now)
        self.calls[-1] = replace(self.calls[-1], taken=True)
        return fault != "drop after"

    def _check_limits(self, chat: str, now: float) -> None:
        since = max(self.traits.chat_seconds, 1.0)
        recent: list[PlatformCall] = []
        for each in reversed(self.calls):
            if each.at <= now - since:
                break
            if each.taken and each.kind in LIMITED:
                recent.append(each)
        in_a_second = [each.at for each in recent if each.at > now - 1.0 + ROUNDING]
        if len(in_a_second) >= self.traits.account_per_second:
            raise SlowDown(in_a_second[-1] + 1.0 - now, whole_account=True)
        ready = max((each.at + self.traits.chat_seconds for each in recent if each.chat == chat), default=now)
        if ready - now > ROUNDING:
            raise SlowDown(ready - now)

    def _finished(self, message_id: str, *, with_answer: bool) -> str:
        self.changed()
        if not with_answer:
            raise Unreachable("the connection broke before the answer came")
        return message_id

    def _sent_with(self, chat: Chat, key: str) -> StoredMessage | None:
        if self.traits.repeat != "key":
            return None
        kept = self.traits.key_seconds
        since = self.clock.monotonic() - kept if kept else float("-inf")
        known = [*chat.messages, *chat.deleted]
        return next((each for each in known if each.key == key and each.sent > since), None)

    def _chat(self, route: Route) -> Chat:
        chat = self.chats.get(route.place.chat)
        if chat is None or not chat.has_bot:
            raise SendRefused(f"the bot is in no chat {route.place.chat}")
        if route.place.thread and route.place.thread not in chat.threads:
            raise SendRefused(f"chat {chat.id} has no thread {route.place.thread}")
        return chat

    def _checked(self, route: Route, message: Outgoing, content: bytes | None) -> Chat:
        chat = self._chat(route)
        if self.options.measure(message.text) > self.traits.max_size:
            raise SendRefused(f"a message has at most {self.traits.max_size}")
        if content is not None and len(content) > self.traits.max_upload:
            raise FileTooLarge(f"a file has at most {self.traits.max_upload} bytes")
        if message.buttons and not self.traits.has_buttons:
            raise SendRefused("the platform has no buttons")
        return chat
