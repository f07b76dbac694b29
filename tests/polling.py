"""How often a test looks for what another thread or process brings about: often at first, then seldom."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

SHORTEST, LONGEST = 0.002, 0.05


def pauses() -> Iterator[float]:
    """The seconds between one look and the next, without end."""
    pause = SHORTEST
    while True:
        yield pause
        pause = min(LONGEST, pause * 1.3)


async def until_seen(look: Callable[[], Awaitable[object]]) -> None:
    """Look until what is looked for is there, under the test's deadline."""
    for pause in pauses():
        if await look():
            return
        await asyncio.sleep(pause)  # noqa: TID251 - polls under a deadline
