"""A bot for a chat platform, in forty lines: `receive` and `reply` stand for the platform's API.

What came in is stored before it is acknowledged, once for each of the platform's ids; what the platform
sends again gets the answer of the first time. Each room is a session. Here the platform is a terminal: lines
such as `room: hello`.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator

from holdfast import AskOptions, Host, TurnHandle, errors


async def receive() -> AsyncGenerator[tuple[str, str, str], None]:
    """The platform's updates: an id, a room and a text."""
    number = 0
    while line := await asyncio.to_thread(sys.stdin.readline):
        room, _, text = line.partition(":")
        number += 1
        yield str(number), room.strip(), text.strip()


async def reply(room: str, text: str) -> None:
    print(f"{room} <- {text}", flush=True)


async def answer(room: str, turn: TurnHandle) -> None:
    try:
        await reply(room, (await turn.result()).final_response)
    except errors.TurnError as problem:
        await reply(room, f"That did not work: {problem}")


async def main() -> None:
    host = Host(model="openai:gpt-5-mini", store="sqlite:///bot.db", after_crash="resume")
    async with host, asyncio.TaskGroup() as answers:
        async for update, room, text in receive():
            try:
                turn = await host.start_turn(room, text, AskOptions(key=f"{room}-{update}"))
            except errors.InvalidInput as problem:
                await reply(room, str(problem))
            else:
                answers.create_task(answer(room, turn))


asyncio.run(main())
