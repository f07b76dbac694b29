"""Stories on Matrix: a test with a platform, people and an adapter, on an event loop of its own."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

from holdfast.gateway.adapters.matrix import MatrixAdapter
from holdfast.gateway.contract import Batch, Incoming
from holdfast.process import run
from tests.gateway.matrix_platform import MatrixPlatform
from tests.gateway.synapse_server import SynapseServer

DEADLINE = 120.0
Story = Callable[[MatrixPlatform, MatrixAdapter], Awaitable[None]]


def on_matrix(story: Story) -> Callable[[SynapseServer], None]:
    """A test with a platform and an adapter for it, on an event loop of its own."""

    async def played(server: SynapseServer) -> None:
        platform = MatrixPlatform(server)
        await platform.start()
        adapter = platform.adapter()
        try:
            async with asyncio.timeout(DEADLINE):
                await story(platform, adapter)
        finally:
            await adapter.close()
            await platform.close()

    def test(synapse: SynapseServer) -> None:
        run(played(synapse))

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


@asynccontextmanager
async def receiving(
    adapter: MatrixAdapter, cursor: str = ""
) -> AsyncGenerator[AsyncGenerator[Batch, None], None]:
    async with aclosing(adapter.receive({"": cursor} if cursor else {})) as batches:
        yield batches


async def started(batches: AsyncGenerator[Batch, None]) -> str:
    """Receive the first batch, which must be empty; returns the cursor."""
    batch = await anext(batches)
    assert batch.events == ()
    assert batch.caught_up
    return batch.cursors[""]


async def received(batches: AsyncGenerator[Batch, None], count: int) -> list[Incoming]:
    events: list[Incoming] = []
    while len(events) < count:
        events.extend((await anext(batches)).events)
    assert len(events) == count
    return events


async def next_message(batches: AsyncGenerator[Batch, None]) -> Incoming:
    return (await received(batches, 1))[0]
