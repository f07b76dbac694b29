"""A conversation that goes on where it was: run this twice."""

import asyncio

from holdfast import Agent


async def main() -> None:
    async with Agent("openai:gpt-5-mini", store="sqlite:///chats.db", session="monday") as agent:
        if await agent.unfinished() is not None:  # the program died in the middle of an answer
            print("resumed:", (await agent.resume()).final_response)
        result = await agent.run("What did I ask you before?")
        print(result.final_response)
        print(f"{len(result.messages)} messages are on record")


asyncio.run(main())
