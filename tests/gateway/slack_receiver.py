"""`Receiver`: what the gateway does with batches, in memory: store events and cursors, then acknowledge."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from holdfast.gateway.adapters.slack import SlackAdapter
from holdfast.gateway.contract import Batch, Incoming
from tests.gateway.slack_platform import SlackPlatform

DEADLINE = 60.0


class Receiver:
    """Stores each event once, by its id. `cursors` outlives it, as the store does."""

    def __init__(self, adapter: SlackAdapter, cursors: Mapping[str, str]) -> None:
        self.adapter = adapter
        self.cursors = dict(cursors)
        self.events: dict[str, Incoming] = {}
        self.deliveries: list[str] = []
        self.batches: AsyncGenerator[Batch, None] = adapter.receive(self.cursors)

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.events.values()]

    async def take(self) -> Batch:
        """The next batch, stored and acknowledged."""
        batch = await anext(self.batches)
        self.store(batch)
        await batch.acknowledge()
        return batch

    def store(self, batch: Batch) -> None:
        self.cursors.update(batch.cursors)
        for event in batch.events:
            self.deliveries.append(event.id)
            self.events.setdefault(event.id, event)

    async def catch_up(self) -> None:
        while not (await self.take()).caught_up:
            pass

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self.take()

    async def count(self, events: int) -> list[Incoming]:
        await self.until(lambda: len(self.events) >= events)
        return list(self.events.values())

    async def close(self) -> None:
        await self.batches.aclose()
        await self.adapter.close()


@asynccontextmanager
async def slack(**options: Any) -> AsyncIterator[SlackPlatform]:  # noqa: ANN401 - of `SlackPlatform`
    """A small Slack for the length of a test, which must end within the deadline."""
    platform = SlackPlatform(**options)
    await platform.start()
    try:
        async with asyncio.timeout(DEADLINE):
            yield platform
    finally:
        await platform.close()


@asynccontextmanager
async def receiving(
    platform: SlackPlatform,
    cursors: Mapping[str, str] | None = None,
    **options: Any,  # noqa: ANN401 - of `SlackAdapter`
) -> AsyncIterator[Receiver]:
    """A receiver that has caught up."""
    receiver = Receiver(platform.slack_adapter(**options), cursors or {})
    try:
        await receiver.catch_up()
        yield receiver
    finally:
        await receiver.close()
