"""`MovedGroups`: groups of Telegram that became supergroups, which gives them another id.

For the gateway such a group keeps its first id, and with it its conversation, memory and role. Its messages
are numbered anew, so that their ids name the new chat too: -100123/7.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from aiogram.types import Message

from holdfast.gateway.contract import Incoming, Place, Route, SendRefused

T = TypeVar("T")

CURSOR = "moved:"
APART = "/"


class GroupMoved(SendRefused):
    """The group has another id now; nothing was done."""

    def __init__(self, text: str, chat: int) -> None:
        super().__init__(text)
        self.chat = str(chat)


class MovedGroups:
    """The first and the present id of each group that moved."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}
        """By the first id, the present one."""
        self._first: dict[str, str] = {}

    def load(self, cursors: Mapping[str, str]) -> None:
        """Take up what was stored with the cursors."""
        for name, first in cursors.items():
            if name.startswith(CURSOR):
                self._learn(first, name.removeprefix(CURSOR))

    def cursors(self) -> dict[str, str]:
        """What is to be stored with the cursors."""
        return {f"{CURSOR}{now}": first for first, now in self._now.items()}

    def note(self, message: Message) -> None:
        """A message may say that its group moves or has moved."""
        if message.migrate_to_chat_id is not None:
            self._learn(str(message.chat.id), str(message.migrate_to_chat_id))
        elif message.migrate_from_chat_id is not None:
            self._learn(str(message.migrate_from_chat_id), str(message.chat.id))

    def _learn(self, first: str, now: str) -> None:
        self._now[first] = now
        self._first[now] = first

    async def follow(self, route: Route, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call; once more, with the new id, when Telegram says that the group has moved."""
        try:
            return await call()
        except GroupMoved as moved:
            self._learn(route.place.chat, moved.chat)
        return await call()

    def placed(self, event: Incoming) -> Incoming:
        """The event as one of the group that the gateway knows."""
        chat = event.place.chat
        first = self._first.get(chat)
        if first is None:
            return event
        return replace(
            event,
            id=f"{chat}{APART}{event.id}",
            place=Place(first, event.place.thread),
            reply_to=event.reply_to and f"{chat}{APART}{event.reply_to}",
            message_id=f"{chat}{APART}{event.message_id}",
        )

    def chat_of(self, route: Route) -> int:
        """The id by which Telegram knows the chat now."""
        return int(self._now.get(route.place.chat, route.place.chat))

    def id_of(self, route: Route, number: int) -> str:
        """The gateway's id of a message with this number in the chat."""
        now = self._now.get(route.place.chat)
        return str(number) if now is None else f"{now}{APART}{number}"

    def number_of(self, route: Route, message_id: str) -> int | None:
        """The number of a message in the chat; None when it stayed in the group that was there before."""
        chat, _, number = message_id.rpartition(APART)
        return int(number) if chat == self._now.get(route.place.chat, "") else None

    def own_number(self, route: Route, message_id: str) -> int:
        """The same, for a message that is to be changed."""
        number = self.number_of(route, message_id)
        if number is None:
            raise SendRefused("the message stayed in the group that became a supergroup")
        return number
