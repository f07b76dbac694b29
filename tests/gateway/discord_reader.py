"""`StoringReader`: reads an adapter as the gateway does, so that a test sees what would be stored."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from holdfast.gateway.adapters.discord import DiscordAdapter
from holdfast.gateway.contract import Batch, Button, Incoming, Outgoing, Place, Route, Unreachable
from tests.gateway.discord_server import DiscordPlatform

DEADLINE_SECONDS = 30.0

T = TypeVar("T")


class StoringReader:
    """Stores each batch, acknowledges it, and asks again with the stored cursors after a break."""

    def __init__(self, adapter: DiscordAdapter, cursors: Mapping[str, str] | None = None) -> None:
        self.adapter = adapter
        self.cursors = dict(cursors or {})
        self.batches: list[Batch] = []
        self.breaks = 0
        self._changed = asyncio.Condition()
        self._task = asyncio.create_task(self._read())

    @property
    def events(self) -> list[Incoming]:
        return [event for batch in self.batches for event in batch.events]

    @property
    def channels(self) -> dict[str, str]:
        """The cursors of channels, without the account's."""
        return {channel: cursor for channel, cursor in self.cursors.items() if channel}

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.events]

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: is_so() or self._task.done())
        if not is_so():
            self._task.result()

    async def caught_up(self, times: int = 1) -> None:
        await self.until(lambda: sum(not b.events and set(b.cursors) <= {""} for b in self.batches) >= times)

    async def received(self, count: int) -> list[Incoming]:
        await self.until(lambda: len(self.events) >= count)
        return self.events

    async def stop(self) -> None:
        """As a killed gateway: the adapter is closed, whatever it held is gone."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self.adapter.close()

    async def _read(self) -> None:
        while True:
            source = self.adapter.receive(dict(self.cursors))
            try:
                await self._store(source)
            except Unreachable:
                self.breaks += 1
                async with self._changed:
                    self._changed.notify_all()
            finally:
                await source.aclose()

    async def _store(self, source: AsyncGenerator[Batch, None]) -> None:
        async for batch in source:
            self.cursors |= batch.cursors
            self.batches.append(batch)
            await batch.acknowledge()
            async with self._changed:
                self._changed.notify_all()


def run(story: Callable[[DiscordPlatform], Awaitable[T]], seconds: float = DEADLINE_SECONDS) -> T:
    """Run a test's story on a platform of its own, under a deadline."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            platform = DiscordPlatform()
            await platform.start()
            try:
                return await story(platform)
            finally:
                await platform.close()

    return asyncio.run(bounded())


@asynccontextmanager
async def reading(
    platform: DiscordPlatform, cursors: Mapping[str, str] | None = None
) -> AsyncIterator[StoringReader]:
    """A reader that has caught up."""
    reader = StoringReader(platform.adapter(), cursors)
    try:
        await reader.caught_up()
        yield reader
    finally:
        await reader.stop()


def route(place: Place, reply_to: str = "") -> Route:
    return Route(place, reply_to)


def text(markdown: str, *buttons: str) -> Outgoing:
    return Outgoing(markdown, tuple(Button(value.title(), value) for value in buttons))
