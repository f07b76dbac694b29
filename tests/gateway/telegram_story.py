"""Tests that play a story on Telegram: an async test gets a server that runs, and is ended by a deadline."""

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, ParamSpec

from holdfast.gateway.contract import Batch
from holdfast.process import run
from tests.gateway.telegram_platform import TelegramPlatform

LONG = 60.0  # a deadline, never reached
P = ParamSpec("P")


def played(story: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test, with its fixture `telegram` started before and closed after."""

    @functools.wraps(story)
    def test(*args: P.args, **fixtures: P.kwargs) -> None:
        telegram = fixtures["telegram"]
        assert isinstance(telegram, TelegramPlatform)

        async def main() -> None:
            await telegram.start()
            try:
                async with asyncio.timeout(LONG):
                    await story(*args, **fixtures)
            finally:
                await telegram.close()

        run(main())

    return test


def told(story: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test that only tells what people do; the server is not started."""

    @functools.wraps(story)
    def test(*args: P.args, **fixtures: P.kwargs) -> None:
        run(story(*args, **fixtures))

    return test


class Reader:
    """Reads batches as the gateway does: it asks for the next one only when it has kept the last."""

    def __init__(self, batches: AsyncGenerator[Batch, None]) -> None:
        self._batches = batches
        self.cursors: dict[str, str] = {}

    async def read(self) -> Batch:
        batch = await anext(self._batches)
        self.cursors.update(batch.cursors)
        return batch

    async def close(self) -> None:
        await self._batches.aclose()


async def cursors_of_now(telegram: TelegramPlatform) -> dict[str, str]:
    """The cursors of a gateway that starts for the first time."""
    adapter = telegram.adapter()
    async with aclosing(adapter.receive({})) as batches:
        first = await anext(batches)
    return dict(first.cursors)
