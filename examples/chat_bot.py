"""A bot for a chat platform, in forty lines: `receive` and `reply` stand for the platform's API.

What came in is stored before it is acknowledged, once for each of the platform's ids, also when it is sent
again; each room is a session. Here the platform is a terminal: lines such as `room: hello`.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator

from holdfast import Host, errors, events


async def receive() -> AsyncGenerator[tuple[str, str, str], None]:
    """The platform's updates: an id, a room and a text."""
    number = 0
    while line := await asyncio.to_thread(sys.stdin.readline):
        room, _, text = line.partition(":")
        number += 1
        yield str(number), room.strip(), text.strip()


async def reply(room: str, text: str) -> None:
    print(f"{room} <- {text}", flush=True)


async def answer(host: Host, room: str) -> None:
    async for event in host.follow(room):
        if isinstance(event, events.TurnCompleted):
            await reply(room, event.final_response)
        if isinstance(event, events.TurnFailed):
            await reply(room, f"That did not work: {event.error}")


async def main() -> None:
    rooms: dict[str, asyncio.Task[None]] = {}
    async with Host(model="openai:gpt-5-mini", store="sqlite:///bot.db", after_crash="resume") as host:
        async for update, room, text in receive():
            if room not in rooms:
                rooms[room] = asyncio.create_task(answer(host, room))
            try:
                await host.send(room, text, key=f"{room}-{update}")
            except errors.InvalidInput as problem:
                await reply(room, str(problem))
        while (await host.status()).running:
            await asyncio.sleep(0.1)


asyncio.run(main())
