"""The people of the gateway's long run: they say numbered messages in several chats, and read the answers."""

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.gateway_soak.model import words_of
from holdfast.gateway.contract import Place
from holdfast.gateway.post_text import PLACEHOLDER
from holdfast.testing.chat_platform import SeenMessage
from tests.gateway.chat_sites import ChatSite

PEOPLE = ("ada", "bob", "cyd")
APART = 2.7
"""Messages of one person that come faster may become one."""
MOST_UNANSWERED = 3
LOOK_SECONDS = 0.3
_WORD = re.compile(r"\ba(\d+)w(\d+)\b")


@dataclass(frozen=True)
class Said:
    """A message of a person."""

    number: int
    kind: str
    message_id: str


@dataclass
class Room:
    """A chat or a thread, and who talks in it."""

    place: Place
    people: Sequence[str]
    mention: bool
    said: list[Said] = field(default_factory=list)
    last: float = 0.0
    """When something was said, by the clock that only goes on."""


class Talk:
    """All rooms of a run."""

    def __init__(self, site: ChatSite, seed: int) -> None:
        self.site = site
        self._chance = random.Random(seed)  # noqa: S311 - it chooses what is said
        self._numbers = 0
        self.rooms: list[Room] = []

    async def open_rooms(self) -> None:
        platform = self.site.platform
        for person in PEOPLE:
            self.rooms.append(Room(await platform.direct(person), [person], mention=False))
        self.rooms.append(Room(await platform.group(PEOPLE), PEOPLE, mention=True))
        for _ in range(2):
            self.rooms.append(Room(await self.site.thread(PEOPLE), PEOPLE, mention=True))

    async def go_on(self, enough: asyncio.Event) -> None:
        """Everybody talks until it is enough."""
        await asyncio.gather(*(self._talk(room, enough) for room in self.rooms))

    async def _talk(self, room: Room, enough: asyncio.Event) -> None:
        while not enough.is_set():
            unanswered = await self.unanswered(room)
            if unanswered < MOST_UNANSWERED and time.monotonic() - room.last > APART:
                await self.say(room)
            await asyncio.sleep(APART + self._chance.expovariate(0.12))

    async def speak_up(self) -> None:
        """Somebody says something in a room where it was quiet."""
        quiet = [room for room in self.rooms if time.monotonic() - room.last > APART]
        if quiet:
            await self.say(self._chance.choice(quiet))

    async def say(self, room: Room) -> None:
        self._numbers += 1
        room.last = time.monotonic()
        number = self._numbers
        # A group is a guest, which has no tool to look with.
        kind = self._chance.choices(["say", "long", "look"], weights=[8, 1, 0 if room.mention else 2])[0]
        person = self._chance.choice(list(room.people))
        own = await self.site.platform.say(room.place, person, f"{kind} #{number}", mention=room.mention)
        room.said.append(Said(number, kind, own))

    async def unanswered(self, room: Room, count: int | None = None) -> int:
        """How many of the messages, or of the first `count`, have no whole answer yet."""
        ends = {words_of(each.kind, each.number)[-1] for each in room.said[:count]}
        for message in await self.of_bot(room):
            ends -= set(message.text.split())
        return len(ends)

    async def waiting(self) -> int:
        """How many messages have no whole answer yet."""
        return sum([await self.unanswered(room) for room in self.rooms])

    async def until_answered(self) -> None:
        """Wait until all that was said so far is answered."""
        counts = [(room, len(room.said)) for room in self.rooms]
        while True:
            if not sum([await self.unanswered(room, count) for room, count in counts]):
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def of_bot(self, room: Room) -> list[SeenMessage]:
        return [each for each in await self.site.platform.messages(room.place) if each.by_bot]

    async def audit(self) -> Counter[str]:
        """What the rooms show: each message answered once, in order, in its place, as an answer to it."""
        found: Counter[str] = Counter(
            dict.fromkeys(("messages", "answered once", *FAULTS, "placeholders too many"), 0)
        )
        for room in self.rooms:
            found += await self._audit_room(room)
        return found

    async def _audit_room(self, room: Room) -> Counter[str]:
        found: Counter[str] = Counter(messages=len(room.said))
        shown: dict[int, list[tuple[int, SeenMessage]]] = {}
        order = []
        for message in await self.of_bot(room):
            words = _WORD.findall(message.text)
            if not words:
                is_placeholder = message.text == PLACEHOLDER
                found["placeholders too many" if is_placeholder else "something else said"] += 1
                if not is_placeholder:
                    print(f"something else: {message.text[:300]}")
            for number, at in words:
                if int(number) not in shown:
                    order.append(int(number))
                shown.setdefault(int(number), []).append((int(at), message))
        for said in room.said:
            found[self._fate(room, said, shown.pop(said.number, []))] += 1
        found["in the wrong place"] += len(shown)
        asked = [said.number for said in room.said if said.number in order]
        if self.site.has_order_in_groups or room.place.thread or not room.mention:
            found["out of order"] += sum(a != b for a, b in zip(asked, order, strict=False))
        return found

    def _fate(self, room: Room, said: Said, shown: Sequence[tuple[int, SeenMessage]]) -> str:
        wanted = len(words_of(said.kind, said.number))
        numbers = [at for at, _ in shown]
        if numbers == list(range(1, wanted + 1)):
            is_reply = shown[0][1].reply_to == self.site.answers(room.place, said.message_id)
            return "answered once" if is_reply else "not as an answer to it"
        print(f"#{said.number} {said.kind}: {len(numbers)} of {wanted} words, {sorted(set(numbers))[:3]}…")
        if not numbers:
            return "NOT ANSWERED"
        return "DOUBLED" if len(set(numbers)) < len(numbers) else "in part"


FAULTS = (
    "NOT ANSWERED",
    "DOUBLED",
    "in part",
    "out of order",
    "in the wrong place",
    "not as an answer to it",
    "something else said",
)
