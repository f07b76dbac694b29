"""Random stories on Discord: whatever happens, each message is stored once and in its chat's order."""

import random

import pytest

from holdfast.gateway.contract import Place
from tests.gateway.discord_reader import StoringReader, run
from tests.gateway.discord_server import DiscordPlatform

STEPS = 40


class Story:
    """A gateway, three chats, and what was said in them."""

    def __init__(self, platform: DiscordPlatform, seed: int) -> None:
        self.platform = platform
        self.chance = random.Random(seed)
        self.places: list[Place] = []
        self.said: dict[str, list[str]] = {}
        self.stored: dict[str, list[str]] = {}
        self.reader: StoringReader | None = None
        self.cursors: dict[str, str] = {}

    async def play(self) -> None:
        talk = await self.platform.group(["ann"])
        self.places = [await self.platform.direct("ann"), talk, await self.platform.thread(talk)]
        await self.start()
        for place in self.places:
            await self.say(place)
        await self.all_stored()
        for _ in range(STEPS):
            await self.chance.choices(
                [self.say, self.say_reordered, self.repeat, self.restart, self.kick], [20, 3, 2, 4, 1]
            )[0]()
        await self.say()
        await self.all_stored()
        await self.stop()
        assert self.stored == self.said

    async def say(self, place: Place | None = None) -> None:
        where = place or self.chance.choice(self.places)
        own = await self.platform.say(where, "ann", "something")
        self.said.setdefault(where.thread or where.chat, []).append(own)

    async def say_reordered(self) -> None:
        # Only what Discord itself delivers late may change places, so everything before is stored.
        await self.all_stored()
        self.platform.sessions.hold()
        for _ in range(3):
            await self.say()
        await self.platform.sessions.deliver_reversed()

    async def repeat(self) -> None:
        await self.platform.deliver_again()

    async def kick(self) -> None:
        await self.platform.kick()
        await self.say()

    async def restart(self) -> None:
        """Killed at any moment; a few things are said while it is down."""
        await self.stop()
        for _ in range(self.chance.randrange(4)):
            await self.say()
        await self.start()

    async def start(self) -> None:
        self.reader = StoringReader(self.platform.adapter(), self.cursors)
        if self.chance.random() < 0.5 or not self.cursors:
            await self.reader.caught_up()

    async def stop(self) -> None:
        assert self.reader is not None
        await self.reader.stop()
        self.cursors = self.reader.cursors
        for event in self.reader.events:
            self.stored.setdefault(event.place.thread or event.place.chat, []).append(event.id)
        self.reader = None

    async def all_stored(self) -> None:
        expected = sum(map(len, self.said.values())) - sum(map(len, self.stored.values()))
        assert self.reader is not None
        await self.reader.received(expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_each_message_is_stored_once_and_in_order(seed: int) -> None:
    async def story(platform: DiscordPlatform) -> None:
        await Story(platform, seed).play()

    run(story, seconds=120)
