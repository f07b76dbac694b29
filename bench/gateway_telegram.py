"""`python -m bench.gateway_telegram`: the small Telegram server of the tests, with Telegram's limits.

It prints its address, the bot's token and the id of the first person. A line `say FIRST LAST` lets these
people write to the bot, each in a chat of their own.
"""

import asyncio
import sys

SAY = "say"
TEXT = "Count to a hundred."


async def main() -> None:
    from tests.gateway.telegram_platform import FIRST_PERSON, TelegramPlatform
    from tests.gateway.telegram_server import TOKEN

    platform = TelegramPlatform()
    platform.server.rate.chat_seconds, platform.server.rate.account_per_second = 1.0, 30
    await platform.start()
    print(platform.server.url, TOKEN, FIRST_PERSON, flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        _, first, last = line.split()
        for number in range(int(first), int(last)):
            person = str(number)
            await platform.say(await platform.direct(person), person, TEXT)
        print("said", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
